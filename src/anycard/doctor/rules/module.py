"""The driver's kernel module: built for this kernel, signed, not kept out."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.codes import nvml
from anycard.doctor.rule import ALLOWS, HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, on, printed, said, seen, step
from anycard.doctor.rules.driver import SMI_FAILED
from anycard.doctor.shapes import Line, Verdict


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
            clue(0.75, nvml(9)),
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
