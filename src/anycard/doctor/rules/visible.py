"""What a program is allowed to see of the cards, and the state that CUDA is in."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.codes import cuda
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, measured, seen, step
from anycard.doctor.shapes import Line, Verdict


def _cuda_hidden(case: Case) -> tuple[Line, ...] | None:
    for fact in case.facts("visible_devices"):
        if fact.value in ("", "-1", "NoDevFiles", "none"):
            return (fact.line,)
    return None


def _index_outside(case: Case) -> tuple[Line, ...] | None:
    """``cuda:N`` asked for while fewer than N+1 devices are visible."""
    shown, asked = case.fact("visible_devices"), case.facts("device_asked")
    if not shown or not asked or shown.value in ("", "-1"):
        return None
    count = len([part for part in shown.value.split(",") if part])
    return next(((shown.line, fact.line) for fact in asked if int(fact.value) >= count), None)


_ORDINAL = seen(
    *cuda(101).expressions,
    r"invalid device ordinal",
    r"CUDA_ERROR_INVALID_DEVICE\b",
    r"Attempting to deserialize object on CUDA device \d+ but torch\.cuda\.device_count\(\) is",
    r"Invalid device id",
    r"Device index must (?:be|not)",
    r"No such device: GPU:\d",
    r"GPU:\d unknown device",
    r"requested? (?:gpu|device)s?.{0,40}but (?:only )?(?:your machine|\d).{0,20}(?:has|available|visible)",
    r"MisconfigurationException: You requested gpu",
)

RULES = (
    Rule(
        slug="cuda-broken-after-suspend",
        family="framework",
        verdict=Verdict.FAULT,
        says="CUDA's state in nvidia_uvm was lost across a suspend; the card itself is well.",
        clues=(
            clue(
                PROVES,
                seen(
                    r"CUDA unknown error",
                    r"cuda unknown error - this may be due",
                    r"init failure: 999",
                    r"cuInit err: 999",
                    r"\bCUDA_ERROR_UNKNOWN\b",
                    r"cudaErrorUnknown",
                    r"torch\.cuda\.is_available\(\).{0,20}False",
                    r"unknown error",
                ),
                seen(
                    r"suspend",
                    r"hibernat(?!ion: Registered nosave)",  # that line is in the log of every boot
                    r"\bPM: (?:resume|suspend)",
                    r"(?:machine|laptop|computer|system|pc).{0,20}(?:slept|sleep|wok)",
                    r"(?:after|from) (?:sleep|standby|waking)",
                    r"woke up",
                    r"wakes? (?:up|from)",
                ),
            ),
            clue(SUGGESTS, r"NVreg_PreserveVideoMemoryAllocations"),
            clue(0.55, r"(?:suspend|hibernat(?!ion: Registered nosave)|resume from sleep|wake from sleep)\w*"),
        ),
        separates="Without a suspend before it, the same error 999 is nvidia-uvm-needs-reload.",
        explains=("nvidia-uvm-needs-reload",),
        mend=(
            step("Reload the module", "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"),
            step("Keep the state next time", "sudo systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate"),
        ),
        next_check="journalctl -b | grep -iE 'PM: (suspend|resume)'",
        authority="NVIDIA driver README, chapter 'Configuring Power Management Support'",
    ),
    Rule(
        slug="cuda-visible-devices-wrong",
        family="framework",
        verdict=Verdict.FAULT,
        says="CUDA_VISIBLE_DEVICES (or its kin) hides every card from the program.",
        clues=(
            clue(HINTS, cuda(100)),
            clue(0.9, Check(_cuda_hidden), unless=(r"os\.environ\[",)),
            clue(SHOWS, r"(?:HIP|ROCR)_VISIBLE_DEVICES=['\"]?(?:-1|none)?['\"]?$"),
            clue(SHOWS, r"NVIDIA_VISIBLE_DEVICES[=:] ?['\"]?(?:none|void)"),
            clue(SUGGESTS, r"CUDA_VISIBLE_DEVICES.{0,60}(?:typo|wrong|empty|hides|invalid|nonexistent)"),
            clue(
                SUGGESTS,
                r"CUDA_VISIBLE_DEVICES(?:=| is set to |: ?)\S+",
                seen(r"no CUDA-capable device is detected", r"No CUDA GPUs are available"),
            ),
            clue(HINTS, r"No CUDA GPUs are available"),
            clue(HINTS, r"no CUDA-capable device is detected"),
            clue(HINTS, r"CUDA_ERROR_NO_DEVICE"),
            clue(0.46, measured("card_unused")),
            clue(HINTS, r"CUDA_VISIBLE_DEVICES"),
            clue(0.5, r"no nvidia devices detected by library"),
        ),
        separates="An index beyond the visible set says 'invalid device ordinal'.",
        explains=("llamacpp-built-without-gpu", "container-started-without-gpus"),
        mend=(
            step("Take the variable away or set it to the cards wanted", "unset CUDA_VISIBLE_DEVICES"),
            step(
                "Look where it is set (shell profile, service file, launcher)",
                "systemctl show ollama -p Environment",
                "linux",
            ),
        ),
        next_check="env | grep VISIBLE_DEVICES; nvidia-smi -L",
        authority="CUDA programming guide, environment variables",
    ),
    Rule(
        slug="cuda-visible-devices-set-too-late",
        family="framework",
        verdict=Verdict.APPLICATION,
        says="CUDA_VISIBLE_DEVICES was changed after CUDA had been initialised; it is read once.",
        clues=(
            clue(0.9, r"is_available\(\).*os\.environ\[.CUDA_VISIBLE_DEVICES.\]"),
            clue(0.9, r"import torch.*os\.environ\[.CUDA_VISIBLE_DEVICES.\]"),
            clue(
                SHOWS,
                r"os\.environ\[.CUDA_VISIBLE_DEVICES.\] ?=",
                seen(r"import torch", r"device_count\(\)", r"import tensorflow"),
            ),
            clue(SHOWS, r"CUDA_VISIBLE_DEVICES.{0,60}(?:too late|after (?:importing|import|CUDA|torch))"),
            clue(SUGGESTS, r"os\.environ\[.CUDA_VISIBLE_DEVICES.\] ?="),
            clue(SUGGESTS, r"set_visible_devices.{0,80}(?:initialized|after)"),
            clue(SHOWS, r"(?:Visible|Physical) devices cannot be modified after being initialized"),
        ),
        explains=("cuda-visible-devices-wrong", "cuda-index-outside-visible-set"),
        mend=(step("Set it before the program starts", "CUDA_VISIBLE_DEVICES=1 python train.py"),),
        next_check="grep -n 'CUDA_VISIBLE_DEVICES\\|import torch' your_script.py",
        authority="CUDA programming guide, environment variables",
    ),
    Rule(
        slug="cuda-index-outside-visible-set",
        family="framework",
        verdict=Verdict.APPLICATION,
        says="The program asks for a device number that it cannot see: more workers or a higher index than visible cards.",
        clues=(
            clue(PROVES, Check(_index_outside), _ORDINAL),
            clue(0.9, _ORDINAL, unless=(r"\bMIG[- ]", r"device=\d, num_gpus=\d*\bMIG", r"Xid \(")),
            clue(SHOWS, r"local_rank.{0,40}(?:exceeds|>=|out of range).{0,40}(?:device|gpu)"),
            clue(SHOWS, r"Duplicate GPU detected : rank"),
            clue(0.85, r"nvidia-container-cli: device error: .{0,12}unknown device"),
        ),
        mend=(
            step(
                "Start as many workers as cards are visible",
                "torchrun --nproc-per-node=$(nvidia-smi -L | wc -l) train.py",
            ),
            step("Or use cuda:0: visible cards are numbered from 0"),
        ),
        next_check="env | grep VISIBLE_DEVICES; python -c 'import torch; print(torch.cuda.device_count())'",
        authority="CUDA runtime API, cudaErrorInvalidDevice",
    ),
    Rule(
        slug="mig-instance-not-selected",
        family="framework",
        verdict=Verdict.FAULT,
        says="MIG is on, and the process was not given an instance by its UUID (or there is none).",
        clues=(
            clue(
                SHOWS,
                seen(r"MIG mode.{0,20}Enabled", r"MIG M\.? .*Enabled", r"\|\s+Enabled \|"),
                seen(
                    r"No CUDA GPUs are available",
                    r"device_count.{0,10}0",
                    r"no CUDA-capable device",
                    r"is_available\(\).{0,12}False",
                ),
            ),
            clue(SHOWS, r"No MIG devices found"),
            clue(
                0.9,
                seen(
                    r"INTERNAL ASSERT FAILED",
                    r"invalid device ordinal",
                    r"No CUDA GPUs are available",
                    r"no CUDA-capable device",
                ),
                seen(r"\bMIG\b"),
                unless=(r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?MIG-",),
            ),
            clue(
                SHOWS,
                r"device_count\(\).{0,20}\b0\b",
                r"\bMIG\b",
                unless=(r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?MIG-",),
            ),
            clue(SHOWS, r"(?:Invalid|Unknown|unsupported).{0,20}MIG.{0,20}(?:device|UUID|instance)"),
            clue(SHOWS, r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?\d[\d,]*['\"]?", r"\bMIG[- ](?:\d|GPU|[0-9a-f]{8})"),
            clue(
                SUGGESTS,
                seen(
                    r"No CUDA GPUs are available",
                    r"invalid device ordinal",
                    r"no CUDA-capable device",
                    r"INTERNAL ASSERT FAILED.*device",
                    r"AcceleratorError",
                ),
                r"\bMIG\b",
            ),
            clue(SUGGESTS, r"Failed to initialize NVML.{0,20}MIG"),
            clue(HINTS, r"INTERNAL ASSERT FAILED at .*CUDAContext.cpp.{0,120}device"),
        ),
        separates="One instance seen per process is by design (ok-one-mig-instance-per-process).",
        explains=("cuda-visible-devices-wrong", "cuda-index-outside-visible-set", "app-torch-nvml-count-bug"),
        mend=(
            step("List the instances", "nvidia-smi -L"),
            step("Give one by its UUID", "CUDA_VISIBLE_DEVICES=MIG-... python train.py"),
            step("If there is none, make one or switch MIG off", "sudo nvidia-smi mig -cgi 9 -C"),
        ),
        next_check="nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES",
        authority="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#cuda-device-enumeration",
    ),
    Rule(
        slug="compute-mode-exclusive",
        family="framework",
        verdict=Verdict.FAULT,
        says="The card's compute mode lets one process in (or none), and one already holds it.",
        clues=(
            clue(SUGGESTS, cuda(46)),
            clue(
                PROVES,
                seen(
                    r"E\. Process",
                    r"Exclusive_Process",
                    r"Compute Mode\s*: (?:Exclusive|Prohibited)",
                    r"\bProhibited\b",
                ),
                seen(
                    r"busy or unavailable",
                    r"cudaErrorDevicesUnavailable",
                    r"CUDA_ERROR_INVALID_DEVICE",
                    r"devices? unavailable",
                ),
            ),
            clue(SUGGESTS, r"CUDA-capable device\(?s?\)? (?:is|are) busy or unavailable"),
            clue(SUGGESTS, r"cudaErrorDevicesUnavailable"),
            clue(SUGGESTS, r"\bE\. Process\b"),
            clue(SUGGESTS, r"Compute Mode\s*: (?:Exclusive_Process|Prohibited)"),
            clue(SUGGESTS, r"exclusive.?(?:process|thread)? (?:compute )?mode"),
            clue(HINTS, r"CUDA_ERROR_DEVICE_UNAVAILABLE"),
            clue(0.55, r"(?:busy or unavailable|cudaErrorDevicesUnavailable)"),
        ),
        separates="In the default mode, 'busy or unavailable' points to a card that hangs or a process in between: look at the processes.",
        mend=(
            step("See who holds it", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
            step("Let several in", "sudo nvidia-smi -c DEFAULT"),
        ),
        next_check="nvidia-smi -q -d COMPUTE",
        authority="man nvidia-smi, compute mode",
    ),
)
