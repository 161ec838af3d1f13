"""This machine (or a recorded one) as evidence: bounded looks through ``Host``, side by side, judged by the rules."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from anycard.cards.probe import Inventory, probe
from anycard.cards.views import card_json, problem_json
from anycard.doctor import looks
from anycard.doctor.platforms import platform_of
from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.report import to_json
from anycard.doctor.rule import ALLOWS, SUGGESTS
from anycard.doctor.shapes import Diagnosis, Source, Verdict
from anycard.host.host import NOT_RECORDED, Host
from anycard.model.card import Health

_TIME_LIMIT_S = 4.0  # for each command; they run side by side
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("uname", "-srvm"),
    ("lsmod",),
    ("lspci", "-nnk"),
    ("dmesg",),
    ("rocminfo",),
    ("npu-smi", "info"),
)
# Reads what the environment's Python has installed without importing any of it. A wheel's metadata may leave out the build that its own
# version.py names: torchvision's from PyPI is 0.28.0 to pip and 0.28.0+cu130 to itself.
_PACKAGES = """
import importlib.metadata as m, re
for n in ("torch", "torchvision", "torchaudio", "torch-npu", "intel-extension-for-pytorch"):
    try: d = m.distribution(n)
    except m.PackageNotFoundError: continue
    f = d.locate_file(n.replace("-", "_") + "/version.py")
    t = f.read_text() if f.exists() else ""
    own = re.search(r"^__version__\\b[^=]*= *['\\"]([^'\\"]+)", t, re.M)
    print(n + "==" + (own[1] if own and own[1].startswith(d.version + "+") else d.version))
    if n == "torch":
        made = dict(re.findall(r"^(cuda|hip|xpu)\\b.*?= *(.*)$", t, re.M))
        if made and not any(v.strip() not in ("None", "") for v in made.values()): print("CUDA used to build PyTorch: None")
"""


@dataclass(frozen=True, slots=True)
class Examination:
    """What was seen: ``inventory`` of cards and vendors' problems, and the ``diagnosis``."""

    inventory: Inventory
    diagnosis: Diagnosis


def examine(host: Host) -> Examination:
    """Looks at ``host`` and judges. On a machine only what stands alone counts: hints are for a log that somebody sends because
    something is wrong."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        tasks: list[Callable[[], Source | None]] = [
            *(lambda argv=argv: _command(host, argv) for argv in _COMMANDS),
            lambda: _packages(host),
        ]
        waiting = [pool.submit(look) for look in tasks]
        inventory = probe(host)
        seen = [source for future in waiting if (source := future.result())]
    cards = [card for card in inventory.cards if card.is_accelerator]
    sick = [card for card in cards if card.health is not Health.OK]
    troubled = frozenset({card.vendor for card in sick} | {problem.vendor for problem in inventory.problems})
    sources = [
        text_source("nvml", "\n".join(looks.nvml_lines(host))),
        *(source for source in seen if cards or troubled or source.name != "python packages"),
        text_source("files", "\n".join(looks.file_lines(host))),
        text_source("device nodes", "\n".join(looks.node_lines(host, cards, troubled))),
        text_source("shared memory", "\n".join(looks.shared_memory_lines(host))),
        text_source("passthrough", "\n".join(looks.passthrough_lines(host))),
        text_source("cards", "\n".join(f"card: {card.vendor} {card.model} health {card.health}" for card in cards)),
    ]
    if cards or troubled:  # a variable that hides cards hides nothing where there is none
        sources.append(text_source("environment", "\n".join(looks.environment_lines(host, cards))))
    return Examination(inventory, _judged(diagnose(sources, platform_of(host)), bool(troubled)))


def examination_json(seen: Examination) -> dict[str, Any]:
    """The document of ``anycard doctor --json`` on a machine."""
    return {
        **to_json(seen.diagnosis),
        "cards": [card_json(card) for card in seen.inventory.cards],
        "problems": [problem_json(problem) for problem in seen.inventory.problems],
    }


def _judged(diagnosis: Diagnosis, trouble: bool) -> Diagnosis:
    sure = tuple(f for f in diagnosis.findings if f.certainty >= SUGGESTS and not f.verdict.harmless)
    if sure:
        return replace(diagnosis, findings=sure, verdict=sure[0].verdict)
    if not trouble:
        return replace(diagnosis, findings=(), verdict=Verdict.HEALTHY, next_check=None)
    hints = tuple(f for f in diagnosis.findings if f.certainty >= ALLOWS and not f.verdict.harmless)
    return replace(diagnosis, findings=hints, verdict=Verdict.UNDECIDED)


def _command(host: Host, argv: tuple[str, ...]) -> Source | None:
    result = host.run(argv, _TIME_LIMIT_S)
    text = result.text + result.stderr.decode("utf-8", "replace")
    return text_source(argv[0], text) if text.strip() else None


def _packages(host: Host) -> Source | None:
    """Of the Python that the user's shell would start, else of our own."""
    result = host.run(("python3", "-c", _PACKAGES), _TIME_LIMIT_S)
    if result.error != NOT_RECORDED and result.exit_code == 0 and "torch==" in result.text:
        return text_source("python packages", result.text)
    own = host.run((_own_python(), "-c", _PACKAGES), _TIME_LIMIT_S) if result.error != NOT_RECORDED else result
    if own.exit_code == 0 and own.text.strip():
        return text_source("python packages", own.text)
    lines = list(looks.package_lines(host.ask("python") or {}))
    return text_source("python packages", "\n".join(lines)) if lines else None


def _own_python() -> str:
    import sys

    return sys.executable or "python3"
