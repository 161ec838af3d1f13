"""Builds and drives the stand-in ``libnvidia-ml.so.1`` (``nvml/standin.c``): the real pynvml binding, without a card."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from made import CannotBuild, put_in_place, shared_library

SOURCE = Path(__file__).parent / "nvml" / "standin.c"
FLAGS = ("-Wno-format-truncation", "-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-Wl,-soname,libnvidia-ml.so.1")


def build(folder: Path) -> Path:
    """``folder/libnvidia-ml.so.1``; CannotBuild when gcc or nvml.h is missing."""
    return shared_library(SOURCE, folder / "libnvidia-ml.so.1", (*FLAGS, f"-I{_header_folder()}"))


def _header_folder() -> Path:
    """Where the PyPI package nvidia-nvml-dev put the real nvml.h (``nvidia/cu13/include`` or ``nvidia/nvml_dev/include``)."""
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        for header in sorted(Path(root).glob("*/include/nvml.h")):
            return header.parent
    raise CannotBuild("pip install nvidia-nvml-dev: it holds nvml.h")


@dataclass(frozen=True)
class NvmlStandin:
    """One description, and how to be under it."""

    library: Path
    description: Path

    def describe(self, text: str) -> None:
        """What the cards are from now on; programs that already run see it at their next call."""
        put_in_place(self.description, text)

    @property
    def env(self) -> dict[str, str]:
        """For a program started by the test."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STANDIN": str(self.description)}

    def load_here(self) -> None:
        """Lets pynvml in this very process find the stand-in: a library already loaded under the name that it asks for wins."""
        ctypes.CDLL(str(self.library))


EIGHT_CARDS = "driver = 580.95.05\ncuda = 13000\n" + "".join(
    f"[card]\nbus = 00000000:{0x10 + i:02X}:00.0\nuuid = GPU-1b2c3d4e-0000-4000-8000-{i:012d}\nserial = 156502000000{i}\n"
    for i in range(8)
)
