"""One file a vendor. To add one, write a module here with

    VENDOR: str                                              what a job file may call it, lower case
    def find(host: Host) -> tuple[Card, ...]                 every card of it; () when this machine has none or no driver for it;
                                                             VendorFault when the vendor as a whole cannot be asked
    def read(host: Host) -> tuple[Reading, ...]              moving values, if it has any

and name it in ``VENDORS``. Both look at the machine through ``host`` alone; ``find`` reports a sick card, it never leaves it out.
"""

from __future__ import annotations

# modules of this package, in the order in which their cards are listed
VENDORS = (
    "cpu", "nvidia", "amd", "intel", "ascend", "moorethreads", "hygon", "cambricon", "iluvatar", "metax", "kunlunxin", "apple",
)  # fmt: skip
