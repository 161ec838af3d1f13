"""AMD cards: kernel driver, KFD, firmware, permissions, overrides, wheels."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Rule, clue, on, said, seen, step
from anycard.doctor.shapes import Verdict

_ROCM = "https://rocm.docs.amd.com/projects/install-on-linux/"
_NODE = r"/dev/(?:kfd|dri/\w+)"

RULES = (
    Rule(
        slug="amd-gpu-not-supported-by-kfd",
        family="amd",
        verdict=Verdict.FAULT,
        says="This generation of card is not supported by the KFD compute driver: it draws, it does not compute.",
        clues=(
            clue(PROVES, r"kfd kfd: .{0,40}not supported in kfd"),
            clue(PROVES, r"not supported in kfd"),
            clue(SHOWS, r"kfd: .{0,60}(?:skipped|not supported|PCI rejects atomics)"),
            clue(SHOWS, r"No (?:KFD|compute) nodes? for"),
            clue(SUGGESTS, r"Unable to open /dev/kfd read-write: (?:Cannot allocate memory|Invalid argument|No such)"),
            clue(SUGGESTS, r"hsa_init.{0,60}HSA_STATUS_ERROR_OUT_OF_RESOURCES"),
            clue(HINTS, r"\bkfd\b.{0,80}(?:error|fail|not|unsupported)"),
            clue(SHOWS, r"PCI rejects atomics"),
        ),
        explains=("gpu-device-node-permission", "amd-gfx-unsupported-needs-override"),
        mend=(
            step(
                "Use it for Vulkan or OpenCL by Mesa (rusticl), or take a card that ROCm lists",
                "RUSTICL_ENABLE=radeonsi clinfo",
            ),
            step("If it says 'PCI rejects atomics', move the card to a slot on the CPU's own lanes"),
        ),
        next_check="sudo dmesg | grep -i kfd; lspci -nn | grep -iE 'vga|display'",
        authority=_ROCM + "en/latest/reference/system-requirements.html",
    ),
    Rule(
        slug="amd-mes-firmware-hang",
        family="amd",
        verdict=Verdict.FAULT,
        says="The card's MES firmware (queue scheduler) hangs; the driver resets the card again and again.",
        clues=(
            clue(0.93, r"MES failed to respond to msg="),
            clue(0.93, r"MES (?:might be in unrecoverable state|ring buffer is full)"),
            clue(SHOWS, r"failed to (?:remove|add) hardware queue (?:from|to) MES"),
            clue(SHOWS, r"\bmes_v\d+_\d+\w*.{0,80}(?:fail|timeout|hang)"),
            clue(SUGGESTS, r"remove_all_kfd_queues_mes"),
            clue(HINTS, r"\bMES\b", r"amdgpu"),
        ),
        explains=("amd-queue-timeout-recovered",),
        mend=(
            step(
                "Install the newest firmware (linux-firmware) and kernel, then restart",
                "sudo apt install --only-upgrade linux-firmware && sudo update-initramfs -u",
            ),
            step("To hold it meanwhile, on the kernel line", "amdgpu.cwsr_enable=0"),
        ),
        next_check="sudo grep MES /sys/kernel/debug/dri/*/amdgpu_firmware_info; uname -r",
        authority="https://gitlab.freedesktop.org/drm/amd/-/issues (MES failed to respond)",
    ),
    Rule(
        slug="amd-queue-timeout-recovered",
        family="amd",
        verdict=Verdict.APPLICATION,
        says="The kernel driver timed a queue out and reset it by itself: the process is gone, the card is not.",
        clues=(
            clue(
                0.9,
                r"ring \S+ timeout",
                seen(
                    r"GPU reset\(\d+\) succeeded",
                    r"[Rr]ing \S+ reset succe",
                    r"reset succe",
                    r"recover\w* (?:soft|success|done)",
                    r"GPU reset end with ret = 0",
                    r"soft recovered",
                ),
            ),
            clue(SHOWS, r"(?:ring|queue) .{0,40}(?:timed? ?out|timeout).{0,40}(?:soft recovered|recovered)"),
            clue(SHOWS, r"GPU reset\(\d+\) succeeded"),
            clue(SHOWS, r"[Rr]ing \S+ reset (?:succeeded|success)"),
            clue(SUGGESTS, r"amdgpu.{0,80}ring \S+ timeout"),
            clue(SUGGESTS, r"device wedged, but recovered through reset"),
            clue(SUGGESTS, r"amdgpu: GPU reset begin", unless=(r"MES failed", r"reset failed")),
        ),
        separates="With 'MES failed to respond' before it, the firmware is the cause; with 'GPU reset failed' the card needs a restart.",
        mend=(
            step("Start the program again; make its kernels shorter"),
            step("If it repeats, update kernel and Mesa or ROCm"),
        ),
        next_check="sudo dmesg | grep -iE 'amdgpu.*(timeout|reset)'",
        authority="Linux drivers/gpu/drm/amd/amdgpu/amdgpu_job.c",
    ),
    Rule(
        slug="gpu-device-node-permission",
        family="amd",
        verdict=Verdict.FAULT,
        says="The user may not open the card's device nodes: not in the group that owns them (render, video).",
        clues=(
            clue(0.93, rf"{_NODE}.{{0,60}}Permission denied"),
            clue(0.93, r"Permission denied.{0,80}/dev/(?:kfd|dri|nvidia)"),
            clue(0.93, r"/dev/nvidia\S*:? .{0,30}Permission denied"),
            clue(0.9, r"(?:not|isn't|is not) (?:a )?member of .{0,10}(?:render|video)"),
            clue(SHOWS, r"(?:user|you|add)\b.{0,60}\b(?:render|video) group(?! membership)"),
            clue(SHOWS, r"usermod -\w*G \S*(?:render|video)"),
            clue(SHOWS, r"permission problems? .{0,40}/dev/(?:kfd|dri)"),
            clue(SHOWS, r"amdgpu devices detected but permission problems"),
            clue(
                SUGGESTS,
                r"Unable to open /dev/kfd",
                unless=(r"Cannot allocate memory", r"No such file", r"Operation not permitted"),
            ),
            clue(
                SUGGESTS,
                r"^crw-rw----\S* .{0,20}root +render .*(?:kfd|renderD)",
                seen(r"groups=(?!.*render)", r"uid=\d+"),
            ),
            clue(SUGGESTS, r"Failed to initialize NVML: Insufficient Permissions", unless=(on("container"), on("k8s"))),
            clue(SUGGESTS, r"HSA_STATUS_ERROR_OUT_OF_RESOURCES", seen(r"permission", r"\brender\b")),
            clue(0.55, r"[Pp]ermission denied.{0,80}(?:render|kfd|/dri|nvidia|GPU|amdgpu)"),
            clue(HINTS, r"\b(?:render|video) group\b"),
            clue(HINTS, on("linux"), r"^crw-rw---- "),
        ),
        separates="EPERM (Operation not permitted) is a control group's device rule.",
        mend=(
            step("Join the groups, then log in again", "sudo usermod -aG render,video $USER"),
            step(
                "In a container give it the host's number",
                "docker run --group-add $(getent group render | cut -d: -f3) ...",
                "container",
            ),
        ),
        next_check="ls -ln /dev/kfd /dev/dri/render*; id",
        authority=_ROCM + "en/latest/install/prerequisites.html#group-permissions",
    ),
    Rule(
        slug="amd-override-not-inherited",
        family="amd",
        verdict=Verdict.FAULT,
        says="HSA_OVERRIDE_GFX_VERSION is set in a shell, but the program (service, AppImage, launcher) does not inherit it.",
        clues=(
            clue(
                0.93,
                r"HSA_OVERRIDE_GFX_VERSION",
                seen(
                    r"systemd",
                    r"\.service\b",
                    r"launcher",
                    r"AppImage",
                    r"\bdesktop (?:entry|file|icon)",
                    r"not inherit",
                    r"Environment=",
                    r"\bsudo\b",
                    r"os\.environ",
                    r"(?:interpreter|subprocess|process).{0,60}(?:not (?:see|have|get|set)|None|empty|missing)",
                    r"(?:bashrc|profile|terminal|shell).{0,80}(?:works|not|but)",
                ),
                unless=(on("windows"), r"ollama/blob/main/docs/gpu\.md#overrides"),
            ),
            clue(
                SHOWS,
                r"HSA_OVERRIDE_GFX_VERSION",
                seen(
                    r"Segmentation fault",
                    r"segfault",
                    r"core dumped",
                    r"invalid device function",
                    r"hipErrorNoBinaryForGpu",
                    r"is_available\(\).{0,12}False",
                    r"no kernel image",
                    r"not supported",
                ),
                unless=(on("windows"), r"ollama/blob/main/docs/gpu\.md#overrides"),
            ),
            clue(SUGGESTS, said(r"HSA_OVERRIDE_GFX_VERSION")),
            clue(HINTS, r"HSA_OVERRIDE_GFX_VERSION", unless=(r"See \S+ for HSA_OVERRIDE",)),
        ),
        explains=("amd-gfx-unsupported-needs-override",),
        mend=(
            step(
                "Set it where the program starts",
                "sudo systemctl edit NAME   # [Service] Environment=HSA_OVERRIDE_GFX_VERSION=10.3.0",
            ),
            step("Check from inside", "tr '\\0' '\\n' < /proc/PID/environ | grep HSA"),
        ),
        next_check="tr '\\0' '\\n' < /proc/PID/environ | grep HSA",
        authority="https://github.com/ollama/ollama/blob/main/docs/gpu.mdx#overrides-on-linux",
    ),
    Rule(
        slug="torch-wheel-is-cuda-on-amd",
        family="amd",
        verdict=Verdict.FAULT,
        says="The installed torch is a CUDA build on a machine with an AMD card (torch.version.hip is None).",
        clues=(
            clue(0.97, r"\d\.\d+\.\d+\+cu\d+ None"),
            clue(
                0.95,
                r"\+cu\d{2,3}\b",
                seen(
                    r"\bRadeon\b",
                    r"\bgfx\d{3,4}\b",
                    r"\bROCm\b",
                    r"\brocm",
                    r"\bamdgpu\b",
                    r"version\.hip",
                    r"\bAMD\b.{0,30}(?:GPU|card|RX|Instinct)",
                    r"\b(?:MI50|MI60|MI100|MI210|MI250|MI300|MI325|MI350)\w?\b",
                ),
                unless=(r"ROCM used to build PyTorch: N/A", r"^card: nvidia", r"NVIDIA-SMI \d{3}"),
            ),
            clue(SHOWS, r"version\.hip.{0,20}None"),
            clue(
                SHOWS,
                r"Found no NVIDIA driver on your system",
                seen(r"\bRadeon\b", r"\bgfx\d{3,4}\b", r"\bROCm\b", r"/dev/kfd", r"\bamdgpu\b", r"\bRX \d{4}\b"),
            ),
            clue(
                SUGGESTS,
                r"Torch not compiled with CUDA enabled",
                seen(r"\bRadeon\b", r"\bROCm\b", r"/dev/kfd", r"\bRX \d{4}\b"),
            ),
            clue(HINTS, r"hip(?:_version)?.{0,6}None"),
        ),
        explains=(
            "torch-cpu-only-build",
            "container-started-without-gpus",
            "torch-wheel-replaced-by-dependency",
            "driver-too-old-for-cuda-runtime",
            "kernel-module-missing-for-running-kernel",
        ),
        mend=(
            step(
                "Install the ROCm build",
                "pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/rocm6.4",
            ),
            step("Pin that index in the project, or the next rebuild brings it back"),
        ),
        next_check="python -c 'import torch; print(torch.__version__, torch.version.hip)'",
        authority="https://pytorch.org/get-started/locally/",
    ),
)
