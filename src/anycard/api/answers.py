"""What the API answers, as the published OpenAPI document shows it. The daemon builds these as plain dicts (jobs/views.py, cards/views.py,
api/system.py): a test holds the two together.

Sizes in bytes, lengths in seconds, times RFC 3339 UTC. A sentence for people comes three times: in English, and as ``_msgid`` and
``_params`` for faces that translate. What is not known is null.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Problem(_Answer):
    """Every error: ``code`` is stable, ``message`` and ``hint`` are for people, ``faults`` lists all that is wrong in a job file or a
    request."""

    error: ProblemError
    faults: list[dict[str, Any]]


class ProblemError(_Answer):
    code: str = Field(description="usage, not-found, conflict, forbidden, unavailable, internal ...")
    message: str
    hint: str | None
    msgid: str
    hint_msgid: str | None
    params: dict[str, Any]


class ModelFit(_Answer):
    """Of a job whose file names its model: what it needs a card, beside what it may use at best."""

    fit: str = Field(description="fits, some-cards, tight, unlikely, never or unknown")
    text: str
    msgid: str
    params: dict[str, Any]
    need_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    have_bytes: int | None


class SubmittedJob(_Answer):
    id: int
    name: str
    n_items: int
    fit: ModelFit | None = Field(description="null: its file names no model")


class Submitted(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.submitted/1"])
    jobs: list[SubmittedJob]
    ignored: list[str] = Field(description="keys of other systems that mean nothing here")
    warnings: list[str]


class Refused(Problem):
    status: int = Field(description="what a single submit would have been answered with")


class SubmittedMany(_Answer):
    """An answer for each submission, in their order: what it made, or what was wrong with it."""

    schema_: str = Field(alias="schema", examples=["anycard.submitted-many/1"])
    answers: list[Submitted | Refused]


class Counts(_Answer):
    """Items by what became of them."""

    items: int
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


class DemandShape(_Answer):
    """What one item asks for; several are alternatives in order."""

    cpus: float
    memory_bytes: int | None
    card_count: int
    card: Any


class Job(_Answer):
    """JOB."""

    schema_: str = Field(alias="schema", examples=["anycard.job/1"])
    id: int
    name: str
    tenant: str
    user: str
    kind: str
    state: str = Field(description="queued, running, succeeded, partly-failed, failed, cancelled")
    held: bool
    priority: int
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    pruned_at: str | None = Field(description="its items, logs and outputs are gone since; null: all there")
    reason: str | None = Field(description="why it waits, or what became of it")
    reason_msgid: str | None
    reason_params: dict[str, Any] | None
    position: int | None = Field(description="in the queue, 1 is next")
    sooner: str | None = Field(description="what would start it sooner")
    sooner_msgid: str | None
    sooner_params: dict[str, Any] | None
    counts: Counts
    sizing: dict[str, Any] | None = Field(
        description="what its model needs (anycard.model in its file), in bytes; null when it names none, and in lists of jobs"
    )
    demand: list[DemandShape]
    outputs: str = Field(description="folder of its items' outputs")
    failed_file: str | None


class JobsPage(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.jobs/1"])
    jobs: list[Job]
    next_cursor: str | None


class Progress(_Answer):
    done: float
    total: float | None
    message: str | None


class Item(_Answer):
    """ITEM: one element of a job; a plain job has one."""

    item: int
    values: dict[str, Any] = Field(description="of foreach: the variables its program sees")
    state: str = Field(description="queued, starting, running, stopping, succeeded, failed, cancelled")
    attempts: int
    reason: str | None
    reason_msgid: str | None
    reason_params: dict[str, Any] | None
    end_reason: str | None = Field(description="of the last attempt, out of a closed list")
    cause: str | None = Field(description="what the doctor says was behind it, where its log proves it")
    exit_code: int | None
    started_at: str | None
    ended_at: str | None
    run_s: float | None
    cards: list[str]
    log: str | None = Field(description="file of the last attempt")
    output: str | None = Field(description="folder, when it succeeded and wrote any")
    progress: Progress | None = Field(
        description="of a running item, as its program tells it (anycard.checkpoint.progress)"
    )


class ItemsPage(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.items/1"])
    job: int
    items: list[Item]
    next_cursor: str | None


class Event(_Answer):
    seq: int
    at: str
    boot_s: float
    boot_id: str
    kind: str
    tenant: str
    user: str
    job_id: int | None
    item: int | None
    attempt_id: int | None
    data: dict[str, Any]


class EventsPage(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.events/1"])
    job: int
    events: list[Event]
    next_after: int | None


class News(_Answer):
    """One line of a watched job."""

    job: Job
    items: list[Item] = Field(description="those that changed since the line before")


class CardProcess(_Answer):
    pid: int
    memory_bytes: int | None
    user: str | None
    command: str | None
    draws: bool = Field(description="it only draws, as a desktop does, and computes nothing")


class NodeAccess(_Answer):
    """Who may open a card's device node."""

    path: str
    mode: str = Field(examples=["0660"])
    owner: str | None
    group: str | None


