"""Failed attempts on a real daemon: their logs go through the rules, what these name stands on the item, and the retry rule acts on it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli

from anycard.jobs.logdoctor import LogDoctor

VISION = "RuntimeError: operator torchvision::nms does not exist"
MEMORY = "RuntimeError: Native API returns: -997 (Command failed to enqueue)"


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    called = Cli(tmp_path_factory.mktemp("attempts") / "home")
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


def ran(cli: Cli, name: str, script: str, own: str = "") -> dict:
    body = "\n".join(f"  {line}" for line in script.splitlines())
    cli("run", cli.file(f"{name}.yaml", f"name: {name}\nrun: |\n{body}\nanycard:\n  priority: 0\n{own}"))
    return cli.json("job", name)["items"][0]


def test_the_cause_stands_on_the_item_and_in_the_failed_list(cli):
    item = ran(cli, "wheel", f"echo '{VISION}'; exit 1")
    assert item["cause"] == "torch-torchvision-cuda-mismatch"
    assert item["end_reason"] == "program-error"
    assert item["reason"].startswith("exit code 1: torch and torchvision")
    assert '"cause": "torch-torchvision-cuda-mismatch"' in Path(cli.json("job", "wheel")["failed_file"]).read_text()


def test_an_ordinary_failure_has_no_cause(cli):
    item = ran(cli, "plain", "echo \"KeyError: 'x'\"; exit 4")
    assert item["cause"] is None
    assert item["reason"] == "exit code 4: KeyError: 'x'"


def test_retries_follow_the_reason_that_the_log_proves(cli):
    rule = "  retry: {times: 2, wait: 0s, when: [out-of-memory, card-lost]}\n"
    item = ran(cli, "memory", f"echo '{MEMORY}'; exit 1", rule)
    assert (item["attempts"], item["end_reason"]) == (3, "out-of-memory")
    assert ran(cli, "other", "echo boom; exit 1", rule)["attempts"] == 1


def test_a_cause_may_be_named_in_the_retry_rule(cli):
    rule = "  retry: {times: 1, wait: 0s, when: [torch-torchvision-cuda-mismatch]}\n"
    assert ran(cli, "named", f"echo '{VISION}'; exit 1", rule)["attempts"] == 2
    wrong = cli(
        "run", cli.file("wrong.yaml", "run: 'true'\nanycard:\n  retry: {times: 1, when: [torch-torchvision-cuda]}\n")
    )
    assert wrong.returncode == 2
    assert b"nearest: torch-torchvision-cuda-mismatch" in wrong.stderr


@pytest.mark.parametrize(("name", "order"), [("tail", "{noise}; {cause}"), ("head", "{cause}; {noise}")])
def test_a_long_log_is_read_at_both_ends(cli, name, order):
    noise = "head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 80"
    item = ran(cli, name, order.format(noise=noise, cause=f"echo '{VISION}'") + "; exit 1")
    assert item["cause"] == "torch-torchvision-cuda-mismatch"


def test_the_doctor_is_started_again_when_it_is_gone(tmp_path):
    log = tmp_path / "0.1.log"
    log.write_text(f"[anycard] job 1 item 0\n{VISION}\n")

    async def asked_twice() -> list[str | None]:
        doctor = LogDoctor()
        found = [await doctor.cause(str(tmp_path / "0.1"))]
        os.kill(doctor.pid, signal.SIGKILL)
        found.append(await doctor.cause(str(tmp_path / "0.1")))
        waiting = asyncio.create_task(doctor.cause(str(tmp_path / "0.1")))
        await asyncio.sleep(0)
        waiting.cancel()  # whoever asks next must not get this one's answer
        found.append(await doctor.cause(str(tmp_path / "0.1")))
        found.append(await doctor.cause(str(tmp_path / "nothing")))
        await doctor.close()
        return [cause.slug if cause else None for cause in found]

    slug = "torch-torchvision-cuda-mismatch"
    assert asyncio.run(asked_twice()) == [slug, slug, slug, None]


def test_a_doctor_that_cannot_be_started_says_nothing_and_ends_nobody(tmp_path, monkeypatch):
    (tmp_path / "0.1.log").write_text("torch.cuda.OutOfMemoryError: CUDA out of memory.\n")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "not-there"))

    async def ask() -> object:
        doctor = LogDoctor()
        try:
            return await doctor.cause(str(tmp_path / "0.1"))
        finally:
            await doctor.close()

    assert asyncio.run(ask()) is None
