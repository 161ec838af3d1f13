"""Setup, environments, copies of the workdir, mounts, variables and secrets."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from called import until

from anycard.errors import UsageError


@pytest.fixture
def project(cli, tmp_path):
    """A folder of its own to submit from."""
    (tmp_path / "requirements.txt").write_text("nothing\n")
    return tmp_path


def test_setup_runs_once_for_the_same_content(cli, project):
    text = "setup: |\n  sleep 0.3\n  echo once >>setups.txt\nrun: cat setups.txt\nanycard: {foreach: {count: 2}}\n"
    jobs = [cli.submit(text, cwd=project) for _ in range(3)]
    for job in jobs:
        assert cli.over(job)["state"] == "succeeded"
        assert cli.log(job, 1) == b"once\n"
    prepared = [event for job in jobs for event in cli.events(job) if event["kind"] == "prepare.started"]
    assert len(prepared) == 1
    assert cli.ran(text, cwd=project)["state"] == "succeeded"
    (project / "requirements.txt").write_text("something else\n")
    again = cli.ran(text, cwd=project)
    assert cli.log(again["id"]) == b"once\nonce\n"


def test_a_failed_setup_fails_every_item_and_names_its_log(cli, project):
    done = cli.ran(
        "setup: |\n  echo this cannot be had >&2\n  exit 3\nrun: echo never\nanycard: {foreach: {count: 3}}\n",
        cwd=project,
    )
    assert (done["state"], done["counts"]["failed"]) == ("failed", 3)
    assert {item["end_reason"] for item in done["items"]} == {"setup-failed"}
    assert "code 3" in done["items"][0]["reason"]
    assert b"this cannot be had" in cli("logs", str(done["id"]), "--setup").stdout
    named = next(word for word in done["items"][0]["reason"].split() if word.startswith("/"))
    assert "this cannot be had" in Path(named).read_text()


def test_a_named_environment_is_made_once_and_shared(cli, project):
    text = (
        'setup: python -c \'import sys; open(sys.prefix + "/made", "a").write("x")\'\n'
        "run: python -c 'import sys; print(sys.prefix, open(sys.prefix + \"/made\").read())'\n"
        "anycard: {environment: shared-one}\n"
    )
    first, second = cli.ran(text, cwd=project), cli.ran(text, cwd=project)
    where = cli.home / "environments" / "shared-one"
    for job in (first, second):
        assert (job["state"], cli.log(job["id"]).decode()) == ("succeeded", f"{where} x\n")


def test_a_job_stands_where_its_submitter_stood(cli, project):
    bin_folder = project / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "my-tool").write_text("#!/bin/sh\necho $VIRTUAL_ENV $LANG $0\n")
    (bin_folder / "my-tool").chmod(0o755)
    env = {"VIRTUAL_ENV": str(project / "venv"), "PATH": f"{bin_folder}:{os.environ['PATH']}", "LANG": "de_DE.UTF-8"}
    out = cli("run", "--", "my-tool", env={**env, "MY_TOKEN": "not for you"})
    assert out.stdout.decode().split() == [str(project / "venv"), "de_DE.UTF-8", str(bin_folder / "my-tool")]
    assert b"MY_TOKEN" not in cli("run", "--", "env", env={"MY_TOKEN": "not for you"}).stdout


def test_a_copied_workdir_is_the_jobs_own(cli, project):
    (project / "data.txt").write_text("as submitted")
    (project / "link").symlink_to("data.txt")
    job = cli.submit(
        "run: |\n  while [ ! -e $GO ]; do sleep 0.05; done\n  cat link; echo changed >data.txt; pwd\n"
        f"envs: {{GO: {cli.folder}/copied}}\nanycard: {{copy_workdir: true}}\n",
        cwd=project,
    )
    until(lambda: cli.json("job", str(job))["counts"]["running"] and cli.json("job", str(job))["items"][0]["attempts"])
    (project / "data.txt").write_text("edited afterwards")
    (cli.folder / "copied").touch()
    done = cli.over(job)
    said = cli.log(job).decode()
    assert done["state"] == "succeeded"
    assert said.startswith("as submitted")
    assert str(cli.home) in said
    assert (project / "data.txt").read_text() == "edited afterwards"


def test_file_mounts(cli, project):
    elsewhere = project / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "x").write_text("mounted")
    work = project / "work"
    work.mkdir()
    text = f"file_mounts: {{inputs/set: {elsewhere}/deep}}\nrun: cat inputs/set/x\n"
    for _ in range(2):  # the link of the first time is known again
        done = cli.ran(text, cwd=work)
        assert cli.log(done["id"]) == b"mounted\n"
    with pytest.raises(UsageError):
        cli.submit("file_mounts: {inputs: /no/such/path}\nrun: 'true'\n", cwd=work)
    (work / "taken").write_text("mine")
    done = cli.ran(f"file_mounts: {{taken: {elsewhere}}}\nrun: 'true'\n", cwd=work)
    assert done["items"][0]["end_reason"] == "setup-failed"
    assert (work / "taken").read_text() == "mine"


def test_variables_that_must_be_given(cli):
    text = "envs: {WORD: null, OTHER: b}\nrun: echo $WORD $OTHER\n"
    with pytest.raises(UsageError) as refused:
        cli.submit(text)
    assert "WORD" in json.dumps(refused.value.faults)
    odd = "a b'\"$(touch x)`touch y`\n\\n;&|*"
    job = cli.ran('envs: {WORD: null}\nrun: printf %s "$WORD"\n', given={"WORD": odd})
    assert cli.log(job["id"]).decode() == odd + "\n"
    assert not (cli.folder / "x").exists()


SECRET = "s3cr3t-9f31c7d0-5a1b"


def test_secrets_are_nowhere_but_in_the_program(cli):
    job = cli.ran(
        "secrets: {API_KEY: null, OTHER: in-the-file-9f31c7}\nrun: |\n  echo ${#API_KEY} ${#OTHER}\n  exit 3\n",
        given={"API_KEY": SECRET},
    )
    assert cli.log(job["id"]).decode() == f"{len(SECRET)} 18\n"
    for call in (("job", str(job["id"]), "--json"), ("jobs", "--json"), ("job", str(job["id"]))):
        assert SECRET.encode() not in cli(*call).stdout
        assert b"in-the-file-9f31c7" not in cli(*call).stdout
    assert SECRET not in json.dumps(cli.events(job["id"]))
    found = subprocess.run(["grep", "-rlF", SECRET, str(cli.home)], capture_output=True, text=True).stdout.split()
    assert [Path(path).name for path in found] == ["secrets.json"]
    assert Path(found[0]).stat().st_mode & 0o777 == 0o600
    in_file = subprocess.run(
        ["grep", "-rlF", "in-the-file-9f31c7", str(cli.home)], capture_output=True, text=True
    ).stdout.split()
    assert sorted(Path(path).name for path in in_file) == ["job.yaml", "secrets.json"]
    assert {Path(path).stat().st_mode & 0o777 for path in in_file} == {0o600}
    assert cli.home.stat().st_mode & 0o777 == 0o700
    assert (cli.home / "anycard.db").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError) as refused:
        cli.submit("secrets: {API_KEY: null}\nrun: x\nnum_nodes: 7\n", given={"API_KEY": SECRET})
    assert SECRET not in json.dumps(refused.value.faults) + str(refused.value)


def test_open_variables_are_taken_from_where_it_is_submitted(cli):
    """And nothing else of that environment leaves the submitter's shell."""
    file = cli.file(
        "open.yaml", 'name: open\nenvs: {COLOUR: null}\nsecrets: {KEY: null}\nrun: echo "$COLOUR-$KEY-$OTHER_TOKEN."\n'
    )
    ran = cli("run", file, env={"COLOUR": "blue", "KEY": "k1", "OTHER_TOKEN": "never"})
    assert ran.returncode == 0 and b"blue-k1-." in ran.stdout
