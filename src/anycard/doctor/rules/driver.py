"""The NVIDIA driver on Linux: built, signed, loaded, of one version, and allowed to have the card."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.chips import BLACKWELL, TURING, last_branch, oldest_card
from anycard.doctor.facts import numbers
from anycard.doctor.rule import ALLOWS, HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, on, printed, said, seen, step
from anycard.doctor.shapes import Line, Verdict

SMI_FAILED = r"NVIDIA-SMI has failed because it couldn'?t communicate with the NVIDIA driver"
_MISMATCH = seen(
    r"Driver/library version mismatch",
    r"NVRM: API mismatch",
    r"kernel module has the version",
    r"driver component has the same version",
    r"RM has detected an NVML/RM version mismatch",
)
# A person has restarted it already.
_RESTARTED = seen(
    r"(?:tried|after|even|despite|several|did|already|have|has|I|we) .{0,20}re-?(?:boot|start)",
    r"re-?(?:boot|start)\w* .{0,20}(?:not|n't|twice|again|several|multiple|times|still|no help|in vain)",
    r"(?:still|persists?|remains?|same) .{0,40}re-?(?:boot|start)",
)
_UNKNOWN_999 = seen(
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


def _nodes_without_uvm(case: Case) -> tuple[Line, ...] | None:
    """A listing of /dev shows the cards' nodes and not the unified-memory one."""
    listings = case.facts("device_nodes")
    nodes = {name for fact in listings for name in fact.value.split()}
    listed = "/dev/nvidiactl" in nodes and any(name.removeprefix("/dev/nvidia").isdigit() for name in nodes)
    return (listings[0].line,) if listed and "/dev/nvidia-uvm" not in nodes else None


def _running_kernel_without_module(case: Case) -> tuple[Line, ...] | None:
    running, built = case.fact("kernel"), case.facts("dkms_kernel")
    if running and built and running.value not in {fact.value for fact in built}:
        return (running.line, built[0].line)
    return None


