"""What looks like a fault and is none; and faults of the program, not of the card."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.facts import numbers
from anycard.doctor.rule import ALLOWS, HINTS, SHOWS, SUGGESTS, Check, Rule, clue, on, printed, said, seen, step
from anycard.doctor.rules.hardware import xid
from anycard.doctor.shapes import Line, Verdict
from anycard.doctor.tables import cuda_floor_driver, cuda_native_driver

_FAMILY = "not-a-gpu-fault"
_NOTHING = (step("Nothing is to be mended"),)
_XID_45 = 45


def _only_xid_45(case: Case) -> tuple[Line, ...] | None:
    every = case.facts("xid")
    if every and all(int(fact.value) == _XID_45 for fact in every):
        return tuple(fact.line for fact in every[:3])
    return None


def _smi_and_nvcc_differ(case: Case) -> tuple[Line, ...] | None:
    smi, toolkit = case.fact("smi_cuda"), case.fact("toolkit")
    if smi and toolkit and numbers(smi.value)[:2] > numbers(toolkit.value)[:2]:
        return (smi.line, toolkit.line)
    return None


def _newer_minor_on_sound_driver(case: Case) -> tuple[Line, ...] | None:
    """A build of a newer minor CUDA than the driver prints, on a driver at or above that major's floor."""
    driver, smi = case.fact("driver"), case.fact("smi_cuda")
    torch = case.fact("torch")
    built = case.fact("torch_built_with_cuda")
    wanted: tuple[int, ...] = ()
    line = None
    if torch and "+cu" in torch.value:
        tag = torch.value.partition("+cu")[2]
        if tag.isdigit() and len(tag) >= 3:
            wanted, line = (int(tag[:-1]), int(tag[-1])), torch.line
    elif built:
        wanted, line = numbers(built.value)[:2], built.line
    if not driver or not line or len(wanted) < 2:
        return None
    floor = cuda_floor_driver(str(wanted[0]))
    sound = floor is not None and numbers(driver.value)[:1] >= (floor,)
    native = cuda_native_driver(wanted)
    shown = numbers(smi.value)[:2] if smi else None
    newer = shown < wanted if shown else native is not None and numbers(driver.value)[0] < native
    return (driver.line, line) if sound and newer else None


def _idle(case: Case) -> tuple[Line, ...] | None:
    state = [fact.line for fact in case.facts("performance_state") if fact.value in ("P8", "P12", "P5")]
    return tuple(state[:2]) or None


