"""Why AMD's cards are slowed down: the kernel's binary file ``gpu_metrics``, one structure a family of cards.

Layouts are the kernel's (drivers/gpu/drm/amd/include/kgd_pp_interface.h), bits its SMU_THROTTLER_* (drivers/gpu/drm/amd/pm/swsmu/inc/
amdgpu_smu.h), all little-endian. Consumer cards and older Instincts (1.3, and 2.2 to 2.4 of processors with graphics) tell by the bits of
``indep_throttle_status``; MI300 and later (1.6 to 1.8) count for how long each limit held. Other revisions have neither: unknown.

Two bits are no news. The firmware of RDNA 3 and 4 sets TEMP_HOTSPOT also on a cold card that rests (ROCm/rocm-systems issue 11781,
flightlessmango/MangoHud pull request 1690): it is left out, the other temperatures remain. PPT is set on RDNA 2 at rest, where the power is
kept low for the sake of it (flightlessmango/MangoHud issue 748): it counts from half of the power limit on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

FILE_BYTES = 16 * 1024  # the longest known, 1.8, has 4,000
_HEADER = struct.Struct("<HBB")  # structure_size, format_revision, content_revision
_STATUS = struct.Struct("<Q")
_COUNTS = struct.Struct(
    "<6I"
)  # cycles, then for how many of them: PROCHOT, power, socket, voltage regulators and HBM too hot

_STATUS_AT = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
_COUNTS_AT = {(1, 6): 104, (1, 7): 40, (1, 8): 40}

_NOTHING = (1 << 64) - 1  # the driver fills what the firmware does not tell with ones
_BITS = {  # reason -> bits of SMU_THROTTLER_*
    "power-cap": range(8),  # PPT0..3, SPL, FPPT, SPPT, SPPT_APU
    "current-limit": range(16, 24),  # TDC_*, EDC_*, APCC
    "hardware-thermal": (32, 33, 34, 35, 37, 38, 39, 40, 41, 42, 43, 44, 45),  # TEMP_* but TEMP_HOTSPOT (36), VRHOT*
    "hardware-slowdown": (46, 47),  # PROCHOT_CPU, PROCHOT_GFX
    "other": (56, 57),  # PPM, FIT
}
_MASKS = {reason: sum(1 << bit for bit in bits) for reason, bits in _BITS.items()}
_COUNTED = ("hardware-slowdown", "power-cap", "hardware-thermal", "hardware-thermal", "hardware-thermal")
_SHARE = 0.1  # of the time since the last look: less is the fine work of a card that runs at its limit
_WORKING = 0.5  # of the power limit


@dataclass(slots=True)
class Throttling:
    """Of one card, look after look."""

    _before: tuple[int, ...] | None = field(default=None)

    def reasons(self, data: bytes | None, power_share: float | None) -> tuple[str, ...] | None:
        """``data`` the file's, ``power_share`` what the card draws of what it may (None: not known). None: the card does not tell, or not
        yet."""
        if data is None or len(data) < _HEADER.size:
            return None
        size, *revision = _HEADER.unpack_from(data)
        kind = (revision[0], revision[1])
        known = data[:size]
        if (at := _STATUS_AT.get(kind)) is not None and len(known) >= at + _STATUS.size:
            return _of_bits(_STATUS.unpack_from(known, at)[0], power_share)
        if (at := _COUNTS_AT.get(kind)) is not None and len(known) >= at + _COUNTS.size:
            return self._of_counts(_COUNTS.unpack_from(known, at))
        return None

    def _of_counts(self, counts: tuple[int, ...]) -> tuple[str, ...] | None:
        """They begin anew at 2^32, and with the driver."""
        before, self._before = self._before, counts
        if before is None:
            return None
        cycles, *held = ((now - then) % (1 << 32) for now, then in zip(counts, before, strict=True))
        if not cycles or any(value > cycles for value in held):
            return None
        return tuple(
            dict.fromkeys(
                reason for reason, value in zip(_COUNTED, held, strict=True) if value >= max(1.0, _SHARE * cycles)
            )
        )


def _of_bits(status: int, power_share: float | None) -> tuple[str, ...] | None:
    if status == _NOTHING:
        return None
    at_rest = power_share is not None and power_share < _WORKING
    return tuple(reason for reason, mask in _MASKS.items() if status & mask and not (reason == "power-cap" and at_rest))
