"""What the calls about readings answer, as ``answers`` has it for the others. Built by jobs/readingsviews.py."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Numbers = list[float | None]
Whole = list[int | None]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class CardSeries(_Answer):
    """One card over time: ``times[i]`` goes with element i of each column; a column in which nothing was seen is null. Which columns there
    are, ``columns`` in the request chose."""

    card: str
    times: list[float] = Field(description="seconds since the epoch, where the step begins")
    utilisation: Numbers | None = None
    memory_used_bytes: Whole | None = None
    temperature_c: Numbers | None = None
    power_w: Numbers | None = None
    clock_mhz: Numbers | None = None
    memory_clock_mhz: Numbers | None = None
    fan: Numbers | None = None
    memory_utilisation: Numbers | None = Field(None, description="share of the time its memory was read or written")
    io_wait: Numbers | None = Field(None, description="of the CPU: idle while a program waited for a disk")
    throttled: Numbers | None = Field(None, description="share of the time in which it was slowed down")
    memory_peak_bytes: Whole | None = None
    temperature_peak_c: Numbers | None = None
    memory_total_bytes: Whole | None = None
    power_limit_w: Numbers | None = None
    pcie_generation: Whole | None = None
    pcie_width: Whole | None = None
    ecc_corrected: Whole | None = None
    ecc_uncorrected: Whole | None = None
    throttle_reasons: list[list[str] | None] | None = None


class Mark(_Answer):
    """A moment worth a line across the chart."""

    at: str
    card: str | None
    kind: str = Field(description="xid, ecc, health, kernel, silent, answers, clock")
    text: str
    text_msgid: str
    text_params: dict[str, Any]


class AttemptUse(_Answer):
    """What an attempt did on a card, the mean of ten seconds or more; ``card`` is ``cpu`` where it held none."""

    at: str
    card: str
    item: int
    attempt: int
    memory_bytes: int | None
    utilisation: float | None = Field(description="its own share of the card's time")
    cpu_cores: float | None
    host_memory_bytes: int | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    memory_peak_bytes: int | None


class Readings(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.readings/1"])
    step_s: float = Field(description="what was given, which may be coarser than what was asked")
    since: str
    until: str
    cards: list[CardSeries]
    marks: list[Mark]
    uses: list[AttemptUse] | None = Field(None, description="of a job's readings")


class Reading(_Answer):
    """One look at a card; ratios 0..1."""

    card: str
    utilisation: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    temperature_c: float | None
    power_w: float | None
    power_limit_w: float | None
    clock_mhz: float | None
    memory_clock_mhz: float | None
    fan: float | None
    throttle_reasons: list[str] | None
    memory_utilisation: float | None
    pcie_generation: int | None
    pcie_width: int | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    io_wait: float | None


class CardUse(_Answer):
    """A program on a card; ``job`` null: anycard did not start it."""

    card: str
    pid: int
    memory_bytes: int | None
    utilisation: float | None
    job: int | None
    item: int | None
    job_items: int | None = Field(description="how many items that job has")
    attempt: int | None


class Silent(_Answer):
    """A reader that does not answer: the values of its cards are unknown."""

    reader: str
    since: str
    why: str | None
    why_msgid: str | None
    why_params: dict[str, Any] | None


class Tick(_Answer):
    schema_: str = Field(alias="schema", examples=["anycard.tick/1"])
    at: str | None = Field(description="null: there was none yet")
    readings: list[Reading]
    uses: list[CardUse]
    silent: list[Silent]
