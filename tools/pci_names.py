"""Rebuilds src/anycard/cards/data/pci.csv: names of accelerators by PCI numbers.

    python tools/pci_names.py /usr/share/misc/pci.ids     (Debian package pci.ids; BSD-3-Clause)

Of the large makers only what computes or draws is taken; OURS adds what that file does not have yet. The name in brackets, where there is
one, is what is sold ("GH100 [H100 SXM5 80GB]").
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "anycard" / "cards" / "data" / "pci.csv"
WANTED = {
    "10de": r"\[(GeForce|Tesla|Quadro|RTX|GTX|TITAN|A\d|H\d|L\d|T\d|B\d|P\d|V\d|GB\d|GH\d|CMP|AX\d|NVIDIA)|\[.*(Quadro|GeForce|TITAN)",
    "1002": r"\[.*(Radeon|Instinct|FirePro|FireGL|MI\d)|Instinct",
    "8086": r"(?i)\b(arc|iris|uhd|hd graphics|flex|data center gpu|ponte vecchio|graphics)\b",
    "1ed5": r"^MTT S|^G2",
    "1d22": r"Kunlun",
    "1e36": r"CloudBlazer|Enflame",
    "1da3": r"Gaudi|Goya|Greco",
    "cabc": r"^MLU",
    "9999": r"^C\d",
    "1e52": r"",
}  # fmt: skip
OTHERS = re.compile(
    r"(?i)audio|bridge|usb|host controller|\bport\b|ucsi|ethernet|dram|memory controller|thermal|\bsmbus\b|nvswitch"
)
# What pci.ids does not have, or says less shortly than the maker does. Each line: vendor, device, name. Where from:
#   19e5  Huawei's driver tools, which tell their chips apart by these numbers (PCIE_BDF_310 ... PCIE_BDF_910_93 in the log collector)
#   1d94  the DCU installation guides of Hygon's developers; pci.ids has 6211 alone (K100_AI too)
#   1d22:3688  lspci of machines with P800, in one public script; no maker's document was found
OURS = """
10de 2941 GB200
1002 15bf Radeon 780M
1002 1900 Radeon 780M
1002 7550 Radeon RX 9070 / 9070 XT
1002 7590 Radeon RX 9060 XT
1002 1586 Radeon 8050S / 8060S
1002 7448 Radeon PRO W7900
1002 745e Radeon PRO W7800
8086 64a0 Arc 140V
8086 7d55 Arc Graphics
19e5 d100 Ascend 310
19e5 d500 Ascend 310P
19e5 d801 Ascend 910
19e5 d802 Ascend 910B
19e5 d803 Ascend 910C
1d94 54b7 DCU Z100
1d94 55b7 DCU Z100L
1d94 62b7 DCU K100
1d94 6210 DCU K100_AI
1d94 6211 DCU K100_AI
1d22 3688 P800
"""


def main() -> None:
    names = {}
    vendor = ""
    for line in Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace").splitlines():
        if match := re.match(r"([0-9a-f]{4})  ", line):
            vendor = match[1]
        elif (match := re.match(r"\t([0-9a-f]{4})  (.+)", line)) and _is_wanted(vendor, match[2]):
            names[vendor, match[1]] = _sold(vendor, match[2])
    for line in OURS.split("\n"):
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