RULES = (
    Rule(
        slug="app-illegal-memory-access",
        family=_FAMILY,
        verdict=Verdict.APPLICATION,
        says="A bug of the program (or of one kernel in a library): it touched memory that is not its own.",
        clues=(
            clue(SHOWS, r"an illegal memory access was encountered"),
            clue(SHOWS, r"CUDA_ERROR_ILLEGAL_ADDRESS"),
            clue(SHOWS, r"cudaErrorIllegalAddress"),
            clue(SHOWS, r"device-side assert triggered"),
            clue(SHOWS, r"misaligned address"),
            clue(SHOWS, r"Memory access fault by GPU node"),
            clue(SHOWS, r"CUDA_ERROR_LAUNCH_FAILED"),
            clue(SHOWS, r"unspecified launch failure"),
            clue(SHOWS, r"an illegal instruction was encountered"),
            clue(0.55, r"illegal (?:memory access|address|instruction)"),
            clue(HINTS, r"CUDA kernel errors might be asynchronously reported"),
        ),
        separates="With Xid 48, 63, 94 or 95 in the kernel log it is the memory of the card.",
        mend=(
            step("Find the kernel", "CUDA_LAUNCH_BLOCKING=1 compute-sanitizer --tool memcheck python prog.py"),
            step("Update the library whose kernel it names"),
        ),
        next_check="sudo dmesg | grep -i xid; CUDA_LAUNCH_BLOCKING=1 python prog.py",
        authority="CUDA runtime API, cudaErrorIllegalAddress",
    ),
    Rule(
        slug="app-torch-nvml-count-bug",
        family=_FAMILY,
        verdict=Verdict.APPLICATION,
        says="The framework miscounts cards through NVML; the cards are fine.",
        clues=(
            clue(0.85, r"_cuda_getDeviceCount\(\)", r"device_count\(\)"),
            clue(SHOWS, r"device >= 0 && device < num_gpus"),
            clue(SHOWS, r"INTERNAL ASSERT FAILED at .*CUDAContext\.cpp"),
            clue(SHOWS, r"_(?:raw_)?device_(?:count|uuid)_nvml"),
            clue(SHOWS, r"_get_nvml_device_index"),
            clue(
                0.9,
                r"device_count\(\)",
                seen(r"works (?:as expected|fine)", r"device='cuda:0'"),
                seen(r"\bOut\[\d+\]: 0\b", r"device_count\(\).{0,12}(?:returns?|is|=|==) ?.{0,3}\b0\b"),
            ),
            clue(
                SHOWS,
                r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?(?:GPU|MIG)-[0-9a-f]{4}",
                seen(r"device_count", r"is_available\(\)"),
                unless=(r"MIG-\S+,MIG-",),
            ),
            clue(SUGGESTS, r"PYTORCH_NVML_BASED_CUDA_CHECK"),
            clue(SUGGESTS, r"Can't (?:initialize NVML|get nvml device count)"),
            clue(SUGGESTS, r"nvmlDeviceGetHandleByIndex", seen(r"torch", r"INTERNAL ASSERT")),
            clue(0.75, r"_cuda_getDeviceCount\(\)\W{0,4}(?:=|returns|is)"),
        ),
        separates="An index that the program itself asks for says 'invalid device ordinal'.",
        mend=(
            step("Name cards by number instead of UUID, or update torch"),
            step("Ask CUDA instead of NVML", "unset PYTORCH_NVML_BASED_CUDA_CHECK"),
        ),
        next_check="python -c 'import torch; torch.zeros(1).cuda(); print(torch._C._cuda_getDeviceCount(), torch.cuda.device_count())'",
        authority="https://github.com/pytorch/pytorch/issues/90543, #95784, #107300",
    ),
    Rule(
        slug="app-xid45-preemptive-cleanup",
        family=_FAMILY,
        verdict=Verdict.APPLICATION,
        says="Xid 45 is the driver cleaning up channels when a program is ended: a consequence, not a fault of the card.",
        clues=(
            clue(0.9, Check(_only_xid_45)),
            clue(HINTS, xid(45)),
            clue(SUGGESTS, r"Preemptive Channel Removal"),
        ),
        separates="If another Xid comes before it, that one is the cause.",
        mend=(step("Look who ended the program (a scheduler, a time limit, out of memory, Ctrl-C)"),),
        next_check="sudo dmesg -T | grep -iE 'xid|oom|killed'",
        authority="NVIDIA Xid catalogue: 45",
    ),
    Rule(
        slug="healthy-benign-kernel-lines",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="These kernel lines are harmless messages of a working driver.",
        clues=(
            clue(0.6, r"module verification failed: signature and/or required key missing"),
            clue(0.6, r"module license 'NVIDIA' taints kernel"),
            clue(0.6, r"Disabling lock debugging due to kernel taint"),
            clue(0.6, r"NVRM: loading NVIDIA UNIX"),
            clue(SUGGESTS, r"SXid.{0,60}Non-fatal"),
            clue(0.6, r"nvidia-nvlink: Nvlink Core is being initialized"),
            clue(0.6, r"nvidia-nvswitch\d*: .{0,60}(?:open|close|probing|using|using MSI)"),
            clue(SUGGESTS, r"\[drm\] \[nvidia-drm\].{0,60}(?:Loading driver|No compatible format|Initialized)"),
            clue(SUGGESTS, r"nvidia_peermem.{0,80}(?:module uses symbols|not found)"),
            clue(SUGGESTS, r"nvidia-gpu \S+: i2c timeout error"),
            clue(SUGGESTS, r"(?:ACPI|i2c|PCI|nvidia|resource).{0,80}(?:harmless|can be ignored|safely ignore)"),
            clue(SUGGESTS, r"nvidia: probe of \S+ failed with error -1$", r"NVRM: loading"),
            clue(SUGGESTS, r"ACPI Warning: .{0,40}_DSM: Argument"),
            clue(SUGGESTS, r"resource sanity check: requesting .{0,120}(?:PCI Bus|BOOTFB|nv)"),
            clue(SUGGESTS, r"caller \S+\+0x\S+ \[nvidia\] mapping multiple BARs"),
            clue(SUGGESTS, r"BAR \d+ \[(?:io|mem) .{0,60}(?:can't claim|failed to assign)"),
            clue(HINTS, r"NVRM: .{0,80}(?:nvAssert|Assertion failed)\w*"),
            clue(HINTS, r"^.{0,40}nvidia.{0,80}(?:loading out-of-tree module|taints kernel)"),
            clue(ALLOWS, r"nvidia-(?:nvlink|modeset|drm)"),
            clue(HINTS, r"\bnvidia-nvswitch\w*"),
        ),
        separates="'Key was rejected by service' is a refusal; 'tainting kernel' is a note.",
        mend=_NOTHING,
        next_check="nvidia-smi",
        authority="NVIDIA driver README; fleet operators' lists of harmless messages",
    ),
    Rule(
        slug="healthy-container-gid-notice",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="A group number of the host has no name in the image: cosmetic.",
        clues=(clue(SHOWS, r"groups: cannot find name for group ID"),),
        mend=_NOTHING,
        next_check="nvidia-smi -L",
        authority="GNU coreutils, groups",
    ),
    Rule(
        slug="healthy-container-pid-namespace",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="NVML reports the host's process numbers, which do not exist in the container: the process list is empty there by design.",
        clues=(
            clue(0.9, on("container", "k8s"), r"No running processes found"),
            clue(
                0.9,
                r"No running processes found",
                seen(
                    r"\bdocker\b",
                    r"\bcontainer\b",
                    r"\bpod\b",
                    r"kubectl",
                    r"[Pp]rocesses.{0,40}(?:empty|not shown|blank)",
                ),
            ),
            clue(
                SHOWS,
                on("container", "k8s"),
                seen(
                    r"(?:processes|PIDs?).{0,60}(?:empty|not (?:shown|listed|visible|displayed)|missing|blank|no )",
                    r"(?:process|PID)\w* (?:list|table|column).{0,20}",
                ),
            ),
            clue(SHOWS, r"(?:host|other) PID namespace"),
            clue(SHOWS, r"psutil\.NoSuchProcess"),
            clue(SUGGESTS, r"^\|\s+ID\s+ID\s+Usage", on("container")),
            clue(HINTS, on("container", "k8s"), r"\bPID\b.{0,80}[Pp]rocess name"),
        ),
        explains=("orphan-worker-holds-gpu",),
        mend=(step("To see them, share the host's namespace", "docker run --pid=host ..."),),
        next_check="nvidia-smi   # on the host",
        authority="https://github.com/NVIDIA/nvidia-docker/issues/179",
    ),
    Rule(
        slug="healthy-cuda-version-difference",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="nvidia-smi prints the highest CUDA that the driver supports, nvcc the toolkit installed: they may differ.",
        clues=(
            clue(0.9, Check(_smi_and_nvcc_differ), unless=(r"Traceback", r"\bError\b.{0,10}\d", r"error:")),
            clue(0.75, Check(_smi_and_nvcc_differ)),
            clue(
                SHOWS,
                seen(r"nvcc"),
                seen(r"nvidia-smi"),
                seen(
                    r"(?:different|differ|mismatch|not the same).{0,60}(?:version|CUDA)",
                    r"(?:version|CUDA)s?.{0,60}(?:different|differ|mismatch|not the same|not match)",
                ),
                unless=(r"Driver/library version mismatch",),
            ),
            clue(SHOWS, on("wsl"), r"NVIDIA-SMI \d{3}\.\d+\.\d+ +Driver Version: \d{3}\.\d\d "),
        ),
        mend=_NOTHING,
        next_check="nvidia-smi; nvcc --version; python -c 'import torch; print(torch.cuda.is_available())'",
        authority="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Rule(
        slug="healthy-idle-clocks",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="Nothing runs on the card, so its clocks are down.",
        clues=(
            clue(0.85, r"^\s+Idle\s*: Active", unless=(r"(?:HW|SW) (?:Thermal |Power Brake )?Slowdown\s*: Active",)),
            clue(SHOWS, r"clocks_(?:throttle|event)_reasons\.gpu_idle.{0,12}Active$"),
            clue(HINTS, Check(_idle), r"\s0% +Default", unless=(r"Not Found", r"failed")),
            clue(SUGGESTS, said(r"clock.{0,40}(?:low|down|stuck|210|300|405).{0,40}idle", r"idle.{0,40}clock")),
            clue(ALLOWS, Check(_idle)),
        ),
        mend=_NOTHING,
        next_check="nvidia-smi -q -d PERFORMANCE,CLOCK   # under load",
        authority="man nvidia-smi, clocks event reasons: idle",
    ),
    Rule(
        slug="healthy-minor-version-compat",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="A build for a newer minor CUDA runs on this driver by design (minor-version compatibility).",
        clues=(
            clue(
                0.9,
                Check(_newer_minor_on_sound_driver),
                unless=(
                    r"Traceback",
                    r"too old",
                    r"is insufficient",
                    r"unsupported toolchain",
                    r"is_available\(\).{0,12}False",
                ),
            ),
            clue(SHOWS, r"minor.version compatib", unless=(r"forward compatibility was attempted",)),
            clue(
                SHOWS,
                said(r"cu12\d.{0,60}driver.{0,40}CUDA 12\.\d", r"driver.{0,40}CUDA 1[23]\.\d.{0,60}cu1[23]\d"),
                unless=(r"too old", r"insufficient"),
            ),
        ),
        separates="Only PTX of a newer minor, and an other major, need the newer driver.",
        explains=("healthy-cuda-version-difference", "driver-too-old-for-cuda-runtime"),
        mend=_NOTHING,
        next_check="python -c 'import torch; print(torch.cuda.is_available(), torch.zeros(1).cuda())'",
        authority="https://docs.nvidia.com/deploy/cuda-compatibility/#minor-version-compatibility",
    ),
    Rule(
        slug="healthy-no-work-submitted",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="The card is found and listed as compute device; it is idle because no work was sent to it yet.",
        clues=(
            clue(
                0.75,
                r"inference compute.{0,160}library=(?:cuda|CUDA|rocm|ROCm|metal|Metal|vulkan|Vulkan)",
                unless=(
                    r"offloaded \d+/",
                    r"\bWARN\b",
                    r"level=ERROR",
                    r"CPU buffer size",
                    r"compatible=\[\]",
                    r"failed to",
                    r"layers\.offload",
                    r"layers\.model",
                    r"offload to",
                    r"cuda error",
                    r"timed out",
                    r"CPU/GPU",
                    r"LM ?Studio",
                ),
            ),
            clue(
                SUGGESTS,
                said(r"(?:no|never|nothing) .{0,30}(?:request|prompt|work|load).{0,20}(?:sent|submitted|made|yet)"),
            ),
            clue(HINTS, r"inference compute.{0,160}library=(?:cuda|CUDA|rocm|ROCm)"),
        ),
        separates="After a request look for 'offloaded N/N layers to GPU' or `ollama ps`.",
        mend=(step("Send it something and look while it answers", "ollama run MODEL hello & nvidia-smi"),),
        next_check="ollama ps; nvidia-smi   # while it answers",
        authority="https://github.com/ollama/ollama/blob/main/docs/troubleshooting.md",
    ),
    Rule(
        slug="healthy-numa-minus-one",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="The firmware gives the card no NUMA node: an information line.",
        clues=(
            clue(SHOWS, r"successful NUMA node read from SysFS had negative value \(-1\)"),
            clue(SUGGESTS, r"Your kernel may (?:have been built without|not have been built with) NUMA support"),
            clue(SUGGESTS, r"could not open file to read NUMA node"),
        ),
        mend=_NOTHING,
        next_check="python -c 'import tensorflow as tf; print(tf.config.list_physical_devices(\"GPU\"))'",
        authority="TensorFlow cuda_gpu_executor.cc",
    ),
    Rule(
        slug="healthy-pcie-idle-downshift",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="The PCIe link lowers its speed while the card idles, and rises under load.",
        clues=(
            clue(
                0.8,
                r"LnkSta:.*Speed 2\.5GT/s \(downgraded\)",
                unless=(r"LnkSta:.*Width x\d+ \(downgraded\)", r"fallen off the bus"),
            ),
            clue(SHOWS, seen(r"Current\s*: 1\b", r"2\.5 ?GT/s"), seen(r"Max\s*: [3456]\b", r" P8 ", r"\bidle\b")),
            clue(SHOWS, r"(?:pcie|PCIe|link)\S* .{0,40}(?:gen ?1|2\.5 ?GT/s).{0,60}idle"),
            clue(SHOWS, r"pcie\.link\.gen\.(?:gpu)?current.{0,200}", seen(r" P8 ", r"\bidle\b")),
            clue(
                SUGGESTS,
                r"\b2\.5 ?GT/s\b",
                unless=(r"LnkSta:.*Width x\d+ \(downgraded\)", r"fallen off the bus", r"AER"),
            ),
            clue(SHOWS, r"pcie\.link\.gen\.(?:gpu)?current", r", P(?:8|12)$"),
        ),
        separates="A width below the slot's (x8 of x16) that stays under load is a seat or slot matter.",
        explains=("pcie-link-limited-upstream", "healthy-idle-clocks"),
        mend=_NOTHING,
        next_check="nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.gen.max,pstate --format=csv   # under load",
        authority="man nvidia-smi, PCIe link generation ('may be reduced when the GPU is not in use')",
    ),
    Rule(
        slug="healthy-sw-power-cap",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="The card runs at its power limit under load: by design.",
        clues=(
            clue(SHOWS, r"SW Power Cap\s*: Active", unless=(r"(?:Thermal|Power Brake) Slowdown\s*: Active",)),
            clue(SHOWS, r"clocks_(?:throttle|event)_reasons\.sw_power_cap.{0,12}Active$"),
            clue(0.8, r"SwPowerCap"),
            clue(
                SUGGESTS,
                r"(?:power cap|power limit).{0,60}(?:throttl|limit(?:ed|ing))",
                seen(r"nvidia-smi", r"GPU", r"clock"),
            ),
            clue(HINTS, r"power ?cap", unless=(r"SW Power Cap\s*: Not Active",)),
        ),
        explains=("healthy-idle-clocks", "thermal-throttling"),
        mend=(step("If the supply and cooling allow, the limit may be raised", "sudo nvidia-smi -pl WATTS"),),
        next_check="nvidia-smi -q -d POWER,PERFORMANCE",
        authority="man nvidia-smi, clocks event reasons: SW power cap",
    ),
    Rule(
        slug="healthy-wsl-ldconfig-notice",
        family=_FAMILY,
        verdict=Verdict.HEALTHY,
        says="The Windows driver ships plain copies instead of links, and ldconfig remarks on it: cosmetic.",
        clues=(
            clue(0.9, r"/usr/lib/wsl/lib/libcuda\.so\.1 is not a symbolic link"),
            clue(SHOWS, r"/usr/lib/wsl/\S+ is not a symbolic link"),
        ),
        explains=("wsl-libcuda-not-on-loader-path", "wsl-linux-driver-installed-inside"),
        mend=_NOTHING,
        next_check="nvidia-smi; python -c 'import torch; print(torch.cuda.is_available())'",
        authority="https://github.com/microsoft/WSL/issues/5663",
    ),
    Rule(
        slug="ok-cpu-stage-of-pipeline",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="These stages of the program work on CPU and disk by design; the card has its turn in others.",
        clues=(
            clue(
                0.75,
                said(r"GPU.{0,20}(?:idle|unused|not (?:being )?used|0 ?%)|(?:only|all).{0,12}CPU"),
                seen(
                    r"(?:align|selecting pairs|calibrat|mesh|orthomosaic|pre-?process|densif|decod|export)\w*.{0,40}(?:stage|step|phase|photos|pairs|done)"
                ),
            ),
            clue(0.9, r"(?:Processing|Pipeline) (?:step|stage).{0,40}(?:CPU|GPU)"),
            clue(
                SHOWS,
                seen(
                    r"Pix4D",
                    r"Metashape",
                    r"RealityCapture",
                    r"photogrammetry",
                    r"Lumerical",
                    r"meshing",
                    r"[Cc]alibration",
                ),
                seen(r"(?:step|stage|phase)\w*.{0,60}(?:CPU|GPU)", r"GPU.{0,40}(?:idle|not used|unused|0 ?%|low|only)"),
                unless=(r"driver",),
            ),
            clue(
                SHOWS, said(r"(?:stage|step|phase|preprocess\w*|meshing|calibration)\w*.{0,60}(?:CPU|on the processor)")
            ),
        ),
        explains=("app-silent-cpu-fallback", "gpu-starved-by-dataloader", "gpu-starved-by-storage-io"),
        mend=(step("Give those stages cores and fast disks; hold a card only for the stages that use it"),),
        next_check="nvidia-smi dmon -s u   # through all stages",
        authority="https://support.pix4d.com (hardware usage by processing step)",
    ),
    Rule(
        slug="ok-keep-alive-unload",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="Ollama unloads a model that was not asked for some minutes (keep_alive, 5 by default).",
        clues=(
            clue(
                0.85,
                r"OLLAMA_KEEP_ALIVE[:=]",
                said(
                    r"unload",
                    r"after (?:a )?(?:few|some|5|five) minutes",
                    r"VRAM.{0,30}(?:empty|free)",
                    r"delay",
                    r"reload",
                ),
            ),
            clue(
                0.6,
                r"OLLAMA_KEEP_ALIVE[:=]5m0s",
                unless=(
                    r"offloaded",
                    r"inference compute",
                    r"level=ERROR",
                    r"level=WARN",
                    r"no compatible GPUs",
                    r"cuda",
                ),
            ),
            clue(SHOWS, said(r"keep_alive", r"(?:model|VRAM).{0,40}(?:unload\w*|freed|emptied).{0,60}minutes")),
            clue(SUGGESTS, r"(?:runner expired event received|timer expired, expiring to unload)"),
        ),
        mend=(step("Keep it loaded", "OLLAMA_KEEP_ALIVE=-1 ollama serve"),),
        next_check="ollama ps   # column UNTIL",
        authority="https://github.com/ollama/ollama/blob/main/docs/faq.md (keep a model loaded)",
    ),
    Rule(
        slug="ok-npu-operator-fallback-warning",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="One operator is not there for the NPU (or this backend) and runs on the CPU; everything else stays on the card.",
        clues=(
            clue(0.9, r"is not currently supported on the (?:NPU|XPU) backend and will fall back"),
            clue(0.9, r"npu_cpu_fallback"),
            clue(
                SHOWS,
                r"will fall ?back to (?:run on )?(?:the )?CPU\. This may have performance implications",
                unless=(r"MPS",),
            ),
            clue(SHOWS, r"Aten Op fallback from XPU to CPU"),
        ),
        explains=("app-silent-cpu-fallback", "mps-operator-needs-fallback", "torch-torchvision-cuda-mismatch"),
        mend=(step("Nothing is broken; if it is slow, update torch_npu and CANN"),),
        next_check="npu-smi info   # while it runs",
        authority="https://github.com/opendatalab/MinerU/issues/1941",
    ),
    Rule(
        slug="ok-one-mig-instance-per-process",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="A CUDA process can use a single MIG instance, however many are named.",
        clues=(
            clue(
                0.9,
                r"\bMIG[- ]",
                seen(r"device_count\(\)", r"\b1\b.{0,20}device", r"only (?:one|1|sees)", r"single"),
                unless=(r"Error", r"No CUDA GPUs", r"invalid", r"ASSERT", r"\bOut\[\d+\]: 0\b"),
            ),
            clue(SHOWS, r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?MIG-\S+,MIG-"),
            clue(
                HINTS,
                printed(r"device_count\(\)"),
                unless=(r"Error", r"CUDA_VISIBLE_DEVICES", r"PyTorch version", r"os\.environ"),
            ),
            clue(HINTS, r"\bMIG \d\w+\.\d+gb"),
        ),
        explains=("mig-instance-not-selected", "cuda-visible-devices-wrong"),
        mend=(step("Start one process for each instance", "CUDA_VISIBLE_DEVICES=MIG-... python worker.py"),),
        next_check="nvidia-smi -L; nvidia-smi -q | grep -A2 'MIG Mode'",
        authority="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (device enumeration)",
    ),
    Rule(
        slug="ok-rocm-uses-cuda-names",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="ROCm builds keep the torch.cuda interface and the device name 'cuda': that is the AMD card.",
        clues=(
            clue(
                0.9,
                seen(r"\+rocm\d", r"version\.hip.{0,12}\d", r"\bROCm\b", r"ROCM used to build PyTorch: \d", r"\bHIP\b"),
                seen(
                    r"device ?=? ?\(?['\"]?cuda",
                    r"torch\.cuda\.(?:is_available|get_device_name|device_count)",
                    r"['\"]cuda(?::\d)?['\"]",
                ),
                unless=(
                    r"Error",
                    r"error:",
                    r"Traceback",
                    r"\+cu\d",
                    r"HSA_OVERRIDE",
                    r"hipErrorNoBinary",
                    r"Permission denied",
                    r"False\b",
                ),
            ),
            clue(SUGGESTS, r"torch\.cuda.{0,60}(?:AMD|Radeon|ROCm|gfx)"),
            clue(HINTS, r"(?:ROCm|rocm|HIP).{0,120}\bcuda\b"),
            clue(
                HINTS,
                printed(r"device ?= ?[\x27\"]cuda"),
                unless=(r"[Ee]rror", r"Traceback", r"False\b", r"[Ww]arning"),
            ),
        ),
        mend=_NOTHING,
        next_check="python -c 'import torch; print(torch.version.hip, torch.cuda.get_device_name(0))'",
        authority="https://docs.pytorch.org/docs/stable/notes/hip.html",
    ),
    Rule(
        slug="ok-slurm-excess-gres",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="The node has more cards than its configuration names: the rest is left alone, which is a note, not a fault.",
        clues=(
            clue(0.9, r"Ignoring excess (?:count|GRES|gres|gpu)"),
            clue(
                0.9,
                r"(?:gres|GRES)\S*.{0,60}(?:excess|more (?:\S+ )?than configured|reported higher than configured|count too high|greater than configured)",
            ),
            clue(SHOWS, r"excess.{0,40}(?:gres|GRES|gpu)"),
            clue(
                0.8,
                r"following autodetected GPUs are being ignored",
                unless=(r"lack of File", r"Discarding the following", r"Gres=\(null\)", r"GresTypes"),
            ),
        ),
        separates="Fewer than configured drains the node (slurm-gres-count-lower-than-configured).",
        explains=("slurm-grestypes-not-set", "slurm-gres-conf-differs-between-hosts"),
        mend=(step("To use them, raise the number", "NodeName=... Gres=gpu:8   # in slurm.conf"),),
        next_check="slurmd -G; scontrol show node $(hostname -s) | grep Gres",
        authority="https://slurm.schedmd.com/gres.html",
    ),
    Rule(
        slug="ok-task-manager-graphics-only",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="Task Manager's default graphs show the graphics engines; compute work is drawn under 'Cuda' (or 'Compute').",
        clues=(
            clue(0.92, r"[Tt]ask [Mm]anager", unless=(r"\bTDR\b", r"CPU/GPU", r"fail")),
            clue(0.92, r"任务管理器"),
        ),
        explains=("ok-utilisation-below-100", "app-silent-cpu-fallback", "gpu-starved-by-dataloader"),
        mend=(step("Choose the graph 'Cuda', or look with", "nvidia-smi dmon -s u"),),
        next_check="nvidia-smi",
        authority="https://devblogs.microsoft.com/directx/gpus-in-the-task-manager/",
    ),
    Rule(
        slug="ok-utilisation-below-100",
        family=_FAMILY,
        verdict=Verdict.EXPECTED,
        says="All of the model is on the card; generating is bound by memory bandwidth, so utilisation stays below 100 %.",
        clues=(
            clue(
                0.85,
                seen(r"--n-gpu-layers \d+", r"runners/(?:cuda|rocm)\w*", r"offloaded (\d+)/\1 layers", r"100% GPU"),
                said(r"utili[sz]ation", r"GPU usage"),
            ),
            clue(
                0.6,
                r"offloaded (\d+)/\1 layers to GPU",
                unless=(
                    r"out of memory",
                    r"ERROR",
                    r"timed out",
                    r"level=WARN",
                    r"cudaMalloc failed",
                    r"failed to allocate",
                ),
            ),
            clue(0.6, r"\b100% GPU\b", unless=(r"out of memory", r"ERROR", r"failed to allocate")),
            clue(SHOWS, r"runners/(?:cuda|rocm)\w*/\S+ .*--n-gpu-layers"),
            clue(SUGGESTS, said(r"utili[sz]ation.{0,30}\b(?:[4-9]\d) ?%")),
            clue(ALLOWS, r"MiB \|\s+(?:[4-9]\d)%"),
        ),
        mend=_NOTHING,
        next_check="nvidia-smi dmon -s um",
        authority="https://github.com/ollama/ollama/blob/main/docs/faq.md",
    ),
)
