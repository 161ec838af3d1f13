"""Virtual machines and passthrough: IOMMU groups, address space, guest firmware, the host's own console."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Rule, clue, on, seen, step
from anycard.doctor.shapes import Verdict

_CODE43 = seen(
    r"[Cc]ode 43",
    r"\b43\b.{0,40}(?:Device Manager|reported problems)",
    r"错误代码 ?43",
    r"代码 ?43",
    r"Windows has stopped this device because it has reported problems",
)

RULES = (
    Rule(
        slug="passthrough-without-iommu",
        family="vm",
        verdict=Verdict.FAULT,
        says="The card is meant for a virtual machine, but the kernel has no IOMMU (off in the firmware, or not asked for), so vfio-pci refuses it.",
        clues=(
            clue(PROVES, r"driver_override vfio-pci, no driver, no IOMMU group"),
            clue(PROVES, r"vfio\S*:? .{0,60}no iommu_?group found"),
            clue(PROVES, r"No IOMMU detected, please activate it"),
            clue(PROVES, r"vfio-pci: probe of [0-9a-f:.]+ failed with error -22"),
            clue(0.9, r"host doesn'?t support (?:passthrough|VFIO PCI).{0,40}(?:host PCI|devices|interface)"),
            clue(SHOWS, r"vfio-pci.{0,60}failed with error -22"),
            clue(
                SHOWS,
                r"IOMMU (?:is )?(?:not (?:present|enabled|found|available)|disabled).{0,60}",
                seen(r"vfio", r"passthrough", r"hostpci"),
            ),
        ),
        separates="'is not viable' means that the group is there, and another function of it is still on its host driver.",
        explains=("iommu-group-not-viable",),
        mend=(
            step(
                "Switch it on in the firmware (Intel: VT-d; AMD: AMD-Vi, IOMMU; in a nested guest: give it a virtual IOMMU)"
            ),
            step("Ask the kernel for it on its command line, then restart", "intel_iommu=on iommu=pt"),
        ),
        next_check="ls /sys/kernel/iommu_groups; sudo dmesg | grep -iE 'DMAR|AMD-Vi|iommu|vfio'",
        authority="https://docs.kernel.org/driver-api/vfio.html; drivers/vfio/vfio_main.c (a device without a group: -EINVAL)",
    ),
    Rule(
        slug="iommu-group-not-viable",
        family="vm",
        verdict=Verdict.FAULT,
        says="Another function of the card's IOMMU group (often its HDMI audio) is still bound to a driver of the host.",
        clues=(
            clue(PROVES, r"group \S+ is not viable"),
            clue(PROVES, r"all devices within the iommu.?group are bound to their vfio"),
            clue(SUGGESTS, r"vfio.{0,40}(?:group|iommu).{0,60}(?:viable|not bound|failed)"),
            clue(0.55, r"iommu.?group"),
            clue(HINTS, r"vfio.{0,80}(?:fail|error|not|cannot)"),
        ),
        mend=(
            step(
                "Bind every function of the group to vfio-pci",
                "ls /sys/bus/pci/devices/0000:01:00.0/iommu_group/devices",
            ),
            step("At start", "echo 'options vfio-pci ids=10de:VVVV,10de:AAAA' | sudo tee /etc/modprobe.d/vfio.conf"),
        ),
        next_check="for d in /sys/kernel/iommu_groups/*/devices/*; do echo $d; lspci -nnks ${d##*/}; done",
        authority="https://docs.kernel.org/driver-api/vfio.html",
    ),
    Rule(
        slug="esxi-64bit-mmio-not-enabled",
        family="vm",
        verdict=Verdict.FAULT,
        says="The card's memory windows need more address space than the virtual machine offers: 64-bit MMIO is not on, or too small.",
        clues=(
            clue(PROVES, r"PCIPassthru: total number of pages needed .* exceeds limit"),
            clue(PROVES, r"pciPassthru\.(?:use64bitMMIO|64bitMMIOSizeGB)"),
            clue(SHOWS, r"BAR ?\d.{0,60}(?:can'?t assign|no space for|failed to assign|not assigned)", on("vm")),
            clue(SHOWS, r"This PCI I/O region assigned to your NVIDIA device is invalid"),
            clue(SUGGESTS, r"Module .?DevicePowerOn.? power on failed"),
            clue(SUGGESTS, r"BAR\d is \d+M @ 0x0"),
            clue(0.6, r"MMIO"),
            clue(0.6, r"PCIPassthru"),
            clue(0.55, r"(?:ESXi|vSphere|vmx\|).{0,120}(?:passthr|PCI|GPU)"),
        ),
        explains=("gpu-poorly-seated",),
        mend=(
            step(
                "In the VM's advanced parameters",
                "pciPassthru.use64bitMMIO = TRUE  and  pciPassthru.64bitMMIOSizeGB = 128",
            ),
            step(
                "The guest must start by UEFI; on KVM take OVMF with a larger window",
                "-fw_cfg opt/ovmf/X-PciMmio64Mb,string=131072",
            ),
        ),
        next_check="grep -i pciPassthru vmware.log; dmesg | grep -iE 'BAR|no space'",
        authority="Broadcom/VMware KB: VMs with GPUs that need large MMIO",
    ),
    Rule(
        slug="vm-code43-legacy-bios",
        family="vm",
        verdict=Verdict.FAULT,
        says="The guest starts by a legacy BIOS (SeaBIOS); the card wants UEFI.",
        clues=(
            clue(
                0.93,
                _CODE43,
                seen(r"SeaBIOS", r"seabios", r"legacy BIOS", r"i440fx", r"pc-i440", r"bios: ?seabios", r"non-UEFI"),
            ),
            clue(SUGGESTS, r"\bseabios\b", seen(r"hostpci\d", r"vfio-pci", r"passthrough")),
            clue(HINTS, _CODE43),
        ),
        separates="If the host's console or framebuffer still holds the card, it is vm-code43-host-framebuffer.",
        mend=(
            step(
                "Give the guest OVMF and q35 (a fresh installation of Windows may be needed)",
                "qm set VMID --bios ovmf --machine q35",
            ),
        ),
        next_check="dmesg | grep -iE 'vfio|BAR|efifb|simplefb'; cat /proc/iomem | grep -iE 'efifb|bootfb|simple'",
        authority="https://pve.proxmox.com/wiki/PCI_Passthrough",
    ),
    Rule(
        slug="vm-code43-host-framebuffer",
        family="vm",
        verdict=Verdict.FAULT,
        says="The host still holds the passed-through card for its console (framebuffer), so the guest's driver fails with code 43.",
        clues=(
            clue(PROVES, r"BAR ?\d: (?:can'?t|cannot) reserve \[mem"),
            clue(
                PROVES,
                seen(_CODE43.expressions[0], _CODE43.expressions[1], _CODE43.expressions[4]),
                seen(
                    r"efifb",
                    r"vesafb",
                    r"simplefb",
                    r"simple-?framebuffer",
                    r"framebuffer",
                    r"sysfb",
                    r"BOOTFB",
                    r"primary (?:GPU|card|display)",
                    r"boot.?vga",
                    r"romfile",
                    r"video=\S*off",
                    r"host.{0,20}console",
                    r"console (?:text|output|screen)? ?.{0,12}(?:stays|remains|still|visible|shown)",
                ),
            ),
            clue(0.9, r"^ *[0-9a-f]{8,}-[0-9a-f]{8,} : (?:efifb|BOOTFB|simple-framebuffer|vesafb)"),
            clue(SHOWS, r"vfio.{0,80}(?:framebuffer|efifb|simplefb|BOOTFB)"),
            clue(SHOWS, r"Invalid PCI ROM header signature: expecting 0xaa55"),
            clue(SUGGESTS, r"initcall_blacklist=sysfb_init"),
            clue(SUGGESTS, r"video=(?:efifb|vesafb|simplefb):off"),
            clue(0.5, on("vm"), _CODE43, unless=(r"SeaBIOS",)),
            clue(PROVES, r"BAR ?\d.{0,60}(?:can\'?t|cannot) reserve"),
        ),
        explains=("vm-code43-legacy-bios",),
        mend=(
            step(
                "Let the host's console go before the guest starts",
                "echo 0 | sudo tee /sys/class/vtconsole/vtcon*/bind",
            ),
            step("Or on the host's kernel line", "initcall_blacklist=sysfb_init"),
            step("Or let the host start on another card"),
        ),
        next_check="grep -iE 'efifb|bootfb|simple' /proc/iomem; dmesg | grep -iE 'vfio|reserve'",
        authority="https://pve.proxmox.com/wiki/PCI_Passthrough (BAR 3: can't reserve)",
    ),
)
