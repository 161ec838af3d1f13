"""The NVIDIA driver on Linux: of one version, of the right flavour, allowed to have the card."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.chips import BLACKWELL, TURING, last_branch, oldest_card
from anycard.doctor.codes import cuda, nvml
from anycard.doctor.facts import numbers
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, printed, seen, step
from anycard.doctor.shapes import Line, Verdict

SMI_FAILED = r"NVIDIA-SMI has failed because it couldn'?t communicate with the NVIDIA driver"
_MISMATCH = seen(
    r"Driver/library version mismatch",
    r"NVRM: API mismatch",
    r"kernel module has the version",
    r"driver component has the same version",
    r"RM has detected an NVML/RM version mismatch",
    *nvml(18).expressions,
)
# A person has restarted it already.
_RESTARTED = seen(
    r"(?:tried|after|even|despite|several|did|already|have|has|I|we) .{0,20}re-?(?:boot|start)",
    r"re-?(?:boot|start)\w* .{0,20}(?:not|n't|twice|again|several|multiple|times|still|no help|in vain)",
    r"(?:still|persists?|remains?|same) .{0,40}re-?(?:boot|start)",
)
_UNKNOWN_999 = seen(
    *cuda(999).expressions,
    r"init failure: 999",
    r"cuInit err: 999",
    r"cuInit.{0,40}\b999\b",
    r"cuda driver library init failure: 999",
    r"CUDA unknown error - this may be due to an incorrectly set up environment",
    r"cudaErrorUnknown",
    r"CUDA_ERROR_UNKNOWN",
    r"cudaGetDeviceCount.{0,40}(?:returned|error|->) ?(?:code )?(?:30|999)",
)


def _library_newer_than_module_on_disk(case: Case) -> tuple[Line, ...] | None:
    """Both on disk, of two versions: a reboot loads the old module again."""
    disk, user = case.fact("module_on_disk"), case.fact("driver_user")
    if disk and user and len(numbers(user.value)) > 1 and numbers(disk.value) != numbers(user.value):
        return (disk.line, user.line)
    return None


def _packages_of_two_versions(case: Case) -> tuple[Line, ...] | None:
    versions = {numbers(fact.value)[:3]: fact.line for fact in case.facts("nvidia_package")}
    return tuple(versions.values())[:3] if len(versions) > 1 else None


def _blackwell(case: Case) -> tuple[Line, ...] | None:
    """By PCI id: 29xx (data centre) and 2bxx to 2fxx (GeForce 50, RTX PRO). Source: NVIDIA's list of supported products."""
    found = [fact.line for fact in case.facts("pci_id") if fact.value[:2] in ("29", "2b", "2c", "2d", "2f", "31")]
    return tuple(found[:2]) or None


def _old_card_under_open_modules(case: Case) -> tuple[Line, ...] | None:
    card, flavour = oldest_card(case), case.fact("module_open")
    return (card[1].line, flavour.line) if card and flavour and card[0] < TURING else None


def _new_card_under_proprietary_modules(case: Case) -> tuple[Line, ...] | None:
    card, flavour = oldest_card(case), case.fact("module_proprietary")
    return (card[1].line, flavour.line) if card and flavour and card[0] >= BLACKWELL else None


def _card_of_legacy_branch(case: Case) -> tuple[Line, ...] | None:
    """The driver's branch is newer than the last one that knows the card."""
    card, driver = oldest_card(case), case.fact("driver") or case.fact("driver_user")
    last = last_branch(card[0]) if card else None
    if card and driver and last and numbers(driver.value)[:1] > (last,):
        return (card[1].line, driver.line)
    return None


def _modules_without_uvm(case: Case) -> tuple[Line, ...] | None:
    """lsmod lists the driver's module and not the unified-memory one."""
    loaded = {fact.value: fact.line for fact in case.facts("module_loaded")}
    return (loaded["nvidia"],) if "nvidia" in loaded and "nvidia_uvm" not in loaded else None