class Card(_Answer):
    """CARD: what is seen of it (health), and who holds it."""

    id: str
    vendor: str
    model: str
    index: int
    uuid: str | None
    pci_address: str | None
    memory_bytes: int | None
    driver: str | None
    runtime: str | None
    architecture: str | None
    cores: float | None
    numa_node: int | None
    device_nodes: list[str]
    device_access: list[NodeAccess]
    accelerator: bool
    health: str
    health_reason: str | None
    health_reason_msgid: str | None
    health_reason_params: dict[str, Any] | None
    processes: list[CardProcess] | None = Field(description="null: the list could not be read")
    free: bool | None
    not_free_because: str | None
    not_free_because_msgid: str | None
    not_free_because_params: dict[str, Any] | None
    job: int | None
    item: int | None
    cores_free: float | None = Field(None, description="of the CPU")


class CardsProblem(_Answer):
    """A vendor that could not be asked as a whole."""

    vendor: str
    reason: str
    reason_msgid: str
    reason_params: dict[str, Any]
    mend: str | None
    mend_msgid: str | None
    mend_params: dict[str, Any] | None


class OtherDevice(_Answer):
    """What looks like a card and is none."""

    kind: str = Field(description="virtual, console, software or unknown")
    name: str
    pci_address: str | None
    driver: str | None
    what: str
    what_msgid: str
    what_params: dict[str, Any]


class CardsLink(_Answer):
    """Between two accelerators, by id."""

    a: str
    b: str
    kind: str
    lanes: int | None
    letters: str = Field(examples=["NV12", "PIX", "SYS"])