RULES = (
    Rule(
        slug="kernel-module-missing-for-running-kernel",
        family="driver",
        verdict=Verdict.FAULT,
        says="The running kernel has no NVIDIA module: the kernel was updated and the module was not built for it.",
        clues=(
            clue(PROVES, r"Module nvidia(?:\.ko)? not found in directory"),
            clue(PROVES, Check(_running_kernel_without_module)),
            clue(SHOWS, r"modinfo: ERROR: Module nvidia\w* not found", unless=(on("wsl"),)),
            clue(SHOWS, r"FATAL: Module nvidia\w* not found", unless=(on("wsl"),)),
            clue(SHOWS, r"kernel headers for kernel \S+ cannot be found", unless=(r"kernel \d\S*-Microsoft",)),
            clue(SHOWS, r"unable to find the kernel source tree for the currently running kernel"),
            clue(SHOWS, r"(?:linux|kernel)-headers-\S+ is not installed"),
            clue(SUGGESTS, r"Unable to locate package linux-headers-"),
            clue(SUGGESTS, r"^nvidia[/,] ?\d{3}[.\d]+: added"),
            clue(
                SUGGESTS,
                SMI_FAILED,
                said(
                    r"(?:kernel|unattended|apt|dnf|system).{0,30}(?:updat|upgrad)", r"(?:updat|upgrad)\w* .{0,30}kernel"
                ),
            ),
            clue(
                0.6, SMI_FAILED, said(r"after (?:a |the )?(?:restart|reboot)", r"sometimes after", r"stopped working")
            ),
            clue(HINTS, SMI_FAILED),
            clue(0.5, r"Could not find cuda drivers on your machine", unless=(on("container"), on("wsl"), on("slurm"))),
            clue(0.9, r"nvidia\S*: version magic .* should be"),
            clue(0.7, r"nvidia.{0,40}Invalid module format"),
            clue(0.75, r"nvml error: driver not loaded"),
            clue(0.75, r"Driver Not Loaded"),
            clue(0.6, r"nvidia-modprobe.{0,60}(?:fail|not)"),
        ),
        separates="Secure Boot prints 'Key was rejected'; nouveau prints 'probe routine was not called'; a failed build prints 'Bad return status'.",
        mend=(
            step(
                "Install the headers of the running kernel",
                "sudo apt install linux-headers-$(uname -r)",
                "linux vm",
                safe=True,
            ),
            step("Build the module for it", "sudo dkms autoinstall && sudo modprobe nvidia", "linux vm", safe=True),
            step("Keep headers and kernel together from now on", "sudo apt install linux-headers-generic", "linux vm"),
        ),
        next_check="dkms status; uname -r; sudo modprobe nvidia; sudo dmesg | grep -iE 'nvrm|nouveau|nvidia' | tail -20",
        authority="https://wiki.debian.org/NvidiaGraphicsDrivers#Troubleshooting",
    ),
    Rule(
        slug="dkms-build-failed-kernel-unsupported",
        family="driver",
        verdict=Verdict.FAULT,
        says="The driver's module does not compile for this kernel: this driver release is too old (or the kernel too new) for it.",
        clues=(
            clue(SHOWS, r"Bad return status for module build on kernel"),
            clue(SHOWS, r"kernel package \S+ is not supported"),
            clue(SHOWS, r"ERROR: modpost: GPL-incompatible module nvidia"),
            clue(
                SHOWS,
                r"nvidia.{0,80}error: (?:implicit declaration of function|too (?:many|few) arguments|.*has no member named)",
            ),
            clue(SHOWS, r"error: implicit declaration of function", r"nvidia"),
            clue(SHOWS, r"Building module.*nvidia.*bad exit status"),
            clue(SUGGESTS, r"modules\.*\(bad exit status: \d+\)"),
            clue(SUGGESTS, r"Failed to (?:build|install) (?:the )?(?:kernel )?modules? .*nvidia"),
            clue(SUGGESTS, r"unable to build the NVIDIA kernel module"),
            clue(SUGGESTS, r"error occurred while performing the step: .Building kernel modules"),
            clue(SUGGESTS, r"nvidia-dkms-\S+ .*(?:exit status 10|returned error)"),
            clue(SUGGESTS, r"Consult /var/lib/dkms/nvidia/\S+make\.log"),
            clue(0.55, r"(?:dkms|DKMS).{0,120}(?:fail|error|bad|unsupported)"),
            clue(0.6, r"kernel version.{0,40}(?:not supported|unsupported|too new)"),
        ),
        separates="If make.log names a compiler option or 'Compiler version check failed', it is the compiler, not the kernel.",
        explains=("kernel-module-missing-for-running-kernel",),
        mend=(
            step("Install a driver release that knows this kernel", "ubuntu-drivers install", "linux vm"),
            step(
                "Or start the previous kernel, for which the module is built, and hold it",
                "sudo apt-mark hold linux-image-$(uname -r)",
            ),
        ),
        next_check="tail -50 /var/lib/dkms/nvidia/*/build/make.log",
        authority="https://docs.nvidia.com/cuda/cuda-installation-guide-linux/ (native kernel and compiler table)",
    ),
    Rule(
        slug="dkms-build-failed-compiler-mismatch",
        family="driver",
        verdict=Verdict.FAULT,
        says="The module was built with another compiler than the kernel was, and that compiler lacks what the kernel's build asks for.",
        clues=(
            clue(
                PROVES,
                r"unrecognized command[- ]line option.{0,10}-(?:ftrivial|mharden|fzero|fstrict|mindirect|fmin-function|fcf|mfunction)",
            ),
            clue(SHOWS, r"(?:gcc|cc1|clang)\S*: error: unrecognized command[- ]line option"),
            clue(SHOWS, r"Compiler version check failed"),
            clue(SHOWS, r"gcc-\d+: (?:command )?not found"),
            clue(SHOWS, r"compiler used to compile the kernel.*(?:does not|doesn't|do not) (?:exactly )?match"),
            clue(SHOWS, r"major and minor number of the compiler used to compile the kernel"),
            clue(SUGGESTS, r"cc.{0,30}(?:version|mismatch).{0,60}kernel was (?:built|compiled) (?:by|with)"),
            clue(
                SUGGESTS,
                r"the compiler differs from the one used to build the kernel",
                seen(r"Bad return status", r"bad exit status"),
            ),
            clue(ALLOWS, r"the compiler differs from the one used to build the kernel"),
            clue(0.6, r"gcc.{0,60}(?:version|mismatch|different).{0,60}kernel"),
            clue(SHOWS, r"version of gcc that differs from the one used to build"),
        ),
        separates="A plain kernel incompatibility shows C errors in nvidia's own source; here the compiler itself refuses an option.",
        explains=("dkms-build-failed-kernel-unsupported", "kernel-module-missing-for-running-kernel"),
        mend=(
            step("See with what the kernel was built", "cat /proc/version"),
            step("Install that compiler and build again", "sudo apt install gcc-12 && sudo dkms autoinstall"),
        ),
        next_check="cat /proc/version; gcc --version; grep -m5 -i error /var/lib/dkms/nvidia/*/build/make.log",
        authority="https://docs.nvidia.com/cuda/cuda-installation-guide-linux/#verify-the-system-has-gcc-installed",
    ),
    Rule(
        slug="driver-library-mismatch",
        family="driver",
        verdict=Verdict.FAULT,
        says="The driver's files were updated while the old kernel module is still loaded.",
        clues=(clue(SHOWS, _MISMATCH),),
        separates="When a reboot does not help, the packages on disk are of two versions (driver-packages-half-upgraded).",
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
        slug="nouveau-owns-device",
        family="driver",
        verdict=Verdict.FAULT,
        says="The open nouveau driver holds the card, so NVIDIA's driver cannot have it.",
        clues=(
            clue(PROVES, r"Nouveau kernel driver is currently in use"),
            clue(PROVES, r"Kernel driver in use: nouveau"),
            clue(PROVES, printed(r"NVRM: nouveau, rivafb")),
            clue(0.9, r"probe routine was not called for \d+ device", printed(r"\bnouveau \d{4}:")),
            clue(SHOWS, SMI_FAILED, printed(r"^nouveau +\d+ +\d+", r"\bnouveau \d{4}:[0-9a-f]{2}:")),
            clue(
                SHOWS,
                r"\bnouveau \d{4}:[0-9a-f]{2}:\d\d\.\d: (?:NVIDIA|DRM|fb|bios|gr|fifo)",
                unless=(r"Kernel driver in use: nvidia",),
            ),
            clue(SUGGESTS, r"^nouveau +\d{6,} +\d+"),
            clue(HINTS, r"probe routine was not called for \d+ device", unless=(r"driver in use: vfio",)),
            clue(HINTS, r"\bnouveau\b"),
        ),
        separates="A vfio-bound card prints the same 'probe routine was not called'; lspci -k tells which driver has it.",
        explains=("kernel-module-missing-for-running-kernel",),
        mend=(
            step(
                "Keep nouveau away",
                "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf",
            ),
            step("Rebuild the initramfs and restart", "sudo update-initramfs -u || sudo dracut --force"),
        ),
        next_check="lspci -k -d 10de:",
        authority="https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/#disabling-nouveau",
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
    Rule(
        slug="prime-profile-disables-nvidia",
        family="driver",
        verdict=Verdict.FAULT,
        says="The laptop's graphics profile (PRIME and its kin) switches the NVIDIA module off.",
        clues=(
            clue(SHOWS, r"envycontrol (?:--query|-q)", r"^(?:> )?integrated\s*$"),
            clue(
                SHOWS,
                seen(r"system76-power graphics", r"supergfxctl (?:-g|--get)", r"optimus-manager --status"),
                r"^(?:> )?integrated\b|^Integrated\b",
            ),
            clue(PROVES, r"could not insert 'off'"),
            clue(PROVES, r"Module off not found"),
            clue(PROVES, r"alias nvidia\S* off"),
            clue(SHOWS, r"prime-select (?:intel|amd)\b"),
            clue(SHOWS, r"prime-select query", seen(r"^intel\s*$", r"^(?:> )?integrated\s*$", r"^\w*intel\w*$")),
            clue(SHOWS, r"prime-select (?:query|get-current).{0,10}\bintel"),
            clue(SHOWS, r"Driver configured: intel"),
            clue(SHOWS, r"bbswitch: (?:disabling discrete|Succesfully.*is off)"),
            clue(SHOWS, r"(?:envycontrol|supergfxctl|system76-power|optimus-manager).{0,60}integrated"),
            clue(SHOWS, r"(?:install|blacklist) nvidia\S* ?(?:/bin/false)?.*(?:prime|optimus|bumblebee|envycontrol)"),
            clue(SUGGESTS, r"/(?:blacklist-nvidia|optimus-manager|envycontrol)\S*\.conf"),
            clue(SUGGESTS, SMI_FAILED, said(r"prime|optimus|power.?sav|integrated (?:graphics|GPU) mode.{0,5}")),
            clue(SUGGESTS, r"^blacklist nvidia\b"),
            clue(SHOWS, r"GPU mode.{0,12}\b(?:integrated|intel)\b"),
            clue(0.9, SMI_FAILED, r"GPU mode.{0,30}\b(?:integrated|intel)\b"),
        ),
        explains=("kernel-module-missing-for-running-kernel",),
        mend=(
            step("Choose a profile that loads the card", "sudo prime-select on-demand", "linux"),
            step("Restart, or log out and in"),
        ),
        next_check="prime-select query; grep -rs 'nvidia' /etc/modprobe.d /lib/modprobe.d",
        authority="https://github.com/canonical/nvidia-prime/issues/20",
    ),
    Rule(
        slug="secure-boot-module-rejected",
        family="driver",
        verdict=Verdict.FAULT,
        says="Secure Boot is on, and the key that signed the NVIDIA module is not enrolled: the kernel refuses it.",
        clues=(
            clue(PROVES, r"could not insert '?nvidia.{0,60}Key was rejected by service"),
            clue(0.9, r"Key was rejected by service"),
            clue(0.9, r"Required key not available"),
            clue(SHOWS, r"Loading of (?:unsigned module|module with unavailable key) is rejected"),
            clue(SHOWS, r"unsigned module loading is restricted"),
            clue(SHOWS, r"SecureBoot enabled", seen(SMI_FAILED, r"could not insert '?nvidia", r"modprobe: ERROR")),
            clue(SUGGESTS, SMI_FAILED, said(r"secure ?boot")),
            clue(HINTS, r"PKCS#7 signature not signed with a trusted key"),
            clue(0.55, r"[Ss]ecure ?[Bb]oot"),
            clue(0.6, r"mokutil"),
        ),
        separates="'module verification failed: ... tainting kernel' alone is harmless: the module was loaded.",
        explains=("kernel-module-missing-for-running-kernel", "nouveau-owns-device"),
        mend=(
            step(
                "Enrol the key that signs the module, then restart and confirm it in the blue screen",
                "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
            ),
            step("Or switch Secure Boot off in the firmware's set-up"),
        ),
        next_check="mokutil --sb-state; sudo modprobe nvidia",
        authority="https://wiki.ubuntu.com/UEFI/SecureBoot/DKMS",
    ),
)
