"""What lies under a home is its owner's alone; secrets and tokens are nowhere but in the one file that is for them."""

from __future__ import annotations

import stat

FILE = """
name: private
secrets: {IN_FILE: secret-in-the-file, GIVEN: null}
setup: echo setup
run: |
  echo ${#IN_FILE} ${#GIVEN}
  test "$ANYCARD_INDEX" != 1 || exit 4
anycard: {foreach: {count: 2}}
"""


def test_of_a_personal_home(fresh):
    told = fresh.json("up", "-d", "--port", "0")
    ran = fresh("run", "--env", "GIVEN=secret-given-later", fresh.file("private.yaml", FILE))
    assert ran.returncode == 1, ran.stderr
    job = fresh.json("jobs")["jobs"][0]["id"]
    assert fresh.log(job) == b"18 18\n"
    assert fresh("backup", "b.db").returncode == 0
    for path in (fresh.home, *fresh.home.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink():
            assert not mode & 0o077, f"{path} {mode:o}"

    holds = {"secret-in-the-file": set(), "secret-given-later": set(), told["token"]: set()}
    for path in (*fresh.home.rglob("*"), fresh.folder / "b.db"):
        if path.is_file():
            data = path.read_bytes()
            for word, found in holds.items():
                if word.encode() in data:
                    found.add(path.name)
    assert holds == {
        "secret-in-the-file": {"secrets.json", "job.yaml"},  # the file is kept as it was submitted
        "secret-given-later": {"secrets.json"},
        told["token"]: set(),
    }
    shown = (
        fresh("job", "--json", "--all", str(job)).stdout
        + fresh("logs", str(job)).stdout
        + repr(fresh.events(job)).encode()
    )
    assert b"secret-" not in shown
    assert b"secret-" not in ran.stdout + ran.stderr
