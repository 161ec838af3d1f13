"""A recorded host in a line: programs and what they print, files of sysfs, cards on the bus."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from anycard.host.bundle import Bundle
from anycard.host.host import CommandResult, FileRead, Json, NodeStat
from anycard.host.recorded import RecordedHost

OUTPUTS = Path(__file__).parent / "outputs"
MakeHost = Callable[..., RecordedHost]


def _machine(
    tools: Mapping[str, str | CommandResult] | None = None,
    files: Mapping[str, str] | None = None,
    bus: Mapping[str, tuple[str, str, str, str | None]] | None = None,
    folders: Mapping[str, tuple[str, ...]] | None = None,
    links: Mapping[str, str] | None = None,
    nodes: Mapping[str, NodeStat] | None = None,
    libraries: Mapping[str, Json] | None = None,
    platform: str = "linux",
) -> RecordedHost:
    """``tools``: command line -> the name of a file in outputs/, the text itself, or a whole result. ``bus``: PCI address -> (vendor,
    device, class, driver); None: this machine shows no bus."""
    bundle = Bundle(platform=platform)
    for line, said in (tools or {}).items():
        argv = tuple(line.split())
        if isinstance(said, str):
            is_file = re.fullmatch(r"[\w-]+\.(txt|json)", said)
            data = (OUTPUTS / said).read_bytes() if is_file else said.encode()
            said = CommandResult(argv, 0, data)
        bundle.commands[argv] = said
    bundle.files = {path: FileRead(text.encode()) for path, text in (files or {}).items()}
    bundle.folders = dict(folders or {})
    bundle.links = dict(links or {})
    bundle.nodes = dict(nodes or {})
    bundle.libraries = dict(libraries or {})
    if bus is not None:
        root = "/sys/bus/pci/devices"
        bundle.folders[root] = tuple(sorted(bus))
        for address, (vendor, device, kind, driver) in bus.items():
            for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
                bundle.files[f"{root}/{address}/{name}"] = FileRead(f"0x{value}\n".encode())
            if driver:
                bundle.links[f"{root}/{address}/driver"] = f"../../../../bus/pci/drivers/{driver}"
    return RecordedHost(bundle)


@pytest.fixture
def machine() -> MakeHost:
    return _machine
