"""Typed readings out of the lines that programs print. Each expression holds one group: the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anycard.doctor.scan import compiled
from anycard.doctor.shapes import Fact, Line

_NUMBER = r"(\d+(?:\.\d+)*)"
_SIZE = r"(\d+(?:\.\d+)? ?(?:[KMGT]i?B|bytes))"

FACTS: Mapping[str, tuple[str, ...]] = {
    # NVIDIA's driver: what the kernel runs, what user space prints, what is built on disk
    "driver_loaded": (
        rf"NVRM version:.*Kernel Module (?:for \w+ )?\s*{_NUMBER}",
        rf"NVRM: loading NVIDIA UNIX.*?\s{_NUMBER}\s",
        rf"kernel module (?:version|has the version|has version) (?:is )?{_NUMBER}",
        rf"the kernel module.*has version {_NUMBER}",
    ),
    "module_open": (r"(Open Kernel Module)", r"^license:\s+(Dual MIT/GPL)"),
    "module_proprietary": (r"NVIDIA UNIX (?:x86_64|aarch64) +(Kernel Module)", r"^license:\s+(NVIDIA)\s*$"),
    "nvidia_card": (
        r"NVIDIA Corporation ([A-Z]{2}\d{2,3}\w*)\b",
        r"\bGPU \d+: (?:NVIDIA )?((?:GeForce|Tesla|Quadro|TITAN|RTX|[A-Z]+\d)[\w ]+)",
        r"^\|\s+\d+\s+((?:NVIDIA|GeForce|Tesla|Quadro|TITAN) [\w .-]+?)\s+(?:On|Off)\b",
        r"Product Name\s*: (?:NVIDIA )?(\w[\w -]+)",
        r"The NVIDIA ((?:GeForce|Tesla|Quadro|TITAN|RTX)[\w ]+?) GPU",
    ),
    "driver_user": (
        rf"NVIDIA-SMI {_NUMBER}",
        rf"NVML library version: {_NUMBER}",
        rf"client \(version {_NUMBER}\)",
        rf"NVRM: has the version {_NUMBER}, but",
        rf"client has the version {_NUMBER}",
        rf"library version:? {_NUMBER}",
        r"libcuda\.so\.(\d{3}\.[\d.]*\d)",
    ),
    "driver": (
        rf"Driver Version\s*: {_NUMBER}",
        rf"Nvidia driver version: {_NUMBER}",
        rf"driver version is {_NUMBER}",
        rf"NVRM version:.*Kernel Module (?:for \w+ )?\s*{_NUMBER}",
        r"(?:nvidia|driver)[- ](?:driver|version)[- :]*(\d{3}\.\d+(?:\.\d+)?)",
        rf"CUDA driver version:? {_NUMBER}",
    ),
    "nvidia_package": (
        r"^ii +(?:lib|xserver-xorg-video-)?nvidia-(?:driver|dkms|kernel|compute|utils|gl|cfg1)\S* +(?:1:)?(\d{3}\.\d+(?:\.\d+)?)",
        r"^(?:lib32-)?nvidia-(?:dkms|open|open-dkms|utils|settings) (\d{3}\.\d+(?:\.\d+)?)-\d",
        r"^nvidia\S*\.x86_64 +(?:\d+:)?(\d{3}\.\d+(?:\.\d+)?)-",
        r"^ii +nvidia-smi +(?:1:)?(\d{3}\.\d+(?:\.\d+)?)",
        r"^ii +libcuda1\S* +(?:1:)?(\d{3}\.\d+(?:\.\d+)?)",
        r"^(?:kmod-|dkms-|akmod-)?nvidia\b\S*?-(?:\d:)?(\d{3}\.\d+(?:\.\d+)?)-\S+$",
    ),
    "dkms_kernel": (r"^nvidia\S*[/,] ?[\d.]+, (\d\S+?), \w+: installed",),
    "module_on_disk": (rf"^version:\s+{_NUMBER}", rf"nvidia/{_NUMBER}, \S+, \w+: installed"),
    "smi_cuda": (rf"CUDA Version\s*: {_NUMBER}",),
    "toolkit": (rf"Cuda compilation tools, release {_NUMBER}",),
    # frameworks
    "torch": (
        r"PyTorch version: (\d[\w.+]*)",
        r"\btorch==(\d[\w.+]*)",
        r"^torch\s+(\d[\w.+]*)",
        r"torch[ _.]*(?:__version__|version)[ :='\"]*(\d[\w.+]*)",
        r"^[ >'\"]*(\d+\.\d+\.\d+(?:\.\w+)?(?:\+cu\d+|\+cpu|\+xpu|\+rocm[\d.]+))",
        r"\btorch[ -](\d+\.\d+[\w.]*\+\w[\w.]*)",
    ),
    "torchvision": (
        r"torchvision==(\d[\w.+]*)",
        r"^torchvision\s+(\d[\w.+]*)",
        r"torchvision[ -](\d+\.\d+[\w.]*\+\w[\w.]*)",
    ),
    "torch_built_with_cuda": (r"CUDA used to build PyTorch: ([\w.]+)", r"torch\.version\.cuda = (\d+\.\d+)"),
    "module_loaded": (r"^(nvidia\w*) +\d+ +\d+",),
    "torch_built_with_rocm": (r"ROCM used to build PyTorch: ([\w./]+)",),
    "torch_npu": (r"torch[_-]npu==(\d[\w.+]*)", r"torch[_-]npu\s+(\d[\w.+]*)"),
    "cann": (
        r"(?:CANN|cann)[-_ ]*(?:toolkit|nnae|version)?[-_=: ]+v?(\d\.\d\.(?:RC)?\d\w*)",
        r"Ascend-cann-\S*=(\d\.[\w.]+)",
        r"ascend-toolkit/(\d\.\d\.\w+)",
    ),
    "ipex": (
        r"intel[_-]extension[_-]for[_-]pytorch(?:==|\s+|[ :]*version[ :]*)(\d[\w.+]*)",
        r"IPEX version: (\d[\w.+]*)",
    ),
    "capability": (
        r"GPU Compute Capability: (\d+\.\d)",
        r"compute capability[ :=]+\(?(\d+[.,] ?\d)",
        r"CUDA capability (sm_\d+)",
        r"\bcuda capability (\d+\.\d)\b",
        r"capability detected: (\d+\.\d)",
        r"compute=(\d+\.\d)",
    ),
    "architectures_built": (r"capabilities ((?:sm_\d+a? ?)+)", r"get_arch_list\(\).*?(sm_\d+.*)"),
    # what the environment shows the program
    "visible_devices": (r"(?:^|[\s'\"])CUDA_VISIBLE_DEVICES['\"]?[=:] ?\[?['\"]?([\w,.-]*)",),
    "pci_id": (r"PCI ID: 10de:([0-9a-f]{4})", r"\[10de:([0-9a-f]{4})\]"),
    "device_asked": (r"\bcuda:(\d+)", r"CUDA device (\d+) but", r"--gpu[-_]?id[s= ]+(\d+)", r"set_device\((\d+)\)"),
    "device_told": (
        r"\b(?:using|selected|training|running) (?:on |the )?device\s*[:=]?\s*['\"]?(cuda|gpu|npu|xpu|cpu)\b",
        r"^\W*device\s*[:=]\s*['\"]?(cuda|gpu|npu|xpu|cpu)(?::\d+)?['\"]?\s*$",
    ),
    "ascend_visible": (r"ASCEND_RT_VISIBLE_DEVICES[=:] ?([\d,]*)",),
    "kernel": (r"^Linux \S+ (\d+\.\d+\S+)", r"Linux version (\S+)", r"kernel[- :]+(\d+\.\d+\.\d+-\S+)"),
    "slurm_asks": (
        r"--gres[= ]?(\S*gpu\S*)",
        r"--gpus(?:-per-\w+)?[= ](\S+)",
        r"#SBATCH +-G[ =]?(\d\S*)",
        r"(?:srun|sbatch|salloc).* -G[ =]?(\d\S*)",
    ),
    "slurm_submits": (r"#SBATCH (\S+)", r"\b(srun) ", r"\b(sbatch) ", r"\b(salloc)\b"),
    # memory
    "memory_used_mib": (r"(\d+)MiB / +\d+MiB",),
    "oom_tried": (rf"(?:Tried|trying) to allocate {_SIZE}",),
    "bfc_limit": (r"\bLimit: +(\d+)$",),
    "bfc_in_use": (r"\bInUse: +(\d+)$",),
    "oom_total": (rf"{_SIZE} total capacity", rf"total capacity of {_SIZE}"),
    "oom_allocated": (rf"{_SIZE} already allocated", rf"{_SIZE} is allocated by PyTorch"),
    "oom_free": (rf"{_SIZE} free[;,)]", rf"of which {_SIZE} is free"),
    "oom_reserved": (rf"{_SIZE} reserved in total by PyTorch",),
    "oom_unallocated": (rf"{_SIZE} is reserved by PyTorch but unallocated", rf"free; {_SIZE} cached\)"),
    "oom_this_process": (rf"this process has {_SIZE} memory in use",),
    "oom_other_process": (rf"Process \d+ has {_SIZE} memory in use",),
    # Ollama and llama.cpp
    "offloaded": (r"offloaded (\d+/\d+) layers to GPU",),
    "layers_model": (r"layers\.model=(\d+)",),
    "layers_offload": (r"layers\.offload=(\d+)",),
    "ollama_weights": (rf"memory\.weights\.total=\"{_SIZE}\"", rf"memory\.weights\.repeating=\"{_SIZE}\""),
    "ollama_kv": (rf"memory\.required\.kv=\"{_SIZE}\"",),
    "ollama_full": (rf"memory\.required\.full=\"{_SIZE}\"",),
    "ollama_available": (r"memory\.available=\"\[([\d. A-Za-z]+)\]\"",),
    "ollama_part": (rf"\"model weights\" (?:device|buffer)=\S+ size=\"{_SIZE}\"",),
    "ollama_card_free": (rf"library=(?!cpu)\w+ .*available=\"{_SIZE}\"",),
    "context_length": (
        r"--ctx-size (\d+)",
        r"KvSize:(\d+)",
        r"CPU/GPU +(\d{4,})\b",
        r"\bn_ctx(?:_per_seq)? +=? *(\d+)",
        r"OLLAMA_CONTEXT_LENGTH[:=](\d+)",
        r"num_ctx[\"' :=]+(?:to '?)?(\d+)",
        r"max.model.len[= ]+(\d+)",
    ),
    "device_nodes": (
        r"(?:^|\s)((?:/dev/nvidia[\w-]+\s*)+)$",
        r"^((?:nvidia(?:\d+|ctl|-uvm(?:-tools)?|-modeset|-caps)\s*)+)$",
    ),
    "intel_windows_driver": (r"\b(3[12]\.0\.101\.\d{3,5})\b",),
    # hardware
    # a tool reached the card, or says that it did not
    "card_works": (
        r"^\|\s*(?:N/A|\d+ ?%)\s+\d+C\s+P\d+\s.*\|\s*\d+(MiB) / +\d+MiB \|",
        r"^GPU \d+: .{1,80}\(UUID: (GPU-)",
        r"GPU Current Temp\s*: (\d+) C",
        r"(?:Is CUDA available|cuda\.is_available\(\)|CUDA available)\W{1,6}(True)\b",
        r"^\|\s*\d+\s+(?:910|310)\S*\s*\|\s*(OK)\s*\|",
    ),
    "card_unwell": (
        r"(ERR!)",
        r"\.0 Off \|\s+([1-9]\d*) \|",  # memory errors that cannot be corrected
        r"\.0  On \|\s+([1-9]\d*) \|",
        r"^\|\s*\d+\s+(?:910|310)\S*\s*\|\s*(?!OK\b)([A-Z]\w+)\s*\|",
    ),
    "xid": (r"NVRM: (?:GPU at .*)?Xid \([^)]*\): (\d+)", r"\bXid \(PCI[^)]*\): (\d+)", r"\bXid[ :=]+(\d+)\b"),
    "retired_pages": (r"(?:Single|Double) Bit ECC\s*: (\d+)",),
    "temperature": (r"GPU Current Temp\s*: (\d+) C", r"(\d+)C\s+P\d+\s.*W / "),
    "temperature_passive": (r"N/A\s+(\d+)C\s+P\d+\s.*W / ",),
    "temperature_left": (r"GPU T\.Limit Temp\s*: (-?\d+) C",),
    "slowdown_temperature": (r"GPU Slowdown Temp\s*: (\d+) C",),
    "performance_state": (r"Performance State\s*: (P\d+)", r"\d+C\s+(P\d+)\s.*W / "),
    "utilisation": (r"MiB\s*\|\s*(\d+)%", r"^\s*Gpu\s*: (\d+) %"),
    "nccl_fabric": (r"fabric ?manager.*interface version (\d+\.[\d.]*\d)",),
}

# A program says that something went wrong: then a hint may be called a fault.
TROUBLE = (
    r"\berror\b",
    r"\bfatal\b",
    r"\bfail(?:s|ed|ure)\b",
    r"\bcannot\b",
    r"\b(?:could|can|did|does|was) ?n[o']t\b(?! collect)",
    r"\bunable to\b",
    r"\bdenied\b",
    r"\babort(?:ed)?\b",
    r"exception\b",
    r"\w(?:Error|Exception)\b",
    r"(?<!NET/IB : )\bno (?:\w+ )?(?:gpus?|devices?|cards?)\b",
    r"\bno such\b",
    r"\bnot loaded\b",
    r"\bmissing\b",
    r"\b(?:removed|removal|hung|lost)\b",
    r"\bis_available\(\).{0,12}False\b",
    r"\btraceback\b",
    r"\brefused\b",
    r"\binvalid\b",
    r"\bunsupported\b",
    r"(?<!multicast support is )\bnot (?:found|supported|available)\b",
    r"\btimed? ?out\b",
    r"\bhang(?:s|ing)?\b",
    r"\bcrash(?:es|ed)?\b",
    r"\bdevice count is zero\b",
)

_PLATFORMS: Mapping[str, tuple[str, ...]] = {
    "wsl": (r"microsoft-standard", r"/usr/lib/wsl", r"\d-Microsoft\b", r"/dev/dxg", r"dxgkrnl"),
    "windows": (r"[A-Z]:\\(?:Users|Windows|Program)", r"AppData[\\/]", r"Microsoft Windows", r"nvlddmkm", r"C:/Users/"),
    "mac": (r"^OS: macOS", r"\bmacOS[- ]\d", r"Apple M\d"),
    "k8s": (r"default-scheduler", r"nvidia\.com/gpu", r"\bkubelet\b"),
    "slurm": (r"\bslurmd\[", r"\bslurmctld\b", r"\bsrun: ", r"\bsbatch: "),
    "container": (r"nvidia-container-cli", r"docker: Error", r"\bdocker run\b", r"/\.dockerenv"),
}


def patterns() -> Iterator[str]:
    for group in (*FACTS.values(), *_PLATFORMS.values(), TROUBLE):
        yield from group


def read_facts(sightings: Mapping[str, Sequence[Line]]) -> dict[str, list[Fact]]:
    """Every fact, program output first, then in the order of the evidence."""
    facts: dict[str, list[Fact]] = {}
    for name, expressions in FACTS.items():
        every = [
            Fact(name, match[1].strip(), line)
            for expression in expressions
            for line in sightings.get(expression, ())
            if (match := compiled(expression).search(line.text)) and match[1] is not None
        ]
        if every:
            facts[name] = sorted(every, key=lambda fact: fact.line.place)
    return facts


def read_platforms(sightings: Mapping[str, Sequence[Line]], hint: str | None) -> frozenset[str]:
    """Where the evidence was printed: the hint, and what the evidence says itself. A hint leaves only the operating system open: the log of
    any machine may speak of containers and schedulers."""
    said = {name for name, expressions in _PLATFORMS.items() if any(sightings.get(e) for e in expressions)}
    return frozenset({hint} | said & {"wsl", "windows", "mac"}) if hint else frozenset(said)


def numbers(version: str) -> tuple[int, ...]:
    """``"535.54.03"`` -> (535, 54, 3); what is not a number ends it."""
    parts: list[int] = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


def gib(size: str) -> float:
    """``"20.00 MiB"`` in GiB (decimal prefixes are read as binary ones, as PyTorch prints them)."""
    if size.endswith("bytes") or size.isdigit():
        return float(size.split()[0]) * 2**-30
    value, unit = size[:-2].rstrip("i "), size.rstrip("B").rstrip("i")[-1].upper()
    scale = {"K": 2**-20, "M": 2**-10, "G": 1.0, "T": 1024.0}[unit]
    return float("".join(c for c in value if c.isdigit() or c == ".")) * scale