def _nodes_without_uvm(case: Case) -> tuple[Line, ...] | None:
    """A listing of /dev shows the cards' nodes and not the unified-memory one."""
    listings = case.facts("device_nodes")
    nodes = {"/dev/" + name.removeprefix("/dev/") for fact in listings for name in fact.value.split()}
    listed = "/dev/nvidiactl" in nodes and any(name.removeprefix("/dev/nvidia").isdigit() for name in nodes)
    return (listings[0].line,) if listed and "/dev/nvidia-uvm" not in nodes else None


RULES = (
    Rule(
        slug="driver-library-mismatch",
        family="driver",
        verdict=Verdict.FAULT,
        says="The driver's files were updated while the old kernel module is still loaded.",
        clues=(
            clue(0.9, r"NVRM: API mismatch", r"NVRM.{0,40}(?:client|has) .{0,20}version"),
            clue(SHOWS, _MISMATCH),
        ),
        separates="When a reboot does not help, the packages on disk are of two versions (driver-packages-half-upgraded).",
        explains=("libcuda-driver-mismatch-803", "app-torch-nvml-count-bug", "gpu-device-node-permission"),
        mend=(
            step("Restart the machine, or reload the module when nothing uses the card"),
            step(
                "Reload",
                "sudo systemctl isolate multi-user; sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia; sudo modprobe nvidia",
            ),
        ),
        next_check="cat /proc/driver/nvidia/version; modinfo -F version nvidia; ls /usr/lib/*/libcuda.so.*",
        authority="https://docs.nvidia.com/deploy/nvml-api/ (NVML_ERROR_LIB_RM_VERSION_MISMATCH)",
    ),
    Rule(
        slug="driver-packages-half-upgraded",
        family="driver",
        verdict=Verdict.FAULT,
        says="The driver's packages on disk are of two versions: module and libraries do not belong together, and a restart does not help.",
        clues=(
            clue(PROVES, r"Version mismatch: nvidia\.ko ?\(\S+\) nvidia-\w+(?:\.ko)? ?\("),
            clue(PROVES, _MISMATCH, Check(_library_newer_than_module_on_disk)),
            clue(PROVES, _MISMATCH, Check(_packages_of_two_versions)),
            clue(SHOWS, Check(_library_newer_than_module_on_disk)),
            clue(SHOWS, Check(_packages_of_two_versions)),
            clue(
                0.9,
                _MISMATCH,
                _RESTARTED,
            ),
            clue(
                SHOWS,
                _MISMATCH,
                seen(r"^i[UFH] +\S*nvidia", r"dpkg: error processing package \S*nvidia", r"held broken packages"),
            ),
            clue(SUGGESTS, r"^i[UFH] +\S*nvidia-(?:driver|dkms|kernel|compute|utils)"),
            clue(SUGGESTS, r"nvidia-\S+ : Depends: \S*nvidia\S+ .*but"),
            clue(SUGGESTS, r"trying to overwrite .{0,120}nvidia.{0,60}which is also in package"),
            clue(0.75, r"couldn.t find libnvidia-ml\.so library in your system"),
            clue(0.6, r"nvidia-smi: error while loading shared libraries"),
            clue(
                0.9,
                _MISMATCH,
                seen(r"very bad inconsistent state", r"unmet dependencies", r"broken packages", r"dependency problems"),
            ),
            clue(0.6, r"nvidia\S* .{0,30}(?:inconsistent state|half-installed|half-configured)"),
        ),
        separates="driver-library-mismatch: both on disk agree, only the loaded module is older.",
        explains=("driver-library-mismatch",),
        mend=(
            step("List what is installed", "dpkg -l | grep -i nvidia"),
            step("Bring every package to one version", "sudo apt install --fix-broken && sudo apt full-upgrade"),
            step("If they come from two repositories, keep one and install the driver again"),
        ),
        next_check="modinfo -F version nvidia; dpkg -l | grep -E 'nvidia-(dkms|kernel|compute|driver)'",
        authority="https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",
    ),
    Rule(
        slug="gpu-requires-open-modules",
        family="driver",
        verdict=Verdict.FAULT,
        says="This card works only with the open kernel modules, and the proprietary ones are installed.",
        clues=(
            clue(
                0.92,
                seen(r"No devices were found", r"RmInitAdapter failed", SMI_FAILED),
                Check(_new_card_under_proprietary_modules),
            ),
            clue(SUGGESTS, Check(_new_card_under_proprietary_modules)),
            clue(PROVES, r"requires use of the NVIDIA open kernel modules"),
            clue(PROVES, r"installed in this system requires use of.{0,20}(?:NVIDIA )?open"),
            clue(
                SUGGESTS,
                printed(r"No devices were found"),
                seen(r"RTX (?:PRO |)?50\d\d", r"RTX PRO \d{4} Blackwell", r"\b(?:B100|B200|B300)\b"),
            ),
            clue(
                0.9,
                seen(r"RmInitAdapter failed", r"rm_init_adapter failed", r"No devices were found"),
                Check(_blackwell),
            ),
            clue(SUGGESTS, r"RmInitAdapter failed! \(0x22:0x56"),
        ),
        separates="open-module-gpu-without-gsp is the reverse: an old card under the open modules.",
        explains=("kernel-module-missing-for-running-kernel", "gpu-poorly-seated"),
        mend=(
            step("Install the open flavour of the same version", "sudo apt install nvidia-open", "linux vm"),
            step("Restart the machine"),
        ),
        next_check="cat /proc/driver/nvidia/version; sudo dmesg | grep NVRM",
        authority="https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/#open-gpu-kernel-modules",
    ),
    Rule(
        slug="open-module-gpu-without-gsp",
        family="driver",
        verdict=Verdict.FAULT,
        says="This card is older than Turing: it has no GSP, which the open kernel modules need.",
        clues=(
            clue(
                0.9,
                seen(r"No devices were found", r"RmInitAdapter failed", SMI_FAILED),
                Check(_old_card_under_open_modules),
            ),
            clue(SUGGESTS, Check(_old_card_under_open_modules)),
            clue(PROVES, r"does not include the required GPU"),
            clue(PROVES, r"is not supported by (?:the )?open"),
            clue(PROVES, r"System Processor \(GSP\)\.?$"),
        ),
        separates="gsp-required-by-open-modules: the card has a GSP, but it was switched off.",
        explains=("kernel-module-missing-for-running-kernel",),
        mend=(
            step("Install the proprietary flavour (580 or older)", "sudo apt install cuda-drivers-580", "linux vm"),
            step("Restart the machine"),
        ),
        next_check="lspci -nn -d 10de:; cat /proc/driver/nvidia/version",
        authority="https://github.com/NVIDIA/open-gpu-kernel-modules (compatible GPUs)",
    ),
    Rule(
        slug="open-module-needs-unsupported-gpus-flag",
        family="driver",
        verdict=Verdict.FAULT,
        says="This early release of the open kernel modules drives consumer cards only when told to by a module parameter.",
        clues=(
            clue(0.9, r"RmInitAdapter failed! \(0x63:0x0:", r"Open Kernel Module"),
            clue(PROVES, r"OpenRmEnableUnsupportedGpus"),
            clue(PROVES, r"Open nvidia\.ko is only ready for use on Data Center GPUs"),
            clue(SHOWS, r"To force use of Open nvidia\.ko on other GPUs"),
            clue(SUGGESTS, r"alpha.quality.{0,60}open.{0,30}(?:nvidia|kernel)"),
        ),
        separates="gpu-requires-open-modules and open-module-gpu-without-gsp name the flavour as wrong; here a flag is missing.",
        explains=("kernel-module-missing-for-running-kernel", "open-module-gpu-without-gsp", "nouveau-owns-device"),
        mend=(
            step(
                "Allow it",
                "echo 'options nvidia NVreg_OpenRmEnableUnsupportedGpus=1' | sudo tee /etc/modprobe.d/nvidia-open.conf",
            ),
            step("Or install a release of 555 or later, where the flag is not needed"),
        ),
        next_check="sudo dmesg | grep -A6 'open nvidia.ko'",
        authority="NVIDIA driver README 515-545, chapter 'Open Linux Kernel Modules'",
    ),
    Rule(
        slug="legacy-gpu-dropped-by-driver",
        family="driver",
        verdict=Verdict.FAULT,
        says="This driver branch no longer supports the card; an older, legacy branch does.",
        clues=(
            clue(
                0.9,
                seen(r"No devices were found", r"RmInitAdapter failed", SMI_FAILED, r"NVRM: No NVIDIA"),
                Check(_card_of_legacy_branch),
            ),
            clue(SUGGESTS, Check(_card_of_legacy_branch)),
            clue(SHOWS, r"^NVRM: +(?:this|the) GPU\.? +(?:Continuing|which is)"),
            clue(PROVES, r"supported through the NVIDIA \d+\.xx (?:Legacy|drivers)"),
            clue(PROVES, r"NVIDIA driver will ignore this GPU"),
            clue(PROVES, r"only supported (?:up to|by) the .{0,20}legacy"),
            clue(SHOWS, r"nvidia-legacy-\d+xx"),
            clue(SHOWS, r"requires? (?:the )?\d{3}\.xx legacy"),
            clue(SUGGESTS, r"(?:GPU|card|device).{0,40}no longer supported (?:by|in|with).{0,30}driver"),
            clue(HINTS, r"\blegacy\b.{0,60}(?:driver|GPU|nvidia)"),
            clue(HINTS, r"\b(?:470|390|340)(?:xx|\.xx)\b"),
        ),
        explains=("kernel-module-missing-for-running-kernel", "nouveau-owns-device"),
        mend=(
            step("Find the branch for this card", "nvidia-detect", "linux"),
            step("Install that branch; it may need an older kernel", "sudo apt install nvidia-driver-470", "linux vm"),
        ),
        next_check="sudo dmesg | grep -A8 'NVRM: The NVIDIA'; lspci -nn -d 10de:",
        authority="https://www.nvidia.com/en-us/drivers/unix/legacy-gpu/",
    ),
    Rule(
        slug="nvidia-uvm-needs-reload",
        family="driver",
        verdict=Verdict.FAULT,
        says="The nvidia_uvm module is in a bad state: nvidia-smi works, every CUDA program fails with error 999.",
        clues=(
            clue(SUGGESTS, _UNKNOWN_999, unless=(r"Xid \(", r"fallen off the bus", r"CUDA_VISIBLE_DEVICES=-1")),
            clue(SHOWS, _UNKNOWN_999, r"(?:rmmod|modprobe -r|reload).{0,20}nvidia[_-]uvm"),
            clue(SHOWS, r"init failure: 999"),
        ),
        separates="After a suspend it is cuda-broken-after-suspend; with a missing node it is uvm-device-missing.",
        mend=(
            step(
                "End the programs that use CUDA, then reload the module",
                "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
            ),
            step("Start the service again", "sudo systemctl restart ollama"),
        ),
        next_check="nvidia-smi; lsmod | grep nvidia_uvm; ls -l /dev/nvidia-uvm",
        authority="https://github.com/ollama/ollama/blob/main/docs/troubleshooting.md (error 999)",
    ),
    Rule(
        slug="uvm-device-missing",
        family="driver",
        verdict=Verdict.FAULT,
        says="The driver works, but the unified-memory device /dev/nvidia-uvm (or its module) is not there, so CUDA cannot start.",
        clues=(
            clue(0.92, _UNKNOWN_999, Check(_modules_without_uvm)),
            clue(
                0.93,
                seen(*_UNKNOWN_999.expressions, r"no CUDA-capable device", r"is_available\(\)", r"No CUDA GPUs"),
                Check(_nodes_without_uvm),
            ),
            clue(HINTS, Check(_nodes_without_uvm)),
            clue(0.92, r"(?:could not find module by name=|could not insert ).?nvidia\w*uvm"),
            clue(PROVES, r"nvidia-uvm.{0,20}: No such file or directory"),
            clue(PROVES, r"cannot access .{0,3}/dev/nvidia-uvm"),
            clue(PROVES, r"Module nvidia[-_]uvm not found"),
            clue(SHOWS, r"/dev/nvidia-uvm.{0,40}(?:missing|not (?:exist|found|present)|no such)"),
            clue(SHOWS, r"(?:fail|could ?n[o']t|unable|no).{0,40}/dev/nvidia-uvm"),
            clue(SHOWS, r"nvidia[-_]uvm (?:kernel )?(?:module|driver).{0,20}(?:not loaded|missing|is not)"),
            clue(SHOWS, r"nvidia-uvm.{0,40}ENOENT"),
            clue(SHOWS, r"openat\(.*/dev/nvidia-uvm.*= -1"),
            clue(0.6, r"nvidia-modprobe -u"),
            clue(SHOWS, r"Could not load UVM kernel module"),
            clue(0.6, r"nvidia[-_]uvm.{0,80}(?:missing|not|fail|error|absent)"),
        ),
        explains=("nvidia-uvm-needs-reload", "cuda-init-kaslr-hmm"),
        mend=(
            step(
                "Load the module and make the node",
                "sudo modprobe nvidia_uvm && sudo nvidia-modprobe -u -c=0",
                safe=True,
            ),
            step("At every start", "echo nvidia_uvm | sudo tee /etc/modules-load.d/nvidia-uvm.conf", safe=True),
        ),
        next_check="ls -l /dev/nvidia*; lsmod | grep nvidia",
        authority="https://docs.nvidia.com/cuda/cuda-installation-guide-linux/ (device node verification)",
    ),
    Rule(
        slug="cuda-init-kaslr-hmm",
        family="driver",
        verdict=Verdict.FAULT,
        says="nvidia_uvm with heterogeneous memory management fails to start under the kernel's address randomisation: CUDA does not initialise though nvidia-smi works.",
        clues=(
            clue(PROVES, r"uvm_disable_hmm"),
            clue(PROVES, r"\bnokaslr\b"),
            clue(SHOWS, r"(?:cuInit|init failure|driver library init failure).{0,30}(?:: |= ?|returned |err ?)3\b"),
            clue(SHOWS, r"\bHMM\b.{0,80}(?:CUDA|uvm|cuInit)"),
            clue(SUGGESTS, r"CUDA_ERROR_NOT_INITIALIZED"),
            clue(SUGGESTS, r"CUDA driver initialization failed, you might not have a CUDA gpu"),
            clue(
                SUGGESTS,
                seen(
                    r"system not yet initialized",
                    r"Error 802",
                    r"CUDA_ERROR_SYSTEM_NOT_READY",
                    r"cudaErrorSystemNotReady",
                ),
                seen(r"GeForce", r"RTX \d{4}", r"RTX A\d{4}", r"\bA10\b"),
            ),
            clue(0.6, r"CUDA initialization.{0,60}Error 3: initialization error"),
            clue(
                HINTS,
                r"\binitialization error\b",
                seen(r"cuInit", r"cudaGetDeviceCount", r"Error 3\b", r"kernel (?:5\.14|6\.)"),
            ),
            clue(
                SUGGESTS,
                seen(r"\binitialization error\b", r"CUDA_ERROR_NOT_INITIALIZED", r"init failure: 3\b"),
                seen(
                    r"(?:open|MIT/GPL)(?:[ -]source)?(?: kernel)?(?: \w+)? (?:module|driver)",
                    r"nvidia-open",
                    r"Open Kernel Module",
                    r"Dual MIT/GPL",
                ),
            ),
        ),
        separates="On an NVSwitch machine error 802 means the fabric manager; on a card without NVSwitch it is this.",
        mend=(
            step(
                "Switch the feature off",
                "echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee /etc/modprobe.d/uvm.conf && sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
            ),
            step("Or start the kernel with nokaslr, or take a driver in which it is mended"),
        ),
        next_check="cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm; nvidia-smi topo -m",
        authority="CUDA 12.9 and 13.0 release notes, known issues 2.5.1; NVIDIA/open-gpu-kernel-modules#797, #901",
    ),
)
