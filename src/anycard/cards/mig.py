"""MIG instances: an NVIDIA card in MIG mode is used by programs only through them, and each is a card of its own.

A process gets one instance. CUDA before driver 570 finds no more than one, and none beside a whole card ("CUDA can only enumerate a single
compute instance", MIG user guide, CUDA device enumeration); instances cannot reach each other (no peer-to-peer, same guide).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from anycard.host.host import Host
from anycard.i18n import N_
from anycard.model.text import Text

_PROFILE = re.compile(r"\bMIG (\d\S*)\s*$")
_MINOR = re.compile(r"^DeviceFileMinor:\s*(\d+)", re.MULTILINE)
_CAPABILITIES = "/proc/driver/nvidia/capabilities"
_DIVIDED = N_("is divided into MIG instances: {instances}")
_NO_INSTANCE = N_(
    "is in MIG mode and has no instance: `sudo nvidia-smi mig -i {index} -cgi PROFILE -C` makes one (`nvidia-smi mig -lgip` lists the "
    "profiles), `sudo nvidia-smi -i {index} -mig 0` switches MIG off"
)


def split_model(model: str) -> tuple[str, str | None]:
    """``NVIDIA A100-SXM4-80GB MIG 1g.10gb`` -> (the whole card's model, ``1g.10gb``); None where it is no instance's name. A profile may
    also be ``1c.3g.40gb`` (part of the compute of a GPU instance) or ``1g.10gb+me`` (with media engines)."""
    found = _PROFILE.search(model)
    return (model[: found.start()].strip(), found[1]) if found else (model, None)


def device_nodes(
    host: Host, minor: int | None, gpu_instance: int | None, compute_instance: int | None
) -> tuple[str, ...]:
    """What a program must be able to open for an instance beside its whole card's nodes: one for the GPU instance, one for the compute
    instance. ``minor`` is the whole card's (MIG user guide, device nodes and capabilities)."""
    folder = f"{_CAPABILITIES}/gpu{minor}/mig/gi{gpu_instance}"
    asked = (f"{folder}/access", f"{folder}/ci{compute_instance}/access")
    found = (_MINOR.search(host.read(path).text or "") for path in asked)
    return tuple(f"/dev/nvidia-caps/nvidia-cap{match[1]}" for match in found if match)


def why_divided(index: int, models: Sequence[str]) -> Text:
    """Why a divided card itself is not to be had; ``models`` of its instances."""
    if not models:
        return Text(_NO_INSTANCE, {"index": index})
    counted = Counter(split_model(model)[1] or model for model in models)
    return Text(_DIVIDED, {"instances": ", ".join(f"{count} x {name}" for name, count in sorted(counted.items()))})
