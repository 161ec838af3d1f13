"""What a user might try in the files that root looks at for them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil

SECRET_OF_BEN = "what ben alone may read"


def still_works(team) -> bool:
    return team.ben("run", "--", "true").returncode == 0


def test_a_log_swapped_for_a_link_shows_nothing_and_is_not_written_to(team):
    target = Path(team.ben.file("diary", SECRET_OF_BEN))
    for swap in (f"ln -s {target}", "mkfifo", "mkdir"):
        done = team.ann.ran(
            f'run: |\n  cd "$ANYCARD_OUTPUT_DIR/.."\n  log=$(ls -- *.log)\n  rm "$log"; {swap} "$log"\n'
        )
        assert done["state"] == "succeeded", swap
        for asked in (["logs", str(done["id"])], ["logs", str(done["id"]), "--tail", "3"]):
            shown = team.ann(*asked)
            assert SECRET_OF_BEN.encode() not in shown.stdout + shown.stderr
        assert target.read_text() == SECRET_OF_BEN
    assert still_works(team)


def test_an_output_swapped_for_a_link_moves_nobody_elses(team):
    theirs = team.ben.ran('run: echo 1 > "$ANYCARD_OUTPUT_DIR/x"\n')["items"][0]["output"]
    for swap in (f"ln -s {theirs}", "touch", "mkfifo", "ln -s /nonexistent", "ln -s /etc"):
        done = team.ann.ran(
            f'run: |\n  cd "$ANYCARD_OUTPUT_DIR/.."\n  rmdir "$ANYCARD_OUTPUT_DIR"; {swap} "$ANYCARD_OUTPUT_DIR"\n'
        )
        assert done["state"] == "succeeded", swap
        assert done["items"][0]["output"] is None, swap
    assert Path(theirs, "x").read_text() == "1\n"
    assert still_works(team)


def test_folders_that_are_removed_or_closed_harm_nobody(team):
    for harm in (
        'rm -rf "$PWD"',
        'chmod 000 "$PWD"',
        'chmod 000 "$ANYCARD_OUTPUT_DIR"',
        'mv "$ANYCARD_OUTPUT_DIR" elsewhere',
    ):
        done = team.ann.ran(f'run: |\n  cd "$ANYCARD_OUTPUT_DIR/.."\n  touch "$ANYCARD_OUTPUT_DIR/x"; {harm}; true\n')
        assert done["state"] in ("succeeded", "failed"), harm
    assert still_works(team)


def test_the_jobs_folder_cannot_be_changed_by_its_user(team):
    done = team.ann.ran("secrets: {TOKEN: x}\nrun: 'true'\n")
    folder = team.root.home / "jobs" / str(done["id"])
    for command in (
        f"touch {folder}/new",
        f"rm -f {folder}/secrets.json && test ! -e {folder}/secrets.json",
        f"ln -sf /etc/passwd {folder}/failed.json",
        f"mv {folder}/run.sh {folder}/x",
        f"touch {team.root.home}/jobs/x",
        f"touch {team.root.home}/run/x",
        f"ls {team.root.home}/run/supervisor",
        f"ls {team.root.home}/jobs",
    ):
        assert team.ann.run("/bin/sh", "-c", command).returncode != 0, command


def test_a_submit_key_is_no_path(team):
    script = """
import json, sys
from anycard.api.client import Client
from anycard.api.submission import submission
from anycard.errors import AnycardError
for key in ("../../../../tmp/anycard-trick", "/etc/anycard-trick", "a" * 200, "short"):
    try:
        Client().submit_body(submission(text="run: 'true'", submit_key=key))
    except AnycardError as error:
        continue
    sys.exit(key)
"""
    assert team.ann.run(team.ann.python, "-c", script).returncode == 0
    assert not Path("/tmp/anycard-trick-0").exists()


def test_files_of_the_house_are_closed(team):
    for path in team.root.home.rglob("*"):
        found = path.lstat()
        if path.is_symlink() or found.st_uid != 0:
            continue
        if path.is_dir():
            assert not found.st_mode & 0o022, path
        elif path.is_file():
            assert not found.st_mode & 0o077, path
    socket = next((team.root.home / "run").glob("*.d"))
    assert socket.stat().st_mode & 0o777 == 0o666
    assert not [name for name in os.listdir(team.root.home / "jobs") if name.startswith(".new-")]
    assert "Traceback" not in (team.root.home / "daemon.log").read_text()


def test_events_name_the_user(team):
    done = team.ann.ran("run: 'true'\n")
    with team.root.client() as client:
        events = client.events(done["id"], limit=1000)["events"]
    assert {event["user"] for event in events} == {team.ann.name}, json.dumps(events)


def test_the_process_that_checks_may_be_killed(team):
    assert team.ann("submit", "--hold", "--", "true").returncode == 0
    with team.root.client() as client:
        daemon = psutil.Process(client.status()["pid"])
    checkers = [child for child in daemon.children() if "anycard.jobs.checkserver" in child.cmdline()]
    assert len(checkers) == 1
    checkers[0].kill()
    for _ in range(3):
        assert team.ann("submit", "--hold", "--", "true").returncode == 0
    assert len([child for child in daemon.children() if "anycard.jobs.checkserver" in _words(child)]) == 1


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []
