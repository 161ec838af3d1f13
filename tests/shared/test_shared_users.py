"""A shared daemon: each user's programs and files are theirs, the queue is everybody's, and nobody reaches into another's jobs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

SUCCEEDS = """
name: mine
secrets: {TOKEN: hush-hush-4711}
run: |
  id -u; id -g; id -G; pwd; printenv HOME USER
  test "$TOKEN" = hush-hush-4711 && echo knows the secret
  echo result > "$ANYCARD_OUTPUT_DIR/result"
  echo step > "$ANYCARD_CHECKPOINT_DIR/step"
"""


def tree(folder: Path) -> dict[str, os.stat_result]:
    return {str(path.relative_to(folder)): path.lstat() for path in folder.rglob("*")}


def test_programs_run_as_their_user_with_their_groups(team):
    done = team.ann.ran(SUCCEEDS)
    assert done["state"] == "succeeded"
    log = team.ann("logs", str(done["id"])).stdout.decode().splitlines()
    assert log[1:3] == [str(team.ann.uid), str(team.ann.gid)]
    assert {int(group) for group in log[3].split()} == set(os.getgrouplist(team.ann.name, team.ann.gid))
    assert log[4:7] == [str(team.ann.folder), str(team.ann.folder), team.ann.name]
    assert "knows the secret" in log
    ran = team.ann("run", "--", "sh", "-c", "id -u; touch made-here; exit 7")
    assert (ran.returncode, ran.stdout) == (7, f"{team.ann.uid}\n".encode())
    assert (team.ann.folder / "made-here").stat().st_uid == team.ann.uid
    assert stat.S_IMODE((team.ann.folder / "made-here").stat().st_mode) == 0o644  # the submitter's umask


def test_their_files_are_theirs_and_closed_to_others(team):
    done = team.ann.ran(SUCCEEDS)
    item = done["items"][0]
    theirs = [Path(item["log"]), Path(item["output"]), Path(item["output"], "result")]
    for path in theirs:
        assert path.stat().st_uid == team.ann.uid, path
        assert team.ann.may_read(path)
        assert not team.ben.may_read(path)
    job_folder = team.root.home / "jobs" / str(done["id"])
    assert team.ann.may_read(job_folder)
    assert team.ann.may_read(job_folder / "job.yaml")
    assert not team.ben.may_read(job_folder)
    for name, found in tree(job_folder).items():
        if stat.S_ISDIR(found.st_mode) or "/" not in name:
            assert not found.st_mode & 0o007, name
        assert not team.ben.may_read(job_folder / name), name


def test_a_checkpoint_is_its_users_and_outlives_the_attempt(team):
    done = team.ann.ran(
        'run: |\n  cat "$ANYCARD_CHECKPOINT_DIR/step" && exit 0\n  id -u > "$ANYCARD_CHECKPOINT_DIR/step"; exit 5\n'
        "anycard: {retry: {times: 1, wait: 0s}}\n"
    )
    assert (done["state"], done["items"][0]["attempts"]) == ("succeeded", 2)
    assert str(team.ann.uid).encode() in team.ann("logs", str(done["id"])).stdout


def test_others_see_the_queue_and_nothing_else(team):
    job = str(team.ann.json("submit", team.ann.file("job.yaml", SUCCEEDS))["jobs"][0]["id"])
    assert team.ann("wait", job).returncode == 0
    assert job in [str(row["id"]) for row in team.ben.json("jobs")["jobs"]]
    with team.root.client() as client:
        assert client.job(job)["user"] == team.ann.name
    for verb in (
        ["logs", job],
        ["logs", job, "-f"],
        ["job", job],
        ["cancel", job],
        ["retry", job, "--failed"],
        ["hold", job],
        ["release", job],
    ):
        refused = team.ben(*verb)
        assert refused.returncode == 2, (verb, refused.stdout)
        assert f"job {job} belongs to {team.ann.name}".encode() in refused.stderr, verb
        assert b"hush" not in refused.stdout + refused.stderr
    script = (
        "import sys; from anycard.api.client import Client; from anycard.errors import ForbiddenError\n"
        "c, job = Client(), int(sys.argv[1])\n"
        "for call in (c.items, c.events, lambda j: list(c.log(j)), lambda j: list(c.watch(j)), c.cancel, c.retry, c.hold, c.release):\n"
        "    try: call(job)\n"
        "    except ForbiddenError: continue\n"
        "    sys.exit(f'{call} was allowed')\n"
    )
    tried = team.ben.run(team.ben.python, "-c", script, job)
    assert tried.returncode == 0, tried.stderr


def test_a_running_job_is_ended_by_its_owner_or_root_only(team):
    first, second = (str(team.ann.json("submit", "--", "sleep", "600")["jobs"][0]["id"]) for _ in range(2))
    assert team.ben("cancel", first).returncode == 2
    assert team.ann("cancel", first).returncode == 0
    assert team.root("cancel", second).returncode == 0
    for job in (first, second):
        assert team.ann("wait", job).returncode == 1
        assert team.ann.json("job", job)["state"] == "cancelled"


def test_root_may_look_at_everything(team):
    done = team.ann.ran(SUCCEEDS)
    assert b"knows the secret" in team.root("logs", str(done["id"])).stdout
    assert team.root.json("job", str(done["id"]))["items"][0]["state"] == "succeeded"


def test_only_an_administrator_prunes_backs_up_and_ends_the_daemon(team):
    target = team.ben.folder / "backup.db"
    for verb in (["prune"], ["backup", str(target)], ["down"], ["down", "--stop"]):
        refused = team.ben(*verb)
        assert refused.returncode == 2
        assert b"root" in refused.stderr
    assert not target.exists()
    assert team.root("backup", str(team.root.folder / "backup.db")).returncode == 0
    assert stat.S_IMODE((team.root.folder / "backup.db").stat().st_mode) == 0o600


def test_job_files_are_read_with_their_users_rights(team):
    private = team.ben.file("list", "one\ntwo\n")
    lines = team.ann(
        "submit", "--json", team.ann.file("job.yaml", f"run: 'true'\nanycard: {{foreach: {{lines: {private}}}}}\n")
    )
    assert lines.returncode == 2
    assert json.loads(lines.stdout)["faults"]
    workdir = team.ann(
        "submit", "--json", team.ann.file("job.yaml", f"run: 'true'\nworkdir: {team.ben.folder}/closed\n")
    )
    assert workdir.returncode == 2
    assert json.loads(workdir.stdout)["faults"]
    (team.ben.folder / "data").mkdir(exist_ok=True)
    (team.ben.folder / "data" / "x.csv").write_text("1")
    pattern = f"run: 'true'\nanycard: {{foreach: {{files: {team.ben.folder}/data/*.csv}}}}\n"
    assert team.ann("submit", "--json", team.ann.file("job.yaml", pattern)).returncode == 2
    refused = team.ann("run", "--json", "--", "true", cwd=Path("/"))  # a folder that they may stand in
    assert refused.returncode == 0


def test_a_folder_they_may_not_enter_is_no_workdir(team):
    with team.root.client() as client:
        before = len(client.jobs(user=team.ann.name)["jobs"])
    script = f"""
