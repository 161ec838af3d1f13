"""Readings that look like a fault and are none."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.facts import numbers
from anycard.doctor.rule import ALLOWS, HINTS, SHOWS, SUGGESTS, Check, Rule, clue, on, said, seen, step
from anycard.doctor.shapes import Line, Verdict
from anycard.doctor.tables import cuda_floor_driver, cuda_native_driver

FAMILY = "not-a-gpu-fault"
NOTHING = (step("Nothing is to be mended"),)


def _smi_and_nvcc_differ(case: Case) -> tuple[Line, ...] | None:
    smi, toolkit = case.fact("smi_cuda"), case.fact("toolkit")
    if smi and toolkit and numbers(smi.value)[:2] > numbers(toolkit.value)[:2]:
        return (smi.line, toolkit.line)
    return None


def _newer_minor_on_sound_driver(case: Case) -> tuple[Line, ...] | None:
    """A build of a newer minor CUDA than the driver prints, on a driver at or above that major's floor."""
    driver, smi = case.fact("driver"), case.fact("smi_cuda")
    torch, toolkit = case.fact("torch"), case.fact("toolkit")
    built = case.fact("torch_built_with_cuda")
    wanted: tuple[int, ...] = ()
    line = None
    if torch and "+cu" in torch.value:
        tag = torch.value.partition("+cu")[2]
        if tag.isdigit() and len(tag) >= 3:
            wanted, line = (int(tag[:-1]), int(tag[-1])), torch.line
    elif built:
        wanted, line = numbers(built.value)[:2], built.line
    elif toolkit:
        wanted, line = numbers(toolkit.value)[:2], toolkit.line
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
        slug="healthy-benign-kernel-lines",
        family=FAMILY,
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
        mend=NOTHING,
        next_check="nvidia-smi",
        authority="NVIDIA driver README; fleet operators' lists of harmless messages",
    ),
    Rule(
        slug="healthy-container-gid-notice",
        family=FAMILY,
        verdict=Verdict.HEALTHY,
        says="A group number of the host has no name in the image: cosmetic.",
        clues=(clue(SHOWS, r"groups: cannot find name for group ID"),),
        mend=NOTHING,
        next_check="nvidia-smi -L",
        authority="GNU coreutils, groups",
    ),
    Rule(
        slug="healthy-container-pid-namespace",
        family=FAMILY,
        verdict=Verdict.HEALTHY,
        says="NVML reports the host's process numbers, which do not exist in the container: the process list is empty there by design.",
        clues=(
            clue(0.9, on("container", "k8s"), r"No running processes found"),
            clue(
                0.9,
                r"No running processes found",
                seen(r"(?:docker|podman|kubectl|crictl|nerdctl) (?:run|exec)\b", r"/\.dockerenv"),
            ),
            clue(
                0.9,
                r"No running processes found",
                said(r"\b(?:docker|container|pod|kubectl)\b", r"[Pp]rocesses.{0,40}(?:empty|not shown|blank)"),
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
            clue(
                SHOWS,
                on("container", "k8s"),
                r"^\|\s+GPU\s+(?:GI\s+CI\s+)?PID\s+Type\s+Process name",
                unless=(
                    r"^\|\s+\d+\s+(?:\S+\s+\S+\s+)?\d+\s+[CGM](?:\+[CG])?\s+\S.*(?:MiB|N/A) +\|",
                    r"[Oo]ut ?[Oo]f ?[Mm]emory",
                ),
            ),
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
        family=FAMILY,
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
        mend=NOTHING,
        next_check="nvidia-smi; nvcc --version; python -c 'import torch; print(torch.cuda.is_available())'",
        authority="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Rule(
        slug="healthy-idle-clocks",
        family=FAMILY,
        verdict=Verdict.HEALTHY,
        says="Nothing runs on the card, so its clocks are down.",
        clues=(
            clue(0.85, r"^\s+Idle\s*: Active", unless=(r"(?:HW|SW) (?:Thermal |Power Brake )?Slowdown\s*: Active",)),
            clue(SHOWS, r"clocks_(?:throttle|event)_reasons\.gpu_idle.{0,12}Active$"),
            clue(HINTS, Check(_idle), r"\s0% +Default", unless=(r"Not Found", r"failed")),
            clue(SUGGESTS, said(r"clock.{0,40}(?:low|down|stuck|210|300|405).{0,40}idle", r"idle.{0,40}clock")),
            clue(ALLOWS, Check(_idle)),
        ),
        mend=NOTHING,
        next_check="nvidia-smi -q -d PERFORMANCE,CLOCK   # under load",
        authority="man nvidia-smi, clocks event reasons: idle",
    ),
    Rule(
        slug="healthy-minor-version-compat",
        family=FAMILY,
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
                said(
                    r"cu12\d.{0,60}driver.{0,40}CUDA 12\.\d",
                    r"driver.{0,40}CUDA 1[23]\.\d.{0,60}cu1[23]\d",
                    r"(?:built|compiled|made|module) .{0,20}CUDA 12\.\d.{0,60}driver.{0,30}\b12\.\d",
                ),
                unless=(r"too old", r"insufficient"),
            ),
        ),
        separates="Only PTX of a newer minor, and an other major, need the newer driver.",
        explains=("healthy-cuda-version-difference", "driver-too-old-for-cuda-runtime"),
        mend=NOTHING,
        next_check="python -c 'import torch; print(torch.cuda.is_available(), torch.zeros(1).cuda())'",
        authority="https://docs.nvidia.com/deploy/cuda-compatibility/#minor-version-compatibility",
    ),
    Rule(
        slug="healthy-no-work-submitted",
        family=FAMILY,
        verdict=Verdict.HEALTHY,
        says="The card is found and listed as compute device; it is idle because no work was sent to it yet.",
        clues=(
            clue(SHOWS, r"Running: 0 reqs, Waiting: 0 reqs", unless=(r"Error", r"Traceback", r"out of memory")),
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
                    r"\b100% CPU\b",
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
        family=FAMILY,
        verdict=Verdict.HEALTHY,
        says="The firmware gives the card no NUMA node: an information line.",
        clues=(
            clue(SHOWS, r"successful NUMA node read from SysFS had negative value \(-1\)"),
            clue(SUGGESTS, r"Your kernel may (?:have been built without|not have been built with) NUMA support"),
            clue(SUGGESTS, r"could not open file to read NUMA node"),
        ),
        mend=NOTHING,
        next_check="python -c 'import tensorflow as tf; print(tf.config.list_physical_devices(\"GPU\"))'",
        authority="TensorFlow cuda_gpu_executor.cc",
    ),
    Rule(
        slug="healthy-pcie-idle-downshift",
        family=FAMILY,
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
            clue(SUGGESTS, r"\bPCIe GEN 1 ?@ ?\d+x"),
        ),
        separates="A width below the slot's (x8 of x16) that stays under load is a seat or slot matter.",
        explains=("pcie-link-limited-upstream", "healthy-idle-clocks"),
        mend=NOTHING,
        next_check="nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.gen.max,pstate --format=csv   # under load",
        authority="man nvidia-smi, PCIe link generation ('may be reduced when the GPU is not in use')",
    ),
    Rule(
        slug="healthy-sw-power-cap",
        family=FAMILY,
        verdict=Verdict.HEALTHY,
        says="The card runs at its power limit under load: by design.",
        clues=(
            clue(SHOWS, r"SW Power Cap\s*: Active", unless=(r"(?:Thermal|Power Brake) Slowdown\s*: Active",)),
            clue(SHOWS, r"clocks_(?:throttle|event)_reasons\.sw_power_cap.{0,12}Active$"),
            clue(0.8, r"SwPowerCap"),
            clue(
                SHOWS,
                r"(?:throttle|clock\w*|event)\w*.{0,40}\b0x0*4\b",
                unless=(r"(?:Thermal|Power Brake) Slowdown\s*: Active",),
            ),
            clue(
                SHOWS,
                r"clock.{0,60}\bsw_power_cap\b",
                unless=(
                    r"sw_power_cap.{0,12}(?:Not Active|: ?0\b)",
                    r"hw_(?:slowdown|thermal_slowdown|power_brake\w*).{0,6}(?:: Active|, Active)",
                ),
            ),
            clue(SHOWS, r"DCGM_FI_DEV_CLOCKS?_(?:THROTTLE|EVENT)_REASONS\{.*\} 4(?:\.0)?$"),
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
        family=FAMILY,
        verdict=Verdict.HEALTHY,
        says="The Windows driver ships plain copies instead of links, and ldconfig remarks on it: cosmetic.",
        clues=(
            clue(0.9, r"/usr/lib/wsl/lib/libcuda\.so\.1 is not a symbolic link"),
            clue(SHOWS, r"/usr/lib/wsl/\S+ is not a symbolic link"),
        ),
        explains=("wsl-libcuda-not-on-loader-path", "wsl-linux-driver-installed-inside"),
        mend=NOTHING,
        next_check="nvidia-smi; python -c 'import torch; print(torch.cuda.is_available())'",
        authority="https://github.com/microsoft/WSL/issues/5663",
    ),
)
