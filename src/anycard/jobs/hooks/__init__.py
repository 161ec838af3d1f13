"""Webhooks: what of the event log is told to an address outside, in which shape, and how it gets there."""
