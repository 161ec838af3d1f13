"""Job files: a superset of the SkyPilot task YAML (docs/job-file.md). ``parse`` reads the text, ``resolve`` looks at the machine."""

from anycard.jobs.file.faults import Fault, JobFileError
from anycard.jobs.file.foreach import item_variables
from anycard.jobs.file.parse import ParsedJob, parse
from anycard.jobs.file.resolve import Resolved, from_command, resolve
from anycard.jobs.file.setup_key import setup_key

__all__ = [
    "Fault",
    "JobFileError",
    "ParsedJob",
    "Resolved",
    "from_command",
    "item_variables",
    "parse",
    "resolve",
    "setup_key",
]
