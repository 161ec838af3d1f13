"""The supervisor: a small process that starts, stops and times attempts and outlives the daemon.

Its modules import little (no dataclasses, typing, pathlib, logging, subprocess) so that it stays under 15 MB.
"""
