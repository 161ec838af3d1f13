"""``resources``: SkyPilot's keys to demands, a retry rule and a release rule."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from anycard.jobs.file.accelerators import CPU_ONLY, CardAsk, read_accelerators
from anycard.jobs.file.faults import Faults
from anycard.jobs.file.nodes import ListNode, MapNode, Node, Scalar, is_null, written
from anycard.jobs.file.readers import (
    MAX_SECONDS,
    Section,
    read_flag,
    read_mapping,
    read_seconds,
    read_text,
    read_whole,
)
from anycard.jobs.spec import RetryRule
from anycard.model.demand import Demand
from anycard.model.text import Text
from anycard.units import GIB, parse_bytes

MAX_OPTIONS = 100
PRIORITIES = (-1000, 1000)  # SkyPilot's range
MAX_RETRIES = 1000
SKYPILOT_IDLE_S = 5 * 60.0  # what SkyPilot takes `autostop: true` for
UNBOUNDED_RECOVERIES = 10  # SkyPilot recovers on these exit codes for ever; here somebody should look after ten

_ASK_KEYS = ("accelerators", "gpus", "cpus", "memory", "use_spot")
_JOB_KEYS = (
    "autostop",
    "job_recovery",
    "priority",
)  # they hold for the whole job: within an alternative they are ignored
KEYS = (*_ASK_KEYS, *_JOB_KEYS, "any_of", "ordered")
# They choose or shape a rented machine; this machine is what it is.
IGNORED = (
    "infra", "cloud", "region", "zone", "instance_type", "disk_size", "disk_tier", "network_tier", "local_disk", "ephemeral_storage",
    "ports", "labels", "image_id", "accelerator_args", "max_hourly_cost", "priority_class", "volumes", "hooks",
    "_no_missing_accel_warnings", "_docker_login_config", "_is_image_managed", "_requires_fuse", "_cluster_config_overrides",
)  # fmt: skip
_STRATEGIES = ("none", "failover", "eager_next_region", "eager_failover")
_CPUS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\+?")
_MEMORY_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([x+]?)")
_MEMORY_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?\s*[KMGTkmgt]?[Ii]?[Bb]?)\+?")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, or ``gib_per_cpu`` GiB for each CPU (SkyPilot's ``2x``)."""

    size_bytes: int = 0
    gib_per_cpu: float | None = None

    def for_cpus(self, cpus: float) -> int:
        return self.size_bytes if self.gib_per_cpu is None else round(self.gib_per_cpu * cpus * GIB)


@dataclass(frozen=True, slots=True)
class Ask:
    """What one entry of ``resources`` names; None: it says nothing about it."""

    cpus: float | None = None
    memory: Memory | None = None
    cards: tuple[CardAsk, ...] | None = None
    use_spot: bool | None = None

    def under(self, other: Ask) -> Ask:
        """This ask, with what ``other`` says put over it."""
        return Ask(
            cpus=self.cpus if other.cpus is None else other.cpus,
            memory=self.memory if other.memory is None else other.memory,
            cards=self.cards if other.cards is None else other.cards,
            use_spot=self.use_spot if other.use_spot is None else other.use_spot,
        )


@dataclass(frozen=True, slots=True)
class Resources:
    """``asks`` in the order in which they are tried. ``idle_s`` and ``retry`` come from autostop and job_recovery."""

    asks: tuple[Ask, ...] = (Ask(),)
    idle_s: float | None = None
    retry: RetryRule | None = None
    priority: int | None = None
    ignored: tuple[str, ...] = ()
    warnings: tuple[Text, ...] = ()

    def demands(self, override: Ask) -> tuple[Demand, ...]:
        """Every way in which an item may run, without repetitions; a fall-back to the CPU (``any``) comes last."""
        found: dict[Demand, None] = {}
        fallbacks: list[Demand] = []
        for ask in (ask.under(override) for ask in self.asks):
            cpus = 1.0 if ask.cpus is None else ask.cpus
            base = Demand(cpus=cpus, memory_bytes=ask.memory.for_cpus(cpus) if ask.memory else None)
            for card in ask.cards or (CPU_ONLY,):
                found.setdefault(
                    replace(base, card_count=card.count, card=card.name, card_memory_bytes=card.memory_bytes)
                )
                if card.else_cpu:
                    fallbacks.append(base)
        for demand in fallbacks:
            found.setdefault(demand)
        return tuple(found)

    def cpus_given(self, override: Ask) -> bool:
        return override.cpus is not None or any(ask.cpus is not None for ask in self.asks)

    @property
    def preemptible(self) -> bool:
        """Every way of running accepts being preempted."""
        return all(ask.use_spot for ask in self.asks)


