"""anycard doctor --fix: the safe mends of this machine's findings, one by one: shown, asked for, run, checked again.

Which mends are safe is data on the rules (``Step.safe``). The commands are the rules' own text, never anybody's input.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import Any

from anycard.cli.diagnosis import print_diagnosis, print_host
from anycard.cli.output import note, safe, say, sentence
from anycard.doctor.__main__ import of_host
from anycard.doctor.report import exit_code
from anycard.i18n import N_, _

Json = dict[str, Any]

_ASK = N_("Run it? [y/N] ")


def mend() -> int:
    """The exit code of the last look. Without a terminal nothing is asked and nothing run."""
    told = of_host()
    print_host(told)
    print_diagnosis(told)
    tried: set[str] = set()
    asks = sys.stdin.isatty()
    while step := _next(told, tried):
        cause, says, command = step
        tried.add(command)
        say()
        say(f"{cause}: {sentence(says)}")
        say("    " + safe(command))
        if not asks or not _wanted():
            continue
        if _run(command):
            told = of_host()
            _say_result(told, cause)
    if not tried:
        _say_nothing(told)
    elif not asks:
        note(_("--fix asks before each command: run it on a terminal. Nothing was changed."))
    return exit_code(told)


def _next(told: Json, tried: set[str]) -> tuple[str, str, str] | None:
    """(cause, what it does, command) of the first safe step that was not offered yet."""
    for finding in told["findings"]:
        for step in finding["steps"]:
            if step["safe"] and (command := _as_run(step["command"])) not in tried:
                return finding["cause"], step["says_msgid"], command
    return None


def _as_run(command: str) -> str:
    """Without sudo where there is none (root in a container)."""
    return command if shutil.which("sudo") else re.sub(r"\bsudo ", "", command)


def _wanted() -> bool:
    sys.stdout.write(_(_ASK))
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes", "j", "是")


def _run(command: str) -> bool:
    """Whether it ended well; its output is the user's to see."""
    code = subprocess.run(["/bin/sh", "-c", command], check=False).returncode
    if code:
        say(_("It ended with code {code}: nothing was mended by it.", code=code))
    return code == 0


def _say_result(told: Json, cause: str) -> None:
    if any(finding["cause"] == cause for finding in told["findings"]):
        say(_("Checked again: {cause} is still there. Some mends need a new login or a restart.", cause=cause))
    else:
        say(_("Checked again: {cause} is gone.", cause=cause))


def _say_nothing(told: Json) -> None:
    if told["verdict"] in ("healthy", "expected"):
        return
    say()
    say(_("None of the mends is safe enough to be run from here: do the steps above yourself."))