class Cards(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.cards/1"])
    host: str
    cards: list[Card]
    problems: list[CardsProblem]
    other_devices: list[OtherDevice]
    links: list[CardsLink]


class DoctorPlace(_Answer):
    source: str
    line: int


class DoctorStep(_Answer):
    """``safe``: whole as it stands, takes nothing away, may be run again."""

    says: str
    says_msgid: str
    command: str | None
    safe: bool


class DoctorFinding(_Answer):
    """A named cause with its proof."""

    cause: str = Field(description="a slug that `anycard doctor --explain` knows")
    family: str
    verdict: str
    certainty: float = Field(description="0 to 1; from 0.65 it stands alone, below 0.45 it is a hint")
    says: str
    says_msgid: str
    evidence: list[str] = Field(description="lines that it rests on")
    evidence_places: list[DoctorPlace]
    mend: list[str]
    steps: list[DoctorStep] = Field(description="the mend again, step by step")
    next_check: str | None
    authority: str


class DoctorFact(_Answer):
    name: str
    value: str
    source: str
    line: int


class DoctorNote(_Answer):
    msgid: str
    params: dict[str, Any]
    text: str


class DoctorAttempt(_Answer):
    """Of a job's item: what anycard itself knows of its end."""

    job: int
    name: str
    item: int
    state: str
    attempts: int
    reason: str | None
    reason_msgid: str | None
    reason_params: dict[str, Any] | None
    end_reason: str | None
    cause: str | None
    exit_code: int | None
    log: str


class Diagnosis(_Answer):
    """What the doctor says, most likely first. ``cards`` and ``problems`` only of this host, ``attempt`` only of a job's item."""

    schema_: str = Field(alias="schema", examples=["anycard.doctor/1"])
    verdict: str = Field(description="fault, application, healthy, expected or undecided")
    next_check: str | None = Field(description="the one command that would settle it")
    findings: list[DoctorFinding]
    facts: list[DoctorFact]
    contradictions: list[DoctorNote] = Field(description="where the evidence disagrees with itself")
    cards: list[dict[str, Any]] | None = None
    problems: list[CardsProblem] | None = None
    attempt: DoctorAttempt | None = None


class Status(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.status/1"])
    version: str
    pid: int
    home: str
    mode: str = Field(description="personal or shared")
    started_at: str
    uptime_s: float
    paused: str | None = Field(description="why nothing starts")
    paused_msgid: str | None
    paused_params: dict[str, Any] | None
    damage: str | None = Field(description="of the store")
    damage_msgid: str | None
    damage_params: dict[str, Any] | None
    jobs: dict[str, int] = Field(description="how many are in each state")
    attempts_running: int
    engine: str
    store: str


class SizedPart(_Answer):
    predicted_bytes: int
    measured_bytes: int


class SizedRun(_Answer):
    """One run of a job whose file names its model: what was predicted, and the truth."""

    job: int
    at: str
    model: str
    task: str
    server: str | None
    device: str = Field(description="the cards' vendor, or cpu")
    card: str
    cards: int
    source: str = Field(description="printed (the server's own lines), card (the driver), or host (on the CPU)")
    predicted_bytes: int
    rest_bytes: int = Field(description="of it, what does not follow from the model alone: buffers, activations")
    low_bytes: int
    high_bytes: int
    measured_bytes: int
    error: float = Field(description="predicted over measured, less 1: below zero it was too small")
    inside: bool = Field(description="the truth lay between low and high")
    parts: dict[str, SizedPart]
    predicted_tokens_per_s: float | None
    measured_tokens_per_s: float | None


class LearntKind(_Answer):
    """All runs of one kind on this host."""

    task: str
    server: str | None
    device: str
    runs: int
    mean_error: float = Field(description="of sizes, without sign")
    inside: float = Field(description="share of runs within the interval")
    factor: float = Field(description="median of truth over prediction of buffers and activations")
    used: bool = Field(description="predictions of this kind are corrected by it")
    rate_factor: float | None


class Sizing(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.sizing/1"])
    learnt: list[LearntKind]
    runs: list[SizedRun] = Field(description="newest first")


class IdleStretch(_Answer):
    since: str
    until: str
    cause: str = Field(description="what the CPU did: cpu-bound, storage-bound, waiting, unknown")


class ReportCard(_Answer):
    """A card while the job held it. Shares are of the time that was seen."""

    card: str
    name: str | None
    holds: int = Field(description="attempts that held it")
    held_s: float
    seen_s: float
    utilisation: float | None
    idle_s: float
    idle_share: float | None
    idle_before_s: float = Field(description="of idle_s: before a hold's first use of the card")
    idle_after_s: float = Field(description="of idle_s: after its last")
    idle_between_s: dict[str, float] = Field(description="the rest of idle_s, by cause")
    idle_stretches: list[IdleStretch] = Field(description="the longest")
    memory_peak_bytes: int | None
    memory_total_bytes: int | None
    near_cap_s: float
    near_cap_share: float | None = Field(description="at 95 % of the memory or more")
    throttled_s: float
    throttled_share: float | None
    throttle_reasons_s: dict[str, float]
    temperature_peak_c: float | None
    power_w: float | None = Field(description="the mean")


class ReportFinding(_Answer):
    """Something worth knowing, in words, and what to change."""

    kind: str
    text: str
    msgid: str
    params: dict[str, Any]
    advice: str | None
    advice_msgid: str | None
    advice_params: dict[str, Any] | None
    share: float | None = Field(description="of the time, on the first of its cards")
    cards: list[str] = Field(description="of which it is true, the worst first; none: of the CPU")


class Report(_Answer):
    """What a job made of its cards, so far or in all."""

    schema_: str = Field(alias="schema", examples=["anycard.report/1"])
    job: int
    name: str
    state: str
    since: str | None
    until: str | None
    step_s: float | None = Field(description="what one reading stands for")
    cards: list[ReportCard]
    cpus: float | None = Field(description="granted, the mean over its time")
    cpu_cores: float | None = Field(description="kept busy, the mean")
    findings: list[ReportFinding]


class PruneFailure(_Answer):
    path: str
    reason: str


class Pruned(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.pruned/1"])
    dry_run: bool
    jobs: list[int]
    freed_bytes: int
    logs_bytes: int
    outputs_bytes: int
    environments_bytes: int
    failed: list[PruneFailure]


class BackedUp(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.backup/1"])
    path: str
    bytes: int


class PageLink(_Answer):
    """PAGE_LINK: a login to the page."""

    schema_: str = Field(alias="schema", examples=["anycard.page-link/1"])
    url: str = Field(description="opens the page, once")
    address: str = Field(description="of the page, for those who are logged in")
    expires_in_s: float


class Down(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.down/1"])
    pid: int
    attempts_running: int


Problem.model_rebuild()