import sys
from anycard.api.client import Client
from anycard.errors import AnycardError
try:
    Client().submit(command=["true"], cwd={str(team.ben.folder)!r})
except AnycardError as error:
    print(error, error.faults)
    sys.exit(error.exit_code)
"""
    told = team.ann.run(team.ann.python, "-c", script)
    assert told.returncode == 2, (told.stdout, told.stderr)
    with team.root.client() as client:
        assert len(client.jobs(user=team.ann.name)["jobs"]) == before


def test_a_name_is_the_users_own_first(team):
    mine = team.ann.json("submit", "--hold", "--name", "train", "--", "true")["jobs"][0]["id"]
    other = team.ben.json("submit", "--hold", "--name", "train", "--", "true")["jobs"][0]["id"]
    assert other > mine
    assert team.ann.json("job", "train")["id"] == mine
    assert team.ann("cancel", "train").returncode == 0
    assert team.root.json("job", str(mine))["state"] == "cancelled"
    assert team.root.json("job", "train")["id"] == other
    team.ben("cancel", "train")


def test_secrets_stay_in_one_file_that_is_roots(team):
    done = team.ann.ran("secrets: [TOKEN]\nrun: 'true'\n".replace("[TOKEN]", "{TOKEN: only-in-the-environment}"))
    given = team.ann(
        "run",
        "--json",
        "--env",
        "PASS=given-at-submission",
        team.ann.file("job.yaml", "secrets: [PASS]\nrun: 'true'\n"),
    )
    second = json.loads(given.stdout)
    assert second["state"] == "succeeded", given.stderr
    with team.root.client() as client:
        for job in (done["id"], second["id"]):
            shown = json.dumps([client.job(job), list(client.all_items(job)), client.events(job, limit=1000)])
            assert "only-in-the-environment" not in shown
            assert "given-at-submission" not in shown
    holds = {
        str(path.relative_to(team.root.home))
        for path in team.root.home.rglob("*")
        if path.is_file() and b"given-at-submission" in path.read_bytes()
    }
    assert holds == {f"jobs/{second['id']}/secrets.json"}
    kept = team.root.home / "jobs" / str(second["id"]) / "secrets.json"
    assert (kept.stat().st_uid, stat.S_IMODE(kept.stat().st_mode)) == (0, 0o600)
    assert not team.ann.may_read(kept)


def test_setup_and_a_copied_workdir_are_made_as_the_user(team):
    work = team.ann.folder / "work"
    work.mkdir(exist_ok=True)
    (work / "data").write_text("42\n")
    os.chown(work, team.ann.uid, team.ann.gid)
    done = team.ann.ran(
        f"workdir: {work}\nsetup: id -u > made-by\nrun: cat made-by data; pwd\nanycard: {{copy_workdir: true}}\n"
    )
    log = team.ann("logs", str(done["id"])).stdout.decode().splitlines()
    assert log[1:3] == [str(team.ann.uid), "42"], log
    assert log[3].startswith(str(team.root.home))
    assert not (work / "made-by").exists()
    assert not team.ben.may_read(log[3])


def test_the_failed_list_is_its_users(team):
    done = team.ann.ran("run: exit 3\n")
    assert done["state"] == "failed"
    assert team.ann.may_read(done["failed_file"])
    assert not team.ben.may_read(done["failed_file"])
    assert team.ann("retry", str(done["id"]), "--failed").returncode == 0
    assert team.ann("wait", str(done["id"])).returncode == 1


def test_roots_own_jobs_are_roots(team):
    ran = team.root("run", "--", "id", "-u")
    assert ran.stdout == b"0\n"
    newest = team.root.json("jobs")["jobs"][0]
    assert team.ann("logs", str(newest["id"])).returncode == 2
