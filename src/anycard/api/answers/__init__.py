"""What the API answers, as the published OpenAPI document shows it. The daemon builds these as plain dicts (jobs/views.py, cards/views.py,
api/system.py): a test holds the two together.

Sizes in bytes, lengths in seconds, times RFC 3339 UTC. A sentence for people comes three times: in English, and as ``_msgid`` and
``_params`` for faces that translate. What is not known is null.
"""

from __future__ import annotations

from anycard.api.answers.base import Problem, ProblemError
from anycard.api.answers.cards import Card, CardProcess, Cards, CardsLink, CardsProblem, NodeAccess, OtherDevice
from anycard.api.answers.doctor import (
    Diagnosis,
    DoctorAttempt,
    DoctorFact,
    DoctorFinding,
    DoctorNote,
    DoctorPlace,
    DoctorStep,
)
from anycard.api.answers.jobs import (
    Counts,
    DemandShape,
    Event,
    EventsPage,
    Item,
    ItemsPage,
    Job,
    JobsPage,
    ModelFit,
    News,
    Progress,
    Refused,
    Submitted,
    SubmittedJob,
    SubmittedMany,
)
from anycard.api.answers.report import IdleStretch, Report, ReportCard, ReportFinding
from anycard.api.answers.sizing import LearntKind, SizedPart, SizedRun, Sizing
from anycard.api.answers.system import BackedUp, Down, PageLink, Pruned, PruneFailure, Status

__all__ = [
    "BackedUp",
    "Card",
    "CardProcess",
    "Cards",
    "CardsLink",
    "CardsProblem",
    "Counts",
    "DemandShape",
    "Diagnosis",
    "DoctorAttempt",
    "DoctorFact",
    "DoctorFinding",
    "DoctorNote",
    "DoctorPlace",
    "DoctorStep",
    "Down",
    "Event",
    "EventsPage",
    "IdleStretch",
    "Item",
    "ItemsPage",
    "Job",
    "JobsPage",
    "LearntKind",
    "ModelFit",
    "News",
    "NodeAccess",
    "OtherDevice",
    "PageLink",
    "Problem",
    "ProblemError",
    "Progress",
    "PruneFailure",
    "Pruned",
    "Refused",
    "Report",
    "ReportCard",
    "ReportFinding",
    "SizedPart",
    "SizedRun",
    "Sizing",
    "Status",
    "Submitted",
    "SubmittedJob",
    "SubmittedMany",
]
