"""This machine (or a recorded one) as evidence: bounded looks through ``Host``, side by side, turned into the lines that tools print."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from anycard.cards.probe import Inventory, probe
from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.rule import SUGGESTS
from anycard.doctor.shapes import Diagnosis, Source, Verdict
from anycard.host.host import NOT_RECORDED, Host
from anycard.host.probes import ENVIRON

_TIME_LIMIT_S = 4.0  # for each command; they run side by side
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("uname", "-srvm"),
    ("lsmod",),
    ("lspci", "-nnk"),
    ("dmesg",),
    ("rocminfo",),
    ("npu-smi", "info"),
)
_FILES = ("/proc/version", "/proc/driver/nvidia/version", "/sys/module/amdgpu/version", "/sys/module/nvidia/version")
# What NVML's errors are called by nvidia-smi, which the rules know. Source: nvml.h, nvmlErrorString.
_NVML_SAYS = {
    "LIB_RM_VERSION_MISMATCH": "Failed to initialize NVML: Driver/library version mismatch",
    "DRIVER_NOT_LOADED": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "OPERATING_SYSTEM": "Failed to initialize NVML: GPU access blocked by the operating system",
    "NO_PERMISSION": "Failed to initialize NVML: Insufficient Permissions",
    "GPU_IS_LOST": "GPU is lost.  Reboot the system to recover this GPU",
    "RESET_REQUIRED": "GPU requires reset",
    "UNKNOWN": "Failed to initialize NVML: Unknown Error",
}
# Reads what the environment's Python has installed without importing any of it.
_PACKAGES = """
import importlib.metadata as m, pathlib, re
for n in ("torch", "torchvision", "torchaudio", "torch-npu", "intel-extension-for-pytorch"):
    try: d = m.distribution(n)
    except m.PackageNotFoundError: continue
    print(n + "==" + d.version)
    if n == "torch":
        f = pathlib.Path(d.locate_file("torch/version.py"))
        t = f.read_text() if f.exists() else ""
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
        looks: list[Callable[[], Source | None]] = [
            *(lambda argv=argv: _command(host, argv) for argv in _COMMANDS),
            lambda: _packages(host),
        ]
        waiting = [pool.submit(look) for look in looks]
        inventory = probe(host)
        seen = [source for future in waiting if (source := future.result())]
    cards = [card for card in inventory.cards if card.is_accelerator]
    problems = bool(inventory.problems)
    sources = [
        text_source("nvml", "\n".join(_nvml_lines(host))),
        *(source for source in seen if cards or problems or source.name != "python packages"),
        text_source("files", "\n".join(_file_lines(host))),
        text_source("environment", "\n".join(_environment_lines(host))),
        text_source("device nodes", "\n".join(_node_lines(host))),
        text_source("cards", "\n".join(f"card: {card.vendor} {card.model} health {card.health}" for card in cards)),
    ]
    return Examination(inventory, _judged(diagnose(sources, platform_of(host)), problems))


def _judged(diagnosis: Diagnosis, problems: bool) -> Diagnosis:
    sure = tuple(f for f in diagnosis.findings if f.certainty >= SUGGESTS and not f.verdict.harmless)
    if sure:
        return replace(diagnosis, findings=sure, verdict=sure[0].verdict)
    verdict = Verdict.UNDECIDED if problems else Verdict.HEALTHY
    return replace(diagnosis, findings=diagnosis.findings if problems else (), verdict=verdict)


def platform_of(host: Host) -> str:
    """linux, wsl, windows, mac, container or k8s, as the rules name them."""
    if host.platform == "win32":
        return "windows"
    if host.platform == "darwin":
        return "mac"
    if "microsoft" in (host.read("/proc/version").text or "").lower():
        return "wsl"
    if "KUBERNETES_SERVICE_PORT" in host.environ:
        return "k8s"
    if "container" in host.environ or host.exists("/.dockerenv"):
        return "container"
    return "linux"


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
    known = host.ask("python") or {}
    lines = [f"{name}=={version}" for name, version in known.get("packages", {}).items()]
    return text_source("python packages", "\n".join(lines)) if lines else None


def _own_python() -> str:
    import sys

    return sys.executable or "python3"


def _nvml_lines(host: Host) -> Iterator[str]:
    seen = host.ask("nvml")
    if not seen:
        return
    for step in ("init", "count"):
        if error := seen.get(step, {}).get("error"):
            yield _NVML_SAYS.get(error, f"NVML: {error}" if error != "LIBRARY_NOT_FOUND" else "")
    driver = (seen.get("driver") or {}).get("value")
    if driver:
        yield f"Driver Version: {driver}"
    for card in seen.get("cards", ()):
        errors = {answer["error"] for answer in card.values() if isinstance(answer, dict) and "error" in answer}
        for error in sorted(errors & {"GPU_IS_LOST", "RESET_REQUIRED", "OPERATING_SYSTEM", "NO_PERMISSION"}):
            yield f"GPU {card['index']}: {_NVML_SAYS[error]}"


def _file_lines(host: Host) -> Iterator[str]:
    for path in _FILES:
        text = host.read(path, 65536).text
        if text:
            yield text.rstrip("\n")


def _environment_lines(host: Host) -> Iterator[str]:
    for name in ENVIRON:
        if name in host.environ and name not in ("PATH", "PYTHONPATH"):
            yield f"{name}={host.environ[name]}"


def _node_lines(host: Host) -> Iterator[str]:
    for name in host.list_folder("/dev") or ():
        if name.startswith(("nvidia", "kfd", "davinci", "devmm_svm", "hisi_hdc", "dxg")):
            node = host.node(f"/dev/{name}")
            if node:
                yield f"{stat.filemode(node.mode)} 1 {node.owner} {node.group} {node.major}, {node.minor} /dev/{name}"
