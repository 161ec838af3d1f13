"""Wheels that do not belong to the cards or to each other: the real ones, installed, beside eight stand-in cards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import real_torch
from called import Cli
from nvml_standin import EIGHT_CARDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * real_torch.INSTALL_S)]


@pytest.fixture(scope="module")
def wheels() -> tuple[Path, Path]:
    found = real_torch.installed()
    if found is None:
        pytest.skip(f"torch {real_torch.TORCH}+cpu is to be had from no package index")
    return found


def standing_in(environment: Path, *folders: Path) -> dict[str, str]:
    """The variables of a shell in which that environment is active."""
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "VIRTUAL_ENV": str(environment), "PYTHONPATH": os.pathsep.join(map(str, folders))}


def looked(variables: dict[str, str]) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "anycard.cli", "doctor", "--json"],
        capture_output=True,
        env={**os.environ, **variables},
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


def test_the_cpu_build_beside_eight_cards(nvml, wheels):
    nvml.describe(EIGHT_CARDS)
    seen = looked({**nvml.env, **standing_in(wheels[0])})
    assert len([card for card in seen["cards"] if card["accelerator"]]) == 8
    assert seen["findings"][0]["cause"] == "torch-cpu-only-build"
    assert f"torch=={real_torch.TORCH}+cpu" in " ".join(seen["findings"][0]["evidence"])


def test_torchvision_for_cuda_beside_torch_for_the_cpu(nvml, wheels):
    nvml.describe(EIGHT_CARDS)
    environment, vision = wheels
    variables = standing_in(environment, vision)
    python = [str(environment / "bin/python")]
    check = subprocess.run(
        [*python, "-m", "pip", "check"], capture_output=True, env={**os.environ, **variables}, check=False
    )
    assert b"No broken requirements found" in check.stdout  # pip sees nothing wrong
    assert looked({**nvml.env, **variables})["findings"][0]["cause"] == "torch-torchvision-cuda-mismatch"


def test_a_job_that_imports_both_is_told_why_it_failed(wheels, tmp_path):
    environment, vision = wheels
    cli = Cli(tmp_path / "home", standing_in(environment, vision))
    try:
        done = cli("run", "--name", "look", "--", "python3", "-c", "import torchvision")
        assert b"operator torchvision::nms does not exist" in done.stdout
        assert cli.json("job", "look")["items"][0]["cause"] == "torch-torchvision-cuda-mismatch"
    finally:
        cli("down", "--stop")
