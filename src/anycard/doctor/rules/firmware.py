"""The card's firmware: GSP and PMU."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Rule, clue, seen, step
from anycard.doctor.rules.hardware import RESET, RMA, XID_AUTHORITY, xid
from anycard.doctor.shapes import Verdict

_REBOOT = step("If the reset is refused, restart the machine (power it off and on for a card that is gone)")

RULES = (
    Rule(
        slug="gsp-heartbeat-timeout",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's GSP firmware stopped beating; the driver asks for a reset.",
        clues=(
            clue(PROVES, r"GSP RM heartbeat timed out"),
            clue(PROVES, r"_kgspIsHeartbeatTimedOut"),
            clue(PROVES, r"LibOS heartbeat timed out"),
            clue(SHOWS, r"GSP.{0,40}heartbeat"),
        ),
        explains=("gsp-rpc-timeout", "gpu-fallen-off-bus"),
        mend=(RESET, _REBOOT, step("Update the driver: firmware comes with it")),
        next_check="sudo dmesg | grep -E 'GSP|Xid'",
        authority="NVIDIA/open-gpu-kernel-modules, kernel_gsp.c",
    ),
    Rule(
        slug="gsp-rpc-timeout",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's GSP firmware no longer answers the driver's calls.",
        clues=(
            clue(SHOWS, r"rpcSendMessage failed with status", unless=(r"fallen off the bus", r"GPU lost from the bus")),
            clue(SHOWS, r"GSP RPC buffer contains function"),
            clue(PROVES, xid(119, 120)),
            clue(PROVES, r"waiting for RPC (?:response )?from (?:GPU\d+ )?GSP"),
            clue(SHOWS, r"_(?:issueRpc|kgspRpc|kgspLog)\w*.{0,120}(?:timeout|timed out|GSP)"),
            clue(SHOWS, r"GSP (?:task|firmware) .{0,30}(?:exception|crash|halt)"),
            clue(
                0.55,
                r"(?:Current|Pending|Persistence Mode|Clocks|Temp).*: Unknown Error",
                unless=(r"Insufficient Permissions",),
            ),
            clue(HINTS, r"nvml: Unknown Error"),
            clue(0.6, r"\bGSP\b.{0,80}(?:timeout|timed out|error|fail|crash)"),
            clue(HINTS, r"GPU requires reset"),
            clue(HINTS, xid(109, 158)),
        ),
        mend=(
            RESET,
            _REBOOT,
            step(
                "If it repeats, take a newer driver; on the proprietary modules GSP can be switched off",
                "echo 'options nvidia NVreg_EnableGpuFirmware=0' | sudo tee /etc/modprobe.d/nvidia-gsp.conf",
            ),
        ),
        next_check="sudo dmesg | grep -E 'NVRM: (Xid|.*GSP)' | head",
        authority=XID_AUTHORITY,
    ),
    Rule(
        slug="gsp-required-by-open-modules",
        family="hardware",
        verdict=Verdict.EXPECTED,
        says="GSP firmware cannot be switched off under the open kernel modules: the option is ignored by design.",
        clues=(
            clue(
                PROVES,
                r"EnableGpuFirmware ?[=:] ?0",
                seen(
                    r"open kernel module",
                    r"Open Kernel Module",
                    r"nvidia-open",
                    r"nvidia-driver-\d+(?:-server)?-open",
                    r"Dual MIT/GPL",
                    r"RTX 50\d\d",
                    r"Blackwell",
                    r"GSP Firmware Version\s*: \d",
                ),
            ),
            clue(SHOWS, seen(r"GSP Firmware Version\s*: \d{3}"), seen(r"EnableGpuFirmware")),
            clue(SHOWS, r"(?:open|nvidia-open).{0,80}(?:require|need|always|only).{0,40}GSP"),
            clue(SHOWS, r"GSP.{0,60}(?:cannot|can't|can not).{0,20}(?:be )?(?:disabled|turned off|switched off)"),
            clue(SUGGESTS, r"NVreg_EnableGpuFirmware"),
            clue(0.55, r"EnableGpuFirmware"),
        ),
        explains=("gsp-rpc-timeout",),
        mend=(step("Leave it on; where the card allows, only the proprietary modules run without GSP"),),
        next_check="cat /proc/driver/nvidia/version; nvidia-smi -q | grep GSP",
        authority="https://github.com/NVIDIA/open-gpu-kernel-modules (README)",
    ),
    Rule(
        slug="pmu-halt",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's internal micro-controller (PMU) halted; it needs a reset.",
        clues=(
            clue(PROVES, xid(62)),
            clue(PROVES, r"PMU_HALT"),
            clue(SHOWS, r"PMU.{0,20}(?:halt|breakpoint)"),
            clue(SHOWS, r"Internal micro-?controller (?:halt|breakpoint)"),
            clue(SUGGESTS, xid(61)),
        ),
        explains=("app-xid45-preemptive-cleanup", "gpu-fallen-off-bus"),
        mend=(RESET, _REBOOT, RMA),
        next_check="sudo dmesg | grep Xid",
        authority=XID_AUTHORITY,
    ),
)
