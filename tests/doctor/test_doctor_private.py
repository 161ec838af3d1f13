"""Live looks at device nodes and shared memory, and ``--fix``, on a /dev of the test's own: real nodes, real refusals, a real mend."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import subprocess
from pathlib import Path

import pytest
from private_machine import NO_OVERRIDE, anycard, run, shell

NODES = "mknod -m 600 /dev/nvidiactl c 195 255; mknod -m 600 /dev/nvidia0 c 195 0; chown 12345 /dev/nvidiactl /dev/nvidia0\n"
LOOK = anycard("doctor", "--json")
V1_DEVICES = Path("/sys/fs/cgroup/devices")


def looked(done: subprocess.CompletedProcess[bytes]) -> dict:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_nodes_that_one_may_not_open(nvml):
    nvml.describe("[card]\n")
    done = run(NODES + shlex.join(NO_OVERRIDE) + " " + LOOK, nvml.env)
    seen = looked(done)
    assert seen["findings"][0]["cause"] == "gpu-device-node-permission"
    assert "open /dev/nvidiactl: Permission denied" in seen["findings"][0]["evidence"]
    assert done.returncode == 1


def test_nodes_that_one_may_open_are_no_news(nvml):
    nvml.describe("[card]\n")
    done = run(NODES + LOOK, nvml.env)
    assert (looked(done)["verdict"], done.returncode) == ("healthy", 0)


if V1_DEVICES.is_dir():  # version 2 has no files for device rules: there a program is loaded into the kernel

    def test_device_rules_of_a_control_group(nvml):
        nvml.describe("[card]\n")
        group = V1_DEVICES / f"anycard-test-{os.getpid()}"
        rules = f"mkdir {group}; echo 'c 195:* rwm' > {group}/devices.deny; "
        try:
            done = run(f"{NODES}{rules} echo $$ > {group}/cgroup.procs; {LOOK}", nvml.env)
        finally:
            subprocess.run(["rmdir", str(group)], check=False)
        seen = looked(done)
        assert seen["findings"][0]["cause"] == "cgroup-device-filter-blocks-gpu"
        assert "open /dev/nvidiactl: Operation not permitted" in seen["findings"][0]["evidence"]


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("CUDA_VISIBLE_DEVICES", "", "cuda-visible-devices-wrong"),
        ("CUDA_VISIBLE_DEVICES", "-1", "cuda-visible-devices-wrong"),
        ("CUDA_VISIBLE_DEVICES", "7", "cuda-visible-devices-wrong"),
        ("CUDA_VISIBLE_DEVICES", "0", None),
    ],
)
def test_variables_that_hide_cards(nvml, name, value, cause):
    nvml.describe("[card]\n")
    seen = looked(run(LOOK, {**nvml.env, name: value}))
    assert [finding["cause"] for finding in seen["findings"][:1]] == ([cause] if cause else [])


def test_variables_hide_nothing_where_there_is_no_card():
    assert looked(run(LOOK, {"CUDA_VISIBLE_DEVICES": "-1"}))["verdict"] == "healthy"


# ---- --fix

SICK = "chmod 755 /dev/shm\n"
AFTER = "; code=$?; stat -c 'mode %a' /dev/shm; exit $code"


def on_a_terminal(script: str, answers: str) -> tuple[str, int]:
    """What a person saw who typed ``answers``, and the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(shell(script), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    os.write(ours, answers.encode())
    seen = b""
    while select.select([ours], [], [], 120)[0]:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    return seen.decode("utf-8", "replace").replace("\r", ""), process.wait(60)


def test_a_mend_is_shown_asked_for_run_and_checked():
    seen, code = on_a_terminal(f"set +e\n{SICK}{anycard('doctor', '--fix')}{AFTER}", "y\n")
    assert "chmod 1777 /dev/shm" in seen
    assert "dev-shm-permission is gone" in seen
    assert "mode 1777" in seen
    assert code == 0


def test_no_is_no():
    seen, code = on_a_terminal(f"set +e\n{SICK}{anycard('doctor', '--fix')}{AFTER}", "n\n")
    assert "chmod 1777 /dev/shm" in seen
    assert "mode 755" in seen
    assert code == 1


def test_without_a_terminal_nothing_is_run():
    done = run(f"set +e\n{SICK}{anycard('doctor', '--fix')}{AFTER}")
    assert b"chmod 1777 /dev/shm" in done.stdout
    assert b"Nothing was changed" in done.stderr
    assert b"mode 755" in done.stdout
    assert done.returncode == 1


def test_a_mend_that_fails_is_said():
    hindered = "chmod 755 /dev/shm; mount -o remount,ro /dev/shm\n"
    seen, code = on_a_terminal(f"set +e\n{hindered}{anycard('doctor', '--fix')}{AFTER}", "y\n")
    assert "It ended with code 1" in seen
    assert code == 1


def test_what_is_well_is_left_alone():
    seen, code = on_a_terminal(f"set +e\n{anycard('doctor', '--fix')}{AFTER}", "y\n")
    assert "[y/N]" not in seen
    assert code == 0


DESTRUCTIVE = (
    "rm ",
    "rmmod",
    "purge",
    "remove",
    "reset",
    "reboot",
    "restart",
    "kill",
    "uninstall",
    "--force",
    "mkfs",
    "dd ",
    "isolate",
)


def test_nothing_that_takes_away_is_ever_offered():
    from anycard.doctor.rules import all_rules

    safe = [step for rule in all_rules() for step in rule.mend if step.safe]
    assert safe
    for step in safe:
        assert step.command
        assert not [word for word in DESTRUCTIVE if word in step.command], step.command
        assert not re.findall(r"(?<![\w$])[A-Z]{2,}(?!\w)", step.command), step.command  # a placeholder
