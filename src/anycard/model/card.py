"""Shapes of accelerators that suit every vendor. An absent value is None ("unknown"), never 0 and never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from anycard.model.text import Text


class Health(StrEnum):
    """What is seen of a card. ``unreachable`` and ``unknown`` are not ``lost``: not seeing is not proof of absence."""

    OK = "ok"
    LOST = "lost"  # the driver says that it fell off the bus
    RESET_REQUIRED = "reset-required"
    NOT_FOUND = "not-found"  # enumerated, yet the driver does not find it
    NO_DRIVER = "no-driver"  # it stands on the bus, and no driver that can compute is bound to it
    BLOCKED = "blocked"  # the operating system or permissions refuse access
    UNREACHABLE = "unreachable"  # the probe timed out
    UNKNOWN = "unknown"  # the probe answered with something that we cannot place


CPU_VENDOR = "cpu"


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A program on a card, as the vendor's tool reports it; ``jobs`` joins pids to attempts. ``draws``: it only draws there, as a
    desktop does, and computes nothing."""

    pid: int
    memory_bytes: int | None = None
    user: str | None = None
    command: str | None = None
    draws: bool = False


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """A device node that a program needs for a card: who may open it. ``mode`` are permission bits (0o660)."""

    path: str
    mode: int
    owner: str | None
    group: str | None


@dataclass(frozen=True, slots=True)
class Card:
    """One accelerator of any vendor, or the CPU (``vendor == "cpu"``, never counted in ``accelerators``).

    ``id`` outlives restarts and re-enumeration: ``VENDOR:UUID``, else ``VENDOR:PCI-ADDRESS``, ``cpu`` for the CPU.
    ``index`` is the vendor's own number today and may change.

    ``divided``: it is in MIG mode, so that programs can use it through its instances alone. An instance is a card of its own with the id
    of its whole card in ``part_of``; its ``index`` counts within that card, and it has no address of its own.
    """

    id: str
    vendor: str
    model: str
    index: int = 0
    part_of: str | None = None
    divided: bool = False
    uuid: str | None = None
    pci_address: str | None = None  # 0000:65:00.0, lower case, four-digit domain
    memory_bytes: int | None = None
    driver: str | None = None
    runtime: str | None = None  # highest runtime that the driver speaks, e.g. "CUDA 12.8"
    architecture: str | None = None  # compute capability, gfx name, SoC version, instruction set
    cores: float | None = None  # CPU only: cores granted to us by affinity and cgroup
    numa_node: int | None = None
    device_nodes: tuple[str, ...] = ()
    device_access: tuple[NodeAccess, ...] = ()  # of those nodes that are there
    health: Health = Health.OK
    health_reason: Text | None = None
    processes: tuple[CardProcess, ...] | None = ()  # None: the list could not be read

    @property
    def is_accelerator(self) -> bool:
        return self.vendor != CPU_VENDOR

    @property
    def is_grantable(self) -> bool:
        """Whether programs can use it at all: an accelerator that is not divided."""
        return self.is_accelerator and not self.divided


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a card's moving values. Ratios are 0..1, memory bytes, temperature degrees Celsius, power watts, clocks MHz.

    ``memory_utilisation``: share of the time in which the card's memory was read or written. ``pcie_*``: the link as it is now. ``ecc_*``:
    errors since the driver was loaded. ``io_wait``, CPU only: share of the time in which it idled while a program waited for a disk.
    """

    card_id: str
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    fan: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    memory_utilisation: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    io_wait: float | None = None


class LinkKind(StrEnum):
    """How two cards reach each other, nearest first; the letters people know from ``nvidia-smi topo -m`` in brackets."""

    FABRIC = "fabric"  # NVLink, XGMI, HCCS, MTLink ... (NV#)
    PCIE_SWITCH = "pcie-switch"  # one switch (PIX)
    PCIE_SWITCHES = "pcie-switches"  # several, without the host bridge (PXB)
    HOST_BRIDGE = "host-bridge"  # PHB
    NUMA_NODE = "numa-node"  # NODE
    SOCKET = "socket"  # across sockets (SYS)
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Link:
    """Between two cards, by id, ``a < b``. ``lanes`` counts fabric links where the kind has any."""

    a: str
    b: str
    kind: LinkKind
    lanes: int | None = None
