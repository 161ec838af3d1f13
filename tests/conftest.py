"""Fixtures that several areas share."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import nvml_standin
import pytest
from hypothesis import HealthCheck, settings
from made import CannotBuild
from one_card import OneCard

# A busy machine is no fault of the code: no property fails because an example, or making it, took long.
settings.register_profile("anycard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("anycard")

# Started in the background of a script, the tests ignore SIGINT, and whatever they start would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in ``libnvidia-ml.so.1``, built once; its folder goes on LD_LIBRARY_PATH."""
    try:
        return nvml_standin.build(tmp_path_factory.mktemp("nvml"))
    except CannotBuild as reason:
        pytest.skip(str(reason))


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nvml_standin.NvmlStandin:
    """The stand-in with one healthy card, visible to this process and, by ``.env``, to programs that the test starts."""
    standin = nvml_standin.NvmlStandin(nvml_library, tmp_path / "cards.txt")
    standin.describe("[card]\n")
    standin.load_here()
    monkeypatch.setenv("NVML_STANDIN", str(standin.description))
    return standin


@pytest.fixture
def one_card(nvml_library: Path, tmp_path: Path) -> Iterator[OneCard]:
    """A daemon on a machine with one A100."""
    standin = nvml_standin.NvmlStandin(nvml_library, tmp_path / "cards.txt")
    called = OneCard(tmp_path / "home", standin.env, standin, f"GPU-{uuid.uuid4()}")
    called.describe("")
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()
