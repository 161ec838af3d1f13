"""What a model server prints about its own memory and speed, read from its log: the truth beside a prediction.

Lines as llama.cpp (since 2024), Ollama's own engine (since 0.7) and vLLM (since 0.6) write them; others' lines are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from anycard.sizing.inference import Server

_UNITS = {
    "B": 1,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
    "GB": 1024**3,
}  # vLLM called its GiB GB at first
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_SIZE = rf"(?P<size>{_NUMBER})\s*(?P<unit>[KMGT]iB|GB|B)\b"
# `load_tensors:        CUDA0 model buffer size =  3088.25 MiB`; before 2025 without the word model
_LLAMA = re.compile(
    rf"(?P<device>[A-Za-z][\w/]*?)\s+(?P<what>model |KV |RS |compute |output |)buffer size\s*=\s*{_SIZE}"
)
# `msg="kv cache" device=CUDA0 size="936.0 MiB"`; device was called buffer, or backend, at first
_OLLAMA = re.compile(
    rf'msg="(?P<what>model weights|kv cache|compute graph)" (?:device|buffer|backend)=(?P<device>\w+)[^"]* size="{_SIZE}"'
)
_VLLM = re.compile(rf"(?P<what>Model loading took|[Mm]odel weights take|activation peak memory takes)\s*{_SIZE}")
_VLLM_GRAPHS = re.compile(rf"Graph capturing finished in .*?took\s*{_SIZE}")
_VLLM_POOL = re.compile(rf"(?:Available KV cache memory:|reserved for KV Cache is)\s*{_SIZE}")
_VLLM_USAGE = re.compile(
    rf"Actual usage: (?P<weights>{_NUMBER}) GiB for weights, (?P<compute>{_NUMBER}) GiB for peak activation"
    rf"(?:, {_NUMBER} GiB for non-torch memory)?(?:,? and|,) (?P<cuda_graphs>{_NUMBER}) GiB for \w+ ?[gG]raph memory"
)
_WORKER = re.compile(r"\((?:\w*Worker\w*) pid=(\d+)\)")
_RATE = re.compile(
    r"(?P<prompt>prompt )?eval time\s*=.*?/\s*(?P<count>\d+) (?:runs|tokens).*?(?P<rate>\d+(?:\.\d+)?) tokens per second"
)
_PARTS = {
    "model ": "weights", "": "weights", "KV ": "kv_cache", "RS ": "kv_cache", "compute ": "compute", "output ": "compute",
    "model weights": "weights", "kv cache": "kv_cache", "compute graph": "compute",
}  # fmt: skip
_LINE_MAX = 4096
_FEW_TOKENS = 8  # a rate over fewer says nothing


@dataclass(slots=True)
class _Load:
    """One load of a model: bytes by device and part."""

    devices: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, device: str, part: str, size: int) -> None:
        parts = self.devices.setdefault(device, {})
        parts[part] = parts.get(part, 0) + size

    def has(self, part: str) -> bool:
        return any(part in parts for parts in self.devices.values())

    @property
    def total(self) -> int:
        return sum(sum(parts.values()) for parts in self.devices.values())


@dataclass(frozen=True, slots=True)
class Printed:
    """``devices``: bytes by device and part (weights, kv_cache, compute, cuda_graphs). ``pool_bytes``: vLLM's whole cache, which is what
    the card had left and no need. Rates in tokens a second, the median of what was printed."""

    server: Server
    devices: dict[str, dict[str, int]]
    tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    pool_bytes: int | None = None

    def on_cards(self) -> dict[str, int]:
        """Parts of the fullest accelerator; empty when nothing was put on one."""
        cards = [parts for device, parts in self.devices.items() if not _is_host(device)]
        return max(cards, key=lambda parts: sum(parts.values()), default={})

    def on_host(self) -> dict[str, int]:
        """Parts in host memory, all its buffers together."""
        total: dict[str, int] = {}
        for device, parts in self.devices.items():
            if _is_host(device):
                for part, size in parts.items():
                    total[part] = total.get(part, 0) + size
        return total


def read_server_log(lines: Iterable[str]) -> Printed | None:
    """None when no line tells of a loaded model. Of several loads in one log (a draft model, a second try) the largest of llama.cpp's and
    the last of Ollama's counts."""
    loads = [_Load()]
    rates: dict[bool, list[float]] = {False: [], True: []}
    server: Server | None = None
    ollama = False
    pool: int | None = None
    for line in lines:
        text = line[:_LINE_MAX]
        if found := _LLAMA.search(text) or _OLLAMA.search(text):
            server, ollama = Server.LLAMA_CPP, ollama or "msg=" in text
            part = _PARTS[found["what"]]
            if part == "weights" and loads[-1].has("compute"):
                loads.append(_Load())
            loads[-1].add(found["device"], part, _bytes(found))
        elif found := _VLLM.search(text) or _VLLM_GRAPHS.search(text):
            server = Server.VLLM
            what = found.groupdict().get("what") or "graphs"
            part = "cuda_graphs" if what == "graphs" else "compute" if "activation" in what else "weights"
            loads[-1].devices.setdefault(_worker(text), {})[part] = _bytes(found)
        elif found := _VLLM_USAGE.search(text):
            server = Server.VLLM
            exact = {part: round(float(size) * _UNITS["GiB"]) for part, size in found.groupdict().items()}
            loads[-1].devices.setdefault(_worker(text), {}).update(exact)
        elif found := _VLLM_POOL.search(text):
            pool = _bytes(found)
        elif (found := _RATE.search(text)) and int(found["count"]) >= _FEW_TOKENS:
            rates[bool(found["prompt"])].append(float(found["rate"]))
    chosen = loads[-1] if ollama else max(loads, key=lambda load: load.total)
    if server is None or not chosen.has("weights"):
        return None
    return Printed(server, chosen.devices, _median(rates[False]), _median(rates[True]), pool)


def _is_host(device: str) -> bool:
    """llama.cpp's host buffers: CPU, CPU_Mapped, CPU_REPACK, AMX, BLAS, and pinned ones such as CUDA_Host."""
    name = device.upper()
    return name.startswith(("CPU", "AMX", "BLAS")) or name.endswith("_HOST")


def _worker(line: str) -> str:
    """vLLM's workers are a card each; alone it names none."""
    found = _WORKER.search(line)
    return f"worker {found[1]}" if found else "worker"


def _bytes(found: re.Match[str]) -> int:
    return round(float(found["size"]) * _UNITS[found["unit"]])


def _median(values: list[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None
