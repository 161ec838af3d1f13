"""The cards of this host."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from anycard.api.answers.base import Answer


class CardProcess(Answer):
    pid: int
    memory_bytes: int | None
    user: str | None
    command: str | None
    draws: bool = Field(description="it only draws, as a desktop does, and computes nothing")


class NodeAccess(Answer):
    """Who may open a card's device node."""

    path: str
    mode: str = Field(examples=["0660"])
    owner: str | None
    group: str | None


class Card(Answer):
    """CARD: what is seen of it (health), and who holds it."""

    id: str
    vendor: str
    model: str
    index: int
    part_of: str | None = Field(description="id of the whole card of which it is a MIG instance")
    divided: bool = Field(description="in MIG mode: usable only through its instances")
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
    job_items: int | None = Field(description="how many items that job has")
    cores_free: float | None = Field(None, description="of the CPU")


class CardsProblem(Answer):
    """A vendor that could not be asked as a whole."""

    vendor: str
    reason: str
    reason_msgid: str
    reason_params: dict[str, Any]
    mend: str | None
    mend_msgid: str | None
    mend_params: dict[str, Any] | None


class OtherDevice(Answer):
    """What looks like a card and is none."""

    kind: str = Field(description="virtual, console, software or unknown")
    name: str
    pci_address: str | None
    driver: str | None
    what: str
    what_msgid: str
    what_params: dict[str, Any]


class CardsLink(Answer):
    """Between two accelerators, by id."""

    a: str
    b: str
    kind: str
    lanes: int | None
    letters: str = Field(examples=["NV12", "PIX", "SYS"])


class Cards(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.cards/1"])
    host: str
    cards: list[Card]
    problems: list[CardsProblem]
    other_devices: list[OtherDevice]
    links: list[CardsLink]
