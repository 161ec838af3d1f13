"""The real CPU build of torch, and beside it the real torchvision that was built for CUDA: installed once, with pip, under
ANYCARD_TEST_CACHE (default ~/.cache/anycard-tests; about 1 GB)."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

TORCH, VISION = "2.13.0", "0.28.0"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_INDEX = "https://download.pytorch.org/whl/cu130"
INSTALL_S = 1500  # not a measure of anything: how long until a hang is called a hang


def installed() -> tuple[Path, Path] | None:
    """(the environment with torch, the folder with torchvision); None where neither index can be reached."""
    cache = Path(os.environ.get("ANYCARD_TEST_CACHE") or Path.home() / ".cache" / "anycard-tests")
    cache.mkdir(parents=True, exist_ok=True)
    tag = f"{TORCH}-py{sys.version_info[0]}{sys.version_info[1]}"
    environment, vision = cache / f"torch-{tag}", cache / f"torchvision-{tag}"
    with open(cache / "torch.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run side by side
        whole = environment / "whole"
        if not whole.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
            if not _pip(environment, CPU_INDEX, f"torch=={TORCH}+cpu", "numpy", "pillow"):
                return None
            if not _pip(environment, CUDA_INDEX, "--no-deps", "--target", str(vision), f"torchvision=={VISION}"):
                return None
            whole.touch()
    return environment, vision


def _pip(environment: Path, index: str, *what: str) -> bool:
    """From the index that pip is set up with, else from PyTorch's own."""
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    for more in ([], ["--extra-index-url", index]):
        if subprocess.run([*pip, *more, *what], timeout=INSTALL_S, check=False).returncode == 0:
            return True
    return False
