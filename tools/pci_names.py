"""Rebuilds src/anycard/cards/data/pci.csv: names of accelerators by PCI numbers.

    python tools/pci_names.py /usr/share/misc/pci.ids     (Debian package pci.ids; BSD-3-Clause)

Of the large makers only what computes or draws is taken; NEWER adds what that file does not have yet. The name in brackets, where there is
one, is what is sold ("GH100 [H100 SXM5 80GB]").
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "anycard" / "cards" / "data" / "pci.csv"
WANTED = {
    "10de": r"\[(GeForce|Tesla|Quadro|RTX|GTX|TITAN|A\d|H\d|L\d|T\d|B\d|P\d|V\d|NVIDIA)|\[.*(Quadro|GeForce|TITAN)",
    "1002": r"\[.*(Radeon|Instinct|FirePro|FireGL|MI\d)|Instinct",
    "8086": r"(?i)\b(arc|iris|uhd|hd graphics|flex|data center gpu|ponte vecchio|graphics)\b",
    "1ed5": r"^MTT S|^G2",
    "1d22": r"Kunlun",
    "1e36": r"CloudBlazer",
    "1da3": r"Gaudi|Goya|Greco",
}  # fmt: skip
OTHERS = re.compile(
    r"(?i)audio|bridge|usb|host controller|\bport\b|ucsi|ethernet|dram|memory controller|thermal|\bsmbus\b"
)
# Supported-products list of NVIDIA's open kernel modules (R580); amdgpu and xe/i915 device tables of Linux 6.15; makers' documents.
NEWER = """
10de 2335 H200 SXM 141GB
10de 233b H200 NVL
10de 2329 H20
10de 2901 B200
10de 2941 GB200
10de 2e12 GB10
10de 2b85 GeForce RTX 5090
10de 2b87 GeForce RTX 5090 D
10de 2c02 GeForce RTX 5080
10de 2c05 GeForce RTX 5070 Ti
10de 2f04 GeForce RTX 5070
10de 2d04 GeForce RTX 5060 Ti
10de 2d05 GeForce RTX 5060
10de 2bb1 RTX PRO 6000 Blackwell Workstation Edition
10de 2bb5 RTX PRO 6000 Blackwell Server Edition
10de 2702 GeForce RTX 4080 SUPER
10de 2705 GeForce RTX 4070 Ti SUPER
10de 2783 GeForce RTX 4070 SUPER
10de 2685 GeForce RTX 4090 D
1002 74a0 Instinct MI300A
1002 74a1 Instinct MI300X
1002 74a2 Instinct MI308X
1002 74a5 Instinct MI325X
1002 75a0 Instinct MI350X
1002 75a3 Instinct MI355X
1002 7448 Radeon PRO W7900
1002 745e Radeon PRO W7800
1002 747e Radeon RX 7700 XT / 7800 XT
1002 7550 Radeon RX 9070 / 9070 XT
1002 7551 Radeon AI PRO R9700
1002 7590 Radeon RX 9060 XT
1002 15bf Radeon 780M
1002 1900 Radeon 780M
1002 150e Radeon 880M / 890M
1002 1586 Radeon 8050S / 8060S
8086 e20b Arc B580
8086 e20c Arc B570
8086 e211 Arc Pro B60
8086 e212 Arc Pro B50
8086 56c0 Data Center GPU Flex 170
8086 56c1 Data Center GPU Flex 140
8086 0bd5 Data Center GPU Max 1550
8086 0bda Data Center GPU Max 1100
8086 64a0 Arc 140V
8086 7d55 Arc Graphics
19e5 d100 Ascend 310
19e5 d500 Ascend 310P
19e5 d801 Ascend 910
19e5 d802 Ascend 910B
19e5 d803 Ascend 910C
1d94 6210 DCU K100_AI
1e52 401e Wormhole
1e52 b140 Blackhole
"""


def main() -> None:
    names = {}
    vendor = ""
    for line in Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace").splitlines():
        if match := re.match(r"([0-9a-f]{4})  ", line):
            vendor = match[1]
        elif (match := re.match(r"\t([0-9a-f]{4})  (.+)", line)) and _is_wanted(vendor, match[2]):
            names[vendor, match[1]] = _sold(vendor, match[2])
    for line in NEWER.split("\n"):
        if line:
            vendor, device, name = line.split(" ", 2)
            names[vendor, device] = name
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("vendor", "device", "name"))
        writer.writerows((*key, names[key]) for key in sorted(names))
    print(f"{len(names)} devices in {TARGET}")


def _is_wanted(vendor: str, name: str) -> bool:
    return vendor in WANTED and bool(re.search(WANTED[vendor], name)) and not OTHERS.search(name)


def _sold(vendor: str, name: str) -> str:
    """Moore Threads and Gaudi have what is sold before the brackets."""
    match = re.search(r"\[(.+)\]", name) if vendor in ("10de", "1002", "8086") else None
    return (match[1] if match else re.sub(r"\s*\[.*\]", "", name) if vendor == "1e36" else name).strip()


if __name__ == "__main__":
    main()
