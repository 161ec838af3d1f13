"""A card in MIG mode with three instances, in the NVML stand-in's words."""

from __future__ import annotations

from anycard.units import GIB

WHOLE = "GPU-5eed0000-0000-4000-8000-000000000000"
A, B, C = (f"MIG-5eed0000-0000-5000-8000-00000000000{letter}" for letter in "abc")


def divided(more: str = "", whole: str = WHOLE, instances: tuple[str, str, str] = (A, B, C)) -> str:
    """``more``: further lines of the card."""
    first, second, third = instances
    return (
        f"[card]\nuuid = {whole}\nmig = on\nmig = 0 1g.10gb {first} {10 * GIB} 1048576\n"
        f"mig = 1 2g.20gb {second} {20 * GIB} 2097152\nmig = 2 3g.40gb {third} {40 * GIB} 0\n{more}"
    )
