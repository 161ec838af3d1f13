"""Verbs that read a job file themselves, without the daemon, say its faults as `submit` does."""

from __future__ import annotations

import json

OFFER = "nebius-gpu-h100-sxm-1gpu-16vcpu-200gb-eu-north1"


def test_a_wrong_file_is_answered_with_its_faults(fresh):
    file = fresh.file("bad.yaml", "nam: x\nrun: 'true'\n")
    done = fresh("quote", "--offer", OFFER, "--json", file)
    assert done.returncode == 2
    assert [fault["nearest"] for fault in json.loads(done.stdout)["faults"]] == ["name"]
    assert f"{file}:1:1: " in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_file_in_another_folder_finds_what_lies_beside_it(fresh):
    (fresh.folder / "away" / "data").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (fresh.folder / "away" / "data" / name).touch()
    fresh.file("away/job.yaml", "run: 'true'\nanycard: {foreach: {files: data/*}, parallel: 1}\n")
    done = fresh("quote", "--offer", OFFER, "--hours", "1h", "--json", "away/job.yaml")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["elapsed_s"] == 3 * 3600
