"""Several cards together: shared memory, peer to peer, fabric manager."""

from __future__ import annotations

from anycard.doctor.codes import cuda
from anycard.doctor.rule import HINTS, SHOWS, SUGGESTS, Rule, clue, on, seen, step
from anycard.doctor.shapes import Verdict

_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"

RULES = (
    Rule(
        slug="dev-shm-permission",
        family="multi-gpu",
        verdict=Verdict.FAULT,
        says="/dev/shm is not writable for this user.",
        clues=(
            clue(0.95, r"Call to shm_open failed : Permission denied"),
            clue(0.93, r"/dev/shm.{0,80}(?:Permission denied|Read-only file system|EACCES|Operation not permitted)"),
            clue(0.93, r"Permission denied.{0,40}/dev/shm"),
            clue(SHOWS, r"shm_open.{0,60}(?:Permission denied|EACCES)"),
            clue(SHOWS, r"^drwxr-xr-x .* /dev/shm/?$"),
            clue(0.4, r"unhandled system error"),
        ),
        explains=("dev-shm-too-small",),
        mend=(step("Give it its usual mode", "sudo chmod 1777 /dev/shm", safe=True),),
        next_check="ls -ld /dev/shm; df -h /dev/shm",
        authority=_NCCL,
    ),
    Rule(
        slug="dev-shm-too-small",
        family="multi-gpu",
        verdict=Verdict.FAULT,
        says="/dev/shm is too small (docker gives 64 MB).",
        clues=(
            clue(0.9, r"Error while creating shared memory segment", unless=(r"Permission denied",)),
            clue(0.93, r"insufficient shared memory \(shm\)"),
            clue(0.93, r"/dev/shm.{0,80}No space left on device"),
            clue(0.93, r"No space left on device.{0,80}(?:/dev/shm|shm|torch_\d+)"),
            clue(SHOWS, r"DataLoader worker .{0,40}killed by signal: Bus error"),
            clue(SHOWS, r"shm +\d+\.?\d*[MK]\b.{0,40}/dev/shm"),
            clue(
                SHOWS,
                r"unable to (?:write to|allocate|open|mmap|resize) (?:the )?(?:file|shared memory).{0,40}/torch_\d+",
            ),
            clue(SHOWS, r"ftruncate.{0,80}(?:nccl|shm|No space)"),
            clue(SHOWS, r"(?:NCCL|nccl)-?\w*.{0,80}posix_fallocate.{0,60}"),
            clue(SUGGESTS, r"--shm-size"),
            clue(SUGGESTS, r"bus error.{0,60}(?:worker|shared memory|shm)"),
            clue(SUGGESTS, r"shared memory.{0,40}(?:too small|exhausted|full|limit)"),
            clue(0.55, r"shared memory.{0,80}(?:segment|size|shm|space|error)"),
            clue(0.55, r"/dev/shm"),
            clue(0.55, on("container"), r"unhandled system error"),
            clue(HINTS, r"unhandled system error"),
        ),
        mend=(
            step("Give it more", "docker run --shm-size=8g ...   # or --ipc=host"),
            step("Kubernetes: an emptyDir of medium Memory mounted on /dev/shm"),
        ),
        next_check="df -h /dev/shm",
        authority=_NCCL + "#shared-memory",
    ),
    Rule(
        slug="fabric-manager-not-running",
        family="multi-gpu",
        verdict=Verdict.FAULT,
        says="An NVSwitch machine whose fabric manager does not run: CUDA does not initialise.",
        clues=(
            clue(0.75, cuda(802)),
            clue(0.75, r"system not yet initialized"),
            clue(0.75, r"\bError 802\b"),
            clue(0.75, r"CUDA_ERROR_SYSTEM_NOT_READY"),
            clue(0.75, r"cudaErrorSystemNotReady"),
            clue(
                SHOWS,
                r"(?:nvidia-fabricmanager|fabric ?manager).{0,80}(?:inactive|failed|not (?:running|found|installed|loaded|active)|dead|could not be found|is not)",
            ),
            clue(SHOWS, r"802.{0,60}(?:fabric|NVSwitch|HGX|DGX)"),
            clue(SHOWS, r"Failed to connect to (?:the )?[Ff]abric ?[Mm]anager"),
            clue(SUGGESTS, r"(?:A100|H100|H200|B200|HGX|DGX).{0,120}\b802\b"),
            clue(SUGGESTS, r"request to query NVSwitch device information from NVSwitch driver failed"),
            clue(SUGGESTS, r"\b802\b.{0,20}(?:system|error)"),
            clue(0.55, r"[Ff]abric ?[Mm]anager"),
            clue(HINTS, r"\bNV ?[Ss]witch\b.{0,80}(?:error|fail|not)"),
        ),
        separates="On cards without NVSwitch the same 802 is cuda-init-kaslr-hmm.",
        mend=(
            step(
                "Install it in the driver's exact version, and start it",
                "sudo apt install nvidia-fabricmanager-BRANCH && sudo systemctl enable --now nvidia-fabricmanager",
            ),
            step("In a rented container only the provider can: ask for another host", None, "container"),
        ),
        next_check="systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric; nvidia-smi topo -m",
        authority="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    ),
    Rule(
        slug="p2p-blocked-by-acs-iommu",
        family="multi-gpu",
        verdict=Verdict.FAULT,
        says="PCIe access control (ACS) or the IOMMU redirects traffic between cards: peer to peer hangs or gives wrong data.",
        clues=(
            clue(0.92, r"ACSCtl:.*(?:SrcValid|ReqRedir)\+"),
            clue(
                0.9,
                seen(r"NCCL_P2P_DISABLE", r"p2pBandwidth", r"simpleP2P(?!.*pass)", r"peer.to.peer"),
                seen(
                    r"\bhang",
                    r"\bstuck",
                    r"wrong (?:data|result)",
                    r"verification failed",
                    r"incorrect",
                    r"(?:P2P|peer|nccl|bandwidth)\w*.{0,80}fail",
                ),
            ),
            clue(SHOWS, r"NCCL_P2P_DISABLE=1", seen(r"\b(?:PXB|PIX|PHB)\b", r"\bACS\b", r"\biommu", r"IOMMU")),
            clue(SHOWS, r"(?:AMD-Vi|DMAR|iommu).{0,120}(?:IO_PAGE_FAULT|PTE Read access|DMA (?:Read|Write)).{0,80}"),
            clue(SUGGESTS, r"NCCL_P2P_DISABLE"),
            clue(SUGGESTS, r"\bACS\b.{0,60}(?:enabled|redirect|p2p|peer)"),
            clue(HINTS, r"Watchdog caught collective operation timeout"),
            clue(
                0.55,
                r"\b(?:P2P|p2p|peer.to.peer)\b(?! is disabled between NVLINK).{0,80}(?:hang|fail|disable|error|not|slow)",
            ),
            clue(HINTS, r"NCCL.{0,80}(?:hang|stuck|timeout)"),
            clue(0.35, r"unhandled system error"),
            clue(0.75, r"peer access is not supported between these two devices"),
            clue(0.6, r"P2P (?:is )?(?:not supported|disabled|access)(?! between NVLINK)"),
        ),
        mend=(
            step(
                "Switch ACS off on the bridges above the cards",
                "for b in $(lspci -d '*:*:0604' | cut -d' ' -f1); do sudo setpci -s $b ECAP_ACS+0x6.w=0000; done",
            ),
            step("Or set the IOMMU to pass-through", "iommu=pt   # on the kernel line"),
            step("To work meanwhile", "NCCL_P2P_DISABLE=1"),
        ),
        next_check="sudo lspci -vvv | grep -i acsctl; nvidia-smi topo -p2p r; dmesg | grep -iE 'iommu|AMD-Vi|DMAR'",
        authority=_NCCL + "#pci-access-control-services-acs",
    ),
)