def read_resources(node: Node, faults: Faults) -> Resources:
    mapping = read_mapping(node, "resources", faults)
    if mapping is None:
        return Resources()
    section = Section(mapping, "resources", faults, KEYS, ignored=IGNORED)
    ignored, warnings = list(section.ignored), list[Text]()
    base = _read_ask(section, faults)
    asks = _read_alternatives(section, base, ignored, faults)
    idle = section.get("autostop")
    recovery = section.get("job_recovery")
    priority = section.get("priority")
    return Resources(
        asks=asks,
        idle_s=_read_autostop(idle, ignored, faults) if idle else None,
        retry=_read_recovery(recovery, ignored, warnings, faults) if recovery else None,
        priority=read_whole(priority, "resources.priority", faults, least=PRIORITIES[0], most=PRIORITIES[1])
        if priority
        else None,
        ignored=tuple(dict.fromkeys(ignored)),
        warnings=tuple(warnings),
    )


def _read_alternatives(section: Section, base: Ask, ignored: list[str], faults: Faults) -> tuple[Ask, ...]:
    lists = [(key, node) for key in ("any_of", "ordered") if (node := section.get(key))]
    if len(lists) == 2:
        faults.add(section.key("ordered").place, "any_of and ordered exclude each other")
    asks: list[Ask] = []
    for key, node in lists[:1]:
        path = section.name(key)
        if not isinstance(node, ListNode) or not 1 <= len(node.items) <= MAX_OPTIONS:
            faults.add(
                node.place, "{key} wants a list of 1 to {most} entries", key=path, most=MAX_OPTIONS, value=written(node)
            )
            continue
        for item in node.items:
            mapping = read_mapping(item, path, faults)
            if mapping is not None:
                entry = Section(mapping, path, faults, (*_ASK_KEYS, *_JOB_KEYS), ignored=IGNORED)
                ignored.extend(entry.ignored)
                ignored.extend(entry.name(name) for name in _JOB_KEYS if entry.get(name))
                asks.append(base.under(_read_ask(entry, faults)))
    return tuple(asks) or (base,)


def _read_ask(section: Section, faults: Faults) -> Ask:
    cpus, memory, spot = section.get("cpus"), section.get("memory"), section.get("use_spot")
    cards: tuple[CardAsk, ...] | None = None
    given = [key for key in ("accelerators", "gpus") if section.mentions(key)]
    if len(given) == 2:
        faults.add(section.key("gpus").place, "gpus is another word for accelerators: give one of them")
    elif given:
        node = section.get(given[0])
        cards = read_accelerators(node, section.name(given[0]), faults) if node else (CPU_ONLY,)
    return Ask(
        cpus=read_cpus(cpus, section.name("cpus"), faults) if cpus else None,
        memory=read_memory(memory, section.name("memory"), faults) if memory else None,
        cards=cards,
        use_spot=read_flag(spot, section.name("use_spot"), faults) if spot else None,
    )


def read_cpus(node: Node, key: str, faults: Faults) -> float | None:
    """CPUs, fractions allowed; ``4+`` is 4, for more is never promised."""
    match = _CPUS.fullmatch(node.text) if isinstance(node, Scalar) else None
    if match and float(match.group(1)) > 0:
        return float(match.group(1))
    faults.add(
        node.place,
        "{key} wants a number of CPUs above zero such as 4, 4+ or 0.5, not {value}",
        key=key,
        value=written(node),
    )
    return None


def read_memory(node: Node, key: str, faults: Faults) -> Memory | None:
    """A bare number is GiB, as in SkyPilot; ``+`` (at least) changes nothing; ``2x`` is 2 GiB for each CPU."""
    text = node.text.strip() if isinstance(node, Scalar) else ""
    number = _MEMORY_NUMBER.fullmatch(text)
    if number and float(number.group(1)) > 0:
        amount = float(number.group(1))
        return Memory(gib_per_cpu=amount) if number.group(2) == "x" else Memory(round(amount * GIB))
    size = None if number else _MEMORY_SIZE.fullmatch(text)
    if size and (size_bytes := parse_bytes(size.group(1))) > 0:
        return Memory(size_bytes)
    faults.add(
        node.place,
        "{key} wants GiB (32, 32+) or a size (16GB, 512MiB) above zero, not {value}",
        key=key,
        value=written(node),
    )
    return None


