"""What the kernel's graphics drivers (DRM, hwmon) say of a card, by its folder on the PCI bus."""

from __future__ import annotations

import re

from anycard.cards.pci import DEVICES
from anycard.cards.seen import number
from anycard.host.host import Host


def nodes(host: Host, address: str | None) -> tuple[str, ...]:
    """``/dev/dri/renderD128`` and ``/dev/dri/card0`` of a card, the one for computing first; () without an address."""
    if address is None:
        return ()
    names = [
        name for name in host.list_folder(f"{DEVICES}/{address}/drm") or () if re.fullmatch(r"(card|renderD)\d+", name)
    ]
    return tuple(f"/dev/dri/{name}" for name in sorted(names, reverse=True))


def card_folder(host: Host, address: str) -> str | None:
    """``.../drm/card0``; None where no graphics driver made one."""
    folder = f"{DEVICES}/{address}/drm"
    name = next((name for name in host.list_folder(folder) or () if re.fullmatch(r"card\d+", name)), None)
    return f"{folder}/{name}" if name else None


def sensors_folder(host: Host, folder: str) -> str | None:
    """The first hwmon folder of a card; None where it has no sensors."""
    monitors = sorted(host.list_folder(f"{folder}/hwmon") or ())
    return f"{folder}/hwmon/{monitors[0]}" if monitors else None


class Sensors:
    """The sensors of one card: files of its first hwmon folder. A card without any has None for everything."""

    def __init__(self, host: Host, folder: str) -> None:
        self._host = host
        self._folder = sensors_folder(host, folder)

    def value(self, file: str, divisor: float) -> float | None:
        text = self._host.read(f"{self._folder}/{file}").text if self._folder else None
        return number(text, 1 / divisor) if text else None
