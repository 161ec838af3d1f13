"""Apple silicon."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, SHOWS, SUGGESTS, Rule, clue, on, seen, step
from anycard.doctor.shapes import Verdict

RULES = (
    Rule(
        slug="mac-python-under-rosetta",
        family="apple",
        verdict=Verdict.FAULT,
        says="Python runs as an Intel program under Rosetta: it reports another macOS version and cannot use Metal.",
        clues=(
            clue(0.94, r"macOS-10\.16-x86_64"),
            clue(0.92, r"(?:platform\.machine|uname -m|arch)\W.{0,20}x86_64", r"Apple M\d"),
            clue(0.9, on("mac"), r"platform\.machine", r"^x86_64$"),
            clue(0.88, on("mac"), r"^x86_64$"),
            clue(SUGGESTS, on("mac"), r"x86_64", unless=(r"Intel\(R\)", r"Intel Core")),
            clue(0.92, r"\bRosetta\b"),
            clue(SHOWS, r"x86_64", r"Apple M\d", seen(r"\bmps\b", r"MPS", r"macOS", r"MacOS")),
            clue(SHOWS, r"osx-64\b", seen(r"Apple M\d", r"Apple", r"\bMPS\b")),
            clue(SHOWS, r"MPS backend is (?:only )?supported on [Mm]ac[Oo][Ss] (?:1[2345]\.\d\+?|12\.3\+)", r"x86_64"),
            clue(SUGGESTS, r"incompatible architecture \(have 'x86_64', need 'arm64"),
            clue(HINTS, on("mac"), seen(r"MPS (?:backend )?(?:is )?(?:not available|only supported|BFloat16)")),
            clue(SUGGESTS, r"MPS (?:backend )?.{0,40}only (?:available|supported) on [Mm]ac[Oo][Ss]"),
        ),
        explains=("torch-cpu-only-build", "mps-operator-needs-fallback"),
        mend=(
            step(
                "Install an arm64 Python and make the environment anew",
                "brew install python && python3 -c 'import platform; print(platform.machine())'",
            ),
            step("conda", "CONDA_SUBDIR=osx-arm64 conda create -n new python=3.12"),
        ),
        next_check="python -c 'import platform; print(platform.machine(), platform.mac_ver()[0])'; sysctl -n sysctl.proc_translated",
        authority="https://developer.apple.com/metal/pytorch/",
    ),
    Rule(
        slug="mps-operator-needs-fallback",
        family="apple",
        verdict=Verdict.APPLICATION,
        says="This torch has not got the operator for MPS: update torch, or let that operator fall back to the CPU.",
        clues=(
            clue(0.93, r"is not currently implemented for the MPS device"),
            clue(0.93, r"PYTORCH_ENABLE_MPS_FALLBACK"),
            clue(SHOWS, r"not (?:yet )?(?:implemented|supported).{0,40}\bMPS\b"),
            clue(
                SHOWS,
                r"\bMPS\b.{0,60}(?:does not support|doesn't support|not implemented|framework doesn't support|does not have support)",
            ),
            clue(SUGGESTS, r"(?:with arguments from|backend) .?.?MPS.? backend"),
            clue(SUGGESTS, r"Unsupported type \w+ .{0,20}MPS"),
            clue(0.55, on("mac"), r"\bMPS\b.{0,120}(?:[Ee]rror|not|unsupported)"),
            clue(0.55, r"NotImplementedError.{0,120}\b(?:mps|MPS)\b"),
            clue(HINTS, on("mac"), r"\bmps\b"),
        ),
        mend=(
            step("Update torch", "pip install --upgrade torch"),
            step("Or let it fall back", "export PYTORCH_ENABLE_MPS_FALLBACK=1"),
        ),
        next_check="python -c 'import torch; print(torch.__version__)'",
        authority="https://github.com/pytorch/pytorch/issues/77764",
    ),
)