def _read_autostop(node: Node, ignored: list[str], faults: Faults) -> float | None:
    """SkyPilot's idle time; bare numbers are minutes."""
    path = "resources.autostop"
    if isinstance(node, MapNode):
        section = Section(node, path, faults, ("idle_minutes",), ignored=("down", "wait_for", "hook", "hook_timeout"))
        ignored.extend(section.ignored)
        minutes = section.get("idle_minutes")
        if minutes is None:
            return SKYPILOT_IDLE_S
        whole = read_whole(minutes, section.name("idle_minutes"), faults, least=0, most=math.floor(MAX_SECONDS / 60))
        return None if not whole else whole * 60.0
    if isinstance(node, Scalar) and node.text.lower() in ("true", "false"):
        return SKYPILOT_IDLE_S if node.text.lower() == "true" else None
    if isinstance(node, Scalar) and re.fullmatch(r"[0-9]{1,7}", node.text):
        return int(node.text) * 60.0 or None
    return read_seconds(node, path, faults)


def _read_recovery(node: Node, ignored: list[str], warnings: list[Text], faults: Faults) -> RetryRule | None:
    """A lost card or host is always retried here; what is left of job_recovery is how often the program's own errors are."""
    path = "resources.job_recovery"
    if isinstance(node, Scalar):
        _check_strategy(node, path, faults)
        return RetryRule()
    mapping = read_mapping(node, path, faults)
    if mapping is None:
        return None
    section = Section(mapping, path, faults, ("strategy", "max_restarts_on_errors", "recover_on_exit_codes"))
    strategy, restarts, codes = (
        section.get(key) for key in ("strategy", "max_restarts_on_errors", "recover_on_exit_codes")
    )
    if strategy:
        _check_strategy(strategy, section.name("strategy"), faults)
    times = (
        read_whole(restarts, section.name("max_restarts_on_errors"), faults, least=0, most=MAX_RETRIES)
        if restarts
        else 0
    )
    exit_codes = read_exit_codes(codes, section.name("recover_on_exit_codes"), faults) if codes else ()
    if not exit_codes:
        return RetryRule(times=times or 0)
    if times:
        return RetryRule(times=times)  # any error counts, these codes among them
    warnings.append(
        Text(
            "recover_on_exit_codes recovers without end in SkyPilot; here at most {times} times",
            {"times": UNBOUNDED_RECOVERIES},
        )
    )
    return RetryRule(times=UNBOUNDED_RECOVERIES, when_reasons=(), when_exit_codes=exit_codes)


def _check_strategy(node: Node, path: str, faults: Faults) -> None:
    text = read_text(node, path, faults)
    if text is not None and text.lower() not in _STRATEGIES:
        faults.add(
            node.place, "{key} is one of {choices}, not {value}", key=path, choices=", ".join(_STRATEGIES), value=text
        )


def read_exit_codes(node: Node, key: str, faults: Faults) -> tuple[int, ...]:
    """One exit code or a list of them, 0 left out for it is success."""
    nodes = node.items if isinstance(node, ListNode) else (node,)
    if not nodes:
        faults.add(node.place, "{key} is empty", key=key)
    found = [read_whole(item, key, faults, least=1, most=255) for item in nodes]
    return tuple(dict.fromkeys(code for code in found if code is not None))


def read_override(cpus: Node | None, memory: Node | None, accelerators: Node | None, faults: Faults) -> Ask:
    """The command line's ``--cpus``, ``--memory`` and ``--accelerators``, read as the file's are."""
    return Ask(
        cpus=read_cpus(cpus, "cpus", faults) if cpus and not is_null(cpus) else None,
        memory=read_memory(memory, "memory", faults) if memory and not is_null(memory) else None,
        cards=read_accelerators(accelerators, "accelerators", faults)
        if accelerators and not is_null(accelerators)
        else None,
    )
