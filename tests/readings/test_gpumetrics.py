"""AMD's binary gpu_metrics. Files are written by the kernel's own list of fields, padded as a C compiler does."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.cards.readings.gpumetrics import FILE_BYTES, Throttling

U8, U16, U32, U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
HEADER = [("structure_size", U16), ("format_revision", U8), ("content_revision", U8)]


def shorts(*names: str) -> list[tuple[str, type]]:
    return [(name, U16) for name in names]


V1_3 = [
    *HEADER,
    *shorts("edge", "hotspot", "mem", "vrgfx", "vrsoc", "vrmem", "gfx_activity", "umc_activity", "mm_activity", "socket_power"),
    ("energy", U64), ("clock_counter", U64), ("average_clocks", U16 * 7), ("current_clocks", U16 * 7), ("throttle_status", U32),
    *shorts("fan", "link_width", "link_speed", "padding"), ("gfx_acc", U32), ("mem_acc", U32), ("hbm", U16 * 4), ("firmware", U64),
    ("voltage", U16 * 3), ("padding1", U16), ("indep_throttle_status", U64),
]  # fmt: skip
V2_2 = [
    *HEADER,
    *shorts("gfx", "soc"), ("core", U16 * 8), ("l3", U16 * 2), *shorts("gfx_activity", "mm_activity"), ("clock_counter", U64),
    *shorts("socket", "cpu", "soc_power", "gfx_power"), ("core_power", U16 * 8), ("average", U16 * 6), ("current", U16 * 6),
    ("coreclk", U16 * 8), ("l3clk", U16 * 2), ("throttle_status", U32), ("fan", U16), ("padding", U16 * 3), ("indep_throttle_status", U64),
]  # fmt: skip
V2_3 = [*V2_2, ("average_temperatures", U16 * 12)]
V2_4 = [*V2_3, ("voltages", U16 * 3), ("currents", U16 * 3)]
RESIDENCIES = [
    ("accumulation_counter", U32), ("prochot", U32), ("ppt", U32), ("socket_thm", U32), ("vr_thm", U32), ("hbm_thm", U32),
]  # fmt: skip
V1_6 = [
    *HEADER,
    *shorts("hotspot", "mem", "vrsoc", "socket_power", "gfx_activity", "umc_activity"), ("vcn", U16 * 4), ("jpeg", U16 * 32),
    ("energy", U64), ("clock_counter", U64), *RESIDENCIES, ("throttle_status", U32), ("lock", U32), ("more", U8 * 200),
]  # fmt: skip
V1_7 = [
    *HEADER,
    *shorts("hotspot", "mem", "vrsoc", "socket_power", "gfx_activity", "umc_activity"), ("mem_max_bandwidth", U64), ("energy", U64),
    ("clock_counter", U64), *RESIDENCIES, ("lock", U32), ("more", U8 * 2000),
]  # fmt: skip
FIELDS = {(1, 3): V1_3, (2, 2): V2_2, (2, 3): V2_3, (2, 4): V2_4, (1, 6): V1_6, (1, 7): V1_7, (1, 8): V1_7}


def written(revision: tuple[int, int], **values: int) -> bytes:
    kind = type("Metrics", (ctypes.LittleEndianStructure,), {"_fields_": FIELDS[revision]})
    table = kind(ctypes.sizeof(kind), *revision, **values)
    return bytes(table)


def test_the_sizes_are_those_that_the_kernel_writes() -> None:
    """As real files have them: 120 (Navi 31), 128, 152, 168 (APUs)."""
    assert [len(written(kind)) for kind in ((1, 3), (2, 2), (2, 3), (2, 4))] == [120, 128, 152, 168]


@pytest.mark.parametrize("revision", [(1, 3), (2, 2), (2, 3), (2, 4)])
@pytest.mark.parametrize(
    "bits, reasons",
    [
        ((), ()),
        ((0,), ("power-cap",)),  # PPT0
        ((16,), ("current-limit",)),  # TDC_GFX
        ((34,), ("hardware-thermal",)),  # TEMP_MEM
        ((36,), ()),  # TEMP_HOTSPOT: set at rest, too
        ((36, 35), ("hardware-thermal",)),  # TEMP_EDGE
        ((47, 1), ("power-cap", "hardware-slowdown")),  # PROCHOT_GFX, PPT1
        ((57,), ("other",)),  # FIT
    ],
)
def test_reasons_by_bits(revision: tuple[int, int], bits: tuple[int, ...], reasons: tuple[str, ...]) -> None:
    data = written(revision, indep_throttle_status=sum(1 << bit for bit in bits), throttle_status=0xFFFF)
    assert Throttling().reasons(data, 0.97) == reasons
    assert Throttling().reasons(data, None) == reasons


def test_power_kept_low_at_rest_is_no_slowing() -> None:
    data = written((1, 3), indep_throttle_status=0b1 | 1 << 34)
    assert Throttling().reasons(data, 0.1) == ("hardware-thermal",)
    assert Throttling().reasons(data, 0.6) == ("power-cap", "hardware-thermal")


def test_what_the_firmware_does_not_tell_is_unknown() -> None:
    assert Throttling().reasons(written((1, 3), indep_throttle_status=(1 << 64) - 1), 0.9) is None


@pytest.mark.parametrize("revision", [(1, 6), (1, 7), (1, 8)])
def test_reasons_by_the_time_that_each_limit_held(revision: tuple[int, int]) -> None:
    card = Throttling()
    looks = [
        {"accumulation_counter": 1000, "ppt": 500, "hbm_thm": 7},
        {"accumulation_counter": 2000, "ppt": 1400, "hbm_thm": 8},  # HBM for a thousandth
        {"accumulation_counter": 3000, "ppt": 1400, "hbm_thm": 508, "socket_thm": 1000},
        {"accumulation_counter": 3000, "ppt": 1400, "hbm_thm": 508, "socket_thm": 1000},  # nothing new: not known
        {"accumulation_counter": 4000, "ppt": 1400, "hbm_thm": 508, "socket_thm": 1000, "prochot": 200},
        {"accumulation_counter": 10},  # the driver was loaded anew
        {"accumulation_counter": 1010},
        {"accumulation_counter": (1 << 32) - 100, "ppt": 1 << 31},
        {"accumulation_counter": 400, "ppt": (1 << 31) + 400},  # they begin anew
    ]
    assert [card.reasons(written(revision, **look), None) for look in looks] == [
        None,
        ("power-cap",),
        ("hardware-thermal",),
        None,
        ("hardware-slowdown",),
        None,
        (),
        ("power-cap",),
        ("power-cap",),
    ]


@pytest.mark.parametrize("revision", [(0, 0), (1, 0), (1, 2), (1, 4), (1, 5), (1, 9), (2, 0), (3, 0), (255, 255)])
def test_other_revisions_are_unknown(revision: tuple[int, int]) -> None:
    assert Throttling().reasons(struct.pack("<HBB", 300, *revision) + b"\xff" * 296, 0.9) is None


@given(st.binary(max_size=400), st.sampled_from(sorted(FIELDS)), st.integers(0, 65535))
def test_no_file_breaks_it(rest: bytes, revision: tuple[int, int], size: int) -> None:
    card = Throttling()
    for data in (None, rest, struct.pack("<HBB", size, *revision) + rest, written(revision)[: len(rest)]):
        for _ in range(2):
            card.reasons(data, None)


def test_the_longest_file_is_read_whole() -> None:
    assert max(len(written(revision)) for revision in FIELDS) < FILE_BYTES
