"""Job files: a superset of the SkyPilot task YAML (docs/job-file.md). ``parse`` reads the text, ``resolve`` looks at the machine."""
