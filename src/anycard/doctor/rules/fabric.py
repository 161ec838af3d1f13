"""NVLink, NVSwitch and the fabric manager."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Rule, clue, said, seen, step
from anycard.doctor.rules.hardware import xid
from anycard.doctor.shapes import Verdict

RULES = (
    Rule(
        slug="fabric-manager-version-mismatch",
        family="fabric",
        verdict=Verdict.FAULT,
        says="The fabric manager's version differs from the driver's: they must be equal to the last digit.",
        clues=(
            clue(PROVES, r"driver interface version \S+ do(?:n'|es no)t match with driver version"),
            clue(
                PROVES,
                r"fabric ?manager.{0,80}version.{0,60}(?:mismatch|don'?t match|doesn'?t match|does not match|different)",
            ),
            clue(SHOWS, r"update with matching NVIDIA driver package"),
            clue(SHOWS, r"nvidia-fabricmanager\S* .{0,60}(?:Depends|requires|conflict)"),
            clue(HINTS, r"[Ff]abric ?[Mm]anager.{0,80}version"),
        ),
        explains=("fabric-manager-not-running", "cuda-init-kaslr-hmm"),
        mend=(
            step(
                "Install the fabric manager of exactly the driver's version",
                "sudo apt install nvidia-fabricmanager-BRANCH=VERSION-1",
                "linux vm",
            ),
            step("Hold both together, then start it", "sudo systemctl restart nvidia-fabricmanager"),
        ),
        next_check="nvidia-smi --query-gpu=driver_version --format=csv,noheader; nv-fabricmanager --version",
        authority="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    ),
    Rule(
        slug="fabric-nvls-fault",
        family="fabric",
        verdict=Verdict.FAULT,
        says="NVLink SHARP multicast cannot be set up: the fabric manager or the NVSwitches are in a bad state on that host.",
        clues=(
            clue(PROVES, r"Failed to bind NVLink SHARP"),
            clue(PROVES, r"NVLS.{0,60}(?:Multicast|multicast).{0,80}(?:fail|error)"),
            clue(SHOWS, r"(?:cuMulticast|Multicast)\w*.{0,80}(?:fail|error|CUDA error)"),
            clue(SHOWS, r"system or configuration error in the Fabric Manager or NVSwitches"),
            clue(SHOWS, r"NCCL_NVLS_ENABLE=0"),
            clue(SHOWS, r"transport/nvls\.cc.{0,80}(?:WARN|error)"),
            clue(0.6, r"\bNVLS\b.{0,120}(?:error|fail|WARN|unhandled)"),
        ),
        explains=("fabric-manager-not-running",),
        mend=(
            step("Restart the fabric manager, then the host", "sudo systemctl restart nvidia-fabricmanager"),
            step("Until then do without it", "NCCL_NVLS_ENABLE=0"),
        ),
        next_check="nvidia-smi -q | grep -A4 Fabric; systemctl status nvidia-fabricmanager",
        authority="NCCL documentation, NCCL_NVLS_ENABLE",
    ),
    Rule(
        slug="nvlink-error",
        family="fabric",
        verdict=Verdict.FAULT,
        says="An NVLink carries errors (Xid 74 or 144-150); cancelled channels (45) follow from it.",
        clues=(
            clue(PROVES, xid(74, 144, 145, 146, 147, 148, 149, 150)),
            clue(SHOWS, r"NVLINK: (?:RLW|NETIR|TLW|SAW|TREX|MSE|NVLPW)"),
            clue(
                SHOWS,
                r"NVLink.{0,40}(?:fatal error|non-fatal error|CRC (?:flit )?error|replay error|recovery error)(?! ?count(?:er)?s?: 0)",
                unless=(r"errors?: 0",),
            ),
            clue(SHOWS, r"SXid.{0,40}(?:Fatal|fatal),", unless=(r"Non-fatal",)),
            clue(SUGGESTS, r"(?:Replay|Recovery|CRC FLIT) Errors?: [1-9]"),
            clue(
                SUGGESTS,
                r"CUDA error: (?:an )?uncorrectable NVLink error",
            ),
            clue(SUGGESTS, r"cudaErrorNvlinkUncorrectable"),
            clue(HINTS, r"NVLink.{0,80}error"),
            clue(PROVES, r"caused by previous Xid (?:74|14\d|150)\b"),
        ),
        separates="No link up at all is nvlink-down; a bridge between two cards that loses contact is nvlink-bridge-not-seated.",
        explains=("app-xid45-preemptive-cleanup", "nvlink-down", "fabric-nvls-fault"),
        mend=(
            step("Look which links err", "nvidia-smi nvlink -e"),
            step("Drain the host and reset all cards together", "sudo nvidia-smi --gpu-reset"),
            step("If it returns on the same link, ask the maker for service"),
        ),
        next_check="nvidia-smi nvlink -s; nvidia-smi nvlink -e",
        authority="NVIDIA Xid catalogue: WORKFLOW_NVLINK_ERR, WORKFLOW_NVLINK5_ERR",
    ),
    Rule(
        slug="nvlink-bridge-not-seated",
        family="fabric",
        verdict=Verdict.FAULT,
        says="The NVLink bridge between the two cards makes bad contact.",
        clues=(
            clue(0.75, r"P2P is disabled between NVLINK connected GPUs", unless=(r"\bSXM", r"NVSwitch")),
            clue(
                0.96,
                seen(r"\bNVLink\b", r"nvlink"),
                seen(
                    r"bridge.{0,60}(?:re-?seat|seat|contact|loose|replac|push|firm|clean)",
                    r"(?:re-?seat|contact|loose|clean)\w*.{0,60}bridge",
                ),
            ),
            clue(
                0.9,
                seen(
                    r"nvlink .{0,20}inactive",
                    r"Link \d: <inactive>",
                    r"NVLINK.{0,20}(?:inactive|down)",
                    r"Xid.{0,30}: 74\b",
                ),
                seen(
                    r"bridge",
                    r"RTX (?:3090|A[456]\d00|2080|8000|6000)",
                    r"TITAN RTX",
                    r"Quadro",
                    r"GeForce",
                    r"A100.PCI",
                    r"A100 80GB PCIe",
                    r"H100 (?:NVL|PCIe)",
                    r"\bA40\b",
                    r"A30\b",
                ),
            ),
            clue(0.9, r"Link \d+: (?:CRC|Replay|Recovery)\w* (?:FLIT )?Errors?: [1-9]", r"NV ?Link bridge"),
            clue(
                SHOWS,
                xid(74),
                seen(
                    r"bridge",
                    r"RTX (?:3090|A[456]\d00|2080|8000|6000)",
                    r"TITAN RTX",
                    r"Quadro (?:RTX|GV)",
                    r"GeForce",
                    r"PCI[Ee] 80GB",
                    r"80GB PCIe",
                ),
            ),
            clue(SUGGESTS, said(r"NV ?Link bridge")),
            clue(
                SUGGESTS, r"all links are inActive", unless=(r"SXM", r"NVSwitch", r"HGX", r"DGX", xid(*range(144, 151)))
            ),
            clue(SUGGESTS, r"NVLink bridge"),
            clue(
                0.93,
                r"all links are inActive",
                seen(r"GeForce", r"RTX (?:3090|A[456]\d00|2080|8000|6000)", r"TITAN", r"Quadro"),
            ),
        ),
        separates="On SXM boards there is no bridge: look at nvlink-error and nvlink-down.",
        explains=("nvlink-error", "nvlink-down"),
        mend=(
            step("Power off, take the bridge off, clean its contacts and press it on evenly; try another bridge"),
            step("Look again", "nvidia-smi nvlink -s"),
        ),
        next_check="nvidia-smi nvlink -s; nvidia-smi topo -m",
        authority="NVIDIA NVLink bridge installation guide",
    ),
    Rule(
        slug="nvlink-down",
        family="fabric",
        verdict=Verdict.FAULT,
        says="No NVLink of that card is up, so traffic goes over PCIe or not at all.",
        clues=(
            clue(0.9, r"all links are inActive", r"SXM"),
            clue(SHOWS, r"Link \d+: <?inactive>?"),
            clue(SHOWS, r"(?:all|no) (?:NV)?[Ll]inks? (?:are|is) (?:in[aA]ctive|down|up)"),
            clue(SHOWS, r"NVLink.{0,40}(?:is |are |state )?(?:down|in[aA]ctive|disabled|not up|training fail)"),
            clue(0.6, r"P2P is disabled between NVLINK connected GPUs"),
            clue(SHOWS, r"(?:nvlink|NVLink) (?:link )?training fail"),
            clue(SHOWS, r"knvlink\w+.{0,120}(?:fail|not |error)"),
            clue(SHOWS, r"DCGM_FR_NVLINK_DOWN"),
            clue(SHOWS, xid(136)),
            clue(SHOWS, r"Fabric.{0,60}State\s*: (?:In Progress|Not Started)"),
            clue(SUGGESTS, r"State\s*: In Progress"),
            clue(HINTS, r"NVLink.{0,80}(?:inactive|down|disabled|fail)"),
        ),
        explains=("app-xid45-preemptive-cleanup",),
        mend=(
            step("Start the fabric manager where there is an NVSwitch", "sudo systemctl restart nvidia-fabricmanager"),
            step("Reset all cards together", "sudo nvidia-smi --gpu-reset"),
            step("If one card's links stay down, ask the maker for service"),
        ),
        next_check="nvidia-smi nvlink -s; nvidia-smi topo -m",
        authority="NVIDIA GPU debug guidelines, NVLink section",
    ),
)
