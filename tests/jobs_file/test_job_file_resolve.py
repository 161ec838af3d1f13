"""What is looked up on the machine: folders, files, values, the submitter's environment."""

from __future__ import annotations

import glob
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from anycard.jobs.checking import Request, check
from anycard.jobs.file.faults import JobFileError
from anycard.jobs.file.foreach import MAX_ITEMS, item_variables
from anycard.jobs.file.looking import Budget, TooMuchError, matches
from anycard.jobs.file.parse import parse
from anycard.jobs.file.resolve import Resolved, from_command, resolve
from anycard.jobs.file.setup_key import setup_key
from anycard.jobs.spec import JobSpec, RetryRule
from anycard.units import GIB

E = {"HOME": "/home/x", "PATH": "/bin"}


def resolved(text: str, folder: Path, environ: dict[str, str] | None = None, **more: Any) -> Resolved:
    (job,) = parse(text, str(folder / "job.yaml"))
    return resolve(job, cwd=str(folder), environ=E if environ is None else environ, **more)


def faults(text: str, folder: Path, **more: Any) -> list[str]:
    (job,) = parse(text, "job.yaml")
    with pytest.raises(JobFileError) as caught:
        resolve(job, cwd=str(folder), environ=E, **more)
    return [str(fault) for fault in caught.value.faults]


def items(foreach: str, folder: Path) -> list[dict[str, str]]:
    spec = resolved(f"run: x\nanycard: {{foreach: {foreach}}}", folder).spec
    assert spec.items is not None
    return [
        item_variables(JobSpec.model_validate_json(spec.model_dump_json()).items[index])
        for index in range(spec.n_items)
    ]  # type: ignore[index]


# ---- folders


@pytest.mark.parametrize(
    ("file_name", "workdir", "expected"),
    [
        ("sub/job.yaml", None, "sub"),
        ("sub/job.yaml", ".", "sub"),
        ("sub/job.yaml", "..", "."),
        ("sub/job.yaml", "deep", "sub/deep"),
        ("-", None, "."),
        ("-", "sub", "sub"),
        ("sub/job.yaml", "~/sub", "home/sub"),
        ("sub/job.yaml", "$WHERE/x", "sub/deep/x"),
    ],
)
def test_a_job_runs_beside_its_file(tmp_path: Path, file_name: str, workdir: str | None, expected: str) -> None:
    for folder in ("sub/deep/x", "home/sub"):
        (tmp_path / folder).mkdir(parents=True)
    text = "run: x\nenvs: {WHERE: deep}\n" + (f"workdir: {workdir}\n" if workdir else "")
    (job,) = parse(text, file_name)
    environ = {"HOME": str(tmp_path / "home")}
    assert resolve(job, cwd=str(tmp_path), environ=environ).spec.workdir == str((tmp_path / expected).resolve())


def test_folders_that_cannot_be_entered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    assert faults("run: x\nworkdir: nowhere", tmp_path) == [
        f"job.yaml:2:10: The folder {tmp_path}/nowhere cannot be entered: No such file or directory"
    ]
    assert faults("run: x\nworkdir: file", tmp_path) == [f"job.yaml:2:10: {tmp_path}/file is not a folder"]
    assert "job.yaml:2:10: The folder" in faults("run: x\nworkdir: loop", tmp_path)[0]
    assert faults("run: x", Path("not/absolute"))[0].endswith(
        "The folder not/absolute of the submitter is not an absolute path"
    )


def test_mounts(tmp_path: Path) -> None:
    (tmp_path / "data set").mkdir()
    spec = resolved("run: x\nenvs: {D: data set}\nfile_mounts:\n  in: ./$D\n  ~/m: {source: data set}", tmp_path).spec
    assert [(mount.target, mount.source) for mount in spec.mounts] == [
        ("in", f"{tmp_path}/data set"),
        ("/home/x/m", f"{tmp_path}/data set"),
    ]
    assert faults("run: x\nfile_mounts:\n  a: nowhere\n  b: {source: gone}", tmp_path) == [
        "job.yaml:3:6: file_mounts: nowhere cannot be read: No such file or directory",
        "job.yaml:4:15: file_mounts: gone cannot be read: No such file or directory",
    ]


# ---- items

AWKWARD = ["a b.csv", "a\nb.csv", 'it\'s "q".csv', "$(touch x).csv", "-rf.csv", "ünï.csv", "..csv"]


def test_awkward_file_names_arrive_whole(tmp_path: Path) -> None:
    for name in AWKWARD:
        (tmp_path / name).write_text("")
    (tmp_path / "folder.csv").mkdir()
    found = items("{files: ['*.csv', '.?csv', '*.csv']}", tmp_path)
    assert found == [{"ANYCARD_FILE": name} for name in sorted(AWKWARD)]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes only on Linux")
def test_file_names_that_are_not_utf8_arrive_whole(tmp_path: Path) -> None:
    raw = b"caf\xe9 \xff.csv"
    with open(os.fsencode(tmp_path) + b"/" + raw, "wb"):
        pass
    spec = resolved("run: x\nanycard: {foreach: {files: '*.csv'}}", tmp_path).spec
    assert spec.items == ({"file": "caf� �.csv", "file#bytes": raw.hex()},)
    (variables,) = items("{files: '*.csv'}", tmp_path)
    assert os.fsencode(variables["ANYCARD_FILE"]) == raw
    assert list(variables) == ["ANYCARD_FILE"]


def test_files_count_from_the_workdir_and_cross_folders(tmp_path: Path) -> None:
    for name in ("w/b/2.txt", "w/a/1.txt", "w/0.txt", "out.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    def found(pattern: str) -> list[str]:
        text = f"run: x\nworkdir: w\nanycard: {{foreach: {{files: {pattern}}}}}"
        return [item["file"] for item in resolved(text, tmp_path).spec.items or ()]

    assert found("'**/*.txt'") == ["0.txt", "a/1.txt", "b/2.txt"]
    assert found("'../*.txt'") == ["../out.txt"]
    assert found("'*/'") == ["a/", "b/"]
    assert found(f"{tmp_path}/w/a/*") == [f"{tmp_path}/w/a/1.txt"]


def test_files_that_do_not_match_are_faults_each_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    text = "run: x\nanycard:\n  foreach:\n    files:\n      - '*.txt'\n      - '*.csv'\n      - nowhere/*"
    assert faults(text, tmp_path) == [
        f"job.yaml:6:9: No file matches *.csv in {tmp_path}",
        f"job.yaml:7:9: No file matches nowhere/* in {tmp_path}",
    ]


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes("one\r\n\n two  'x' \nü\n".encode() + b"\xff\n")
    found = items("{lines: list.txt}", tmp_path)
    assert [os.fsencode(item["ANYCARD_LINE"]) for item in found] == [b"one", b" two  'x' ", "ü".encode(), b"\xff"]


def test_lists_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "nul.txt").write_bytes(b"a\nb\0c\n")

    def fault(name: str) -> str:
        (only,) = faults(f"run: x\nanycard: {{foreach: {{lines: {name}}}}}", tmp_path)
        return only

    assert fault("gone.txt") == "job.yaml:2:28: gone.txt cannot be read: No such file or directory"
    assert fault("empty.txt") == "job.yaml:2:28: empty.txt has no line that is not empty"
    assert fault("nul.txt") == "job.yaml:2:28: Line 2 of nul.txt holds a NUL byte or is longer than 65536 bytes"


def test_matrix_and_count(tmp_path: Path) -> None:
    assert items("{matrix: {lr: [1e-3, 1e-4], seed: [1, 2]}}", tmp_path) == [
        {"ANYCARD_LR": "1e-3", "ANYCARD_SEED": "1"},
        {"ANYCARD_LR": "1e-3", "ANYCARD_SEED": "2"},
        {"ANYCARD_LR": "1e-4", "ANYCARD_SEED": "1"},
        {"ANYCARD_LR": "1e-4", "ANYCARD_SEED": "2"},
    ]
    assert items("{count: 3}", tmp_path) == [{"ANYCARD_INDEX": "0"}, {"ANYCARD_INDEX": "1"}, {"ANYCARD_INDEX": "2"}]


def test_items_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_bytes(b"x\n" * (MAX_ITEMS + 1))
    assert faults("run: x\nanycard: {foreach: {lines: long.txt}}", tmp_path) == [
        "job.yaml:2:28: More than 1000000 items: no job may have so many"
    ]
    axis = "[" + ",".join("1" * 1001) + "]"
    with pytest.raises(JobFileError, match="more than 1000000 combinations"):
        parse(f"run: x\nanycard: {{foreach: {{matrix: {{a: {axis}, b: {axis}}}}}}}", "job.yaml")


# ---- values


def test_values_that_must_be_given(tmp_path: Path) -> None:
    text = "run: x\nenvs: {A: file, B: null, C: null, D: null}\nsecrets: {S: null, T: inline, U: null}"
    found = resolved(
        text,
        tmp_path,
        environ={"A": "mine", "B": "mine", "C": "mine", "U": "mine"},
        given={"C": "given", "D": "", "S": "given", "NEW": "x"},
    )
    assert found.spec.envs == {"A": "file", "B": "mine", "C": "given", "D": "", "NEW": "x"}
    assert found.spec.secrets == ("S", "T", "U")
    assert found.secret_values == {"S": "given", "T": "inline", "U": "mine"}
    assert "inline" not in found.spec.model_dump_json() + repr(found)


def test_values_that_are_missing(tmp_path: Path) -> None:
    assert faults("run: x\nenvs: {A: null}\nsecrets: [S]", tmp_path) == [
        "job.yaml:2:8: A has no value: give it with --env A=VALUE, or set it in your environment",
        "job.yaml:3:11: S has no value: give it with --env S=VALUE, or set it in your environment",
    ]
    assert faults("run: x", tmp_path, given={"ANYCARD_JOB": "1", "a-b": "2"}) == [
        "--env: env: names that begin with ANYCARD_ are set by anycard, not ANYCARD_JOB",
        "--env: env: a-b is no variable name (letters, digits, '_')",
    ]


def test_only_the_allowed_environment_is_kept(tmp_path: Path) -> None:
    kept = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "VIRTUAL_ENV": "/v",
        "CONDA_PREFIX": "/c",
        "LD_LIBRARY_PATH": "/l",
    }
    dropped = {
        "AWS_SECRET_ACCESS_KEY": "s", "HF_TOKEN": "s", "SSH_AUTH_SOCK": "s", "CUDA_VISIBLE_DEVICES": "0", "CONDA_TOKEN": "s",
        "ANYCARD_HOME": "/a", "LD_PRELOAD": "x", "LANG": "\udcff",
    }  # fmt: skip
    assert resolved("run: x", tmp_path, environ={**kept, **dropped}).spec.environment == kept


# ---- time


@pytest.mark.parametrize(
    ("written", "zone", "expected"),
    [
        ("2026-12-01T08:00", "Asia/Shanghai", datetime(2026, 12, 1, 0, tzinfo=UTC)),
        ("2026-12-01T08:00", "UTC", datetime(2026, 12, 1, 8, tzinfo=UTC)),
        ("2026-12-01T08:00:00Z", "Asia/Shanghai", datetime(2026, 12, 1, 8, tzinfo=UTC)),
        ("2026-12-01T08:00:00+01:00", "", datetime(2026, 12, 1, 7, tzinfo=UTC)),
        ("2026-12-01", "UTC", datetime(2026, 12, 1, tzinfo=UTC)),
    ],
)
def test_not_before(tmp_path: Path, written: str, zone: str, expected: datetime) -> None:
    spec = resolved(f"run: x\nanycard: {{not_before: {written}}}", tmp_path, environ={"TZ": zone}).spec
    assert spec.not_before == expected.timestamp()


def test_a_zone_nobody_knows_is_the_machines(tmp_path: Path) -> None:
    for zone in ("No/Where", "../../etc/passwd", "x\0"):
        spec = resolved("run: x\nanycard: {not_before: 2026-12-01T08:00}", tmp_path, environ={"TZ": zone}).spec
        assert spec.not_before == datetime(2026, 12, 1, 8).astimezone().timestamp()


# ---- options and commands

FULL = (
    "run: x\nname: a\nresources: {accelerators: [A100, T4], cpus: 2, memory: 2x, priority: 3}\n"
    "anycard: {parallel: 2, retry: {times: 1, wait: 5s}}"
)


def test_options_go_before_the_file(tmp_path: Path) -> None:
    options = {
        "cpus": "4",
        "accelerators": "any:2",
        "priority": 9,
        "time_limit": "1m",
        "parallel": 7,
        "retry": 5,
        "name": "b",
        "held": True,
    }
    found = resolved(FULL, tmp_path, options=options)
    spec = found.spec
    assert [(d.card_count, d.card, d.cpus, d.memory_bytes) for d in spec.options] == [
        (2, None, 4.0, 8 * GIB),
        (0, None, 4.0, 8 * GIB),
    ]
    assert (spec.name, spec.priority, spec.time_limit_s, spec.parallel, found.held) == ("b", 9, 60.0, 7, True)
    assert spec.retry == RetryRule(times=5, wait_s=5.0)
    unchanged = resolved(FULL, tmp_path, options={"cpus": None}).spec
    assert (unchanged.name, unchanged.priority, unchanged.parallel, len(unchanged.options)) == ("a", 3, 2, 2)


def test_wrong_options_are_told_as_the_files_faults_are(tmp_path: Path) -> None:
    assert faults("run: x", tmp_path, options={"cpus": "many", "memory": -1, "time_limit": "soon", "paralel": 3}) == [
        "--paralel: paralel is not an option (did you mean parallel?)",
        "--cpus: cpus wants a number of CPUs above zero such as 4, 4+ or 0.5, not many",
        "--memory: memory wants GiB (32, 32+) or a size (16GB, 512MiB) above zero, not -1",
        "--time-limit: time_limit wants a length of time above zero such as 90s, 30m, 1h30m or 2d, not soon",
    ]


def test_from_command(tmp_path: Path) -> None:
    spec = from_command(
        ["/usr/bin/echo", "a b", "$HOME", ""],
        cwd=str(tmp_path),
        environ=E,
        options={"memory": "1"},
        given={"A": "1"},
        umask=0o077,
    ).spec
    assert (spec.name, spec.command, spec.run) == ("echo", ("/usr/bin/echo", "a b", "$HOME", ""), None)
    assert (spec.workdir, spec.envs, spec.umask, spec.cpus_given) == (str(tmp_path.resolve()), {"A": "1"}, 0o077, False)
    assert spec.options[0].memory_bytes == GIB
    assert from_command(["x"], cwd=str(tmp_path), environ=E, name="mine").spec.name == "mine"


@pytest.mark.parametrize("argv", [[], [""], ["a\0b"], ["\udcff"], ["x" * 2_000_000]])
def test_commands_that_cannot_be_run(tmp_path: Path, argv: list[str]) -> None:
    with pytest.raises(JobFileError):
        from_command(argv, cwd=str(tmp_path), environ=E)


# ---- setup


def test_setup_key_follows_content(tmp_path: Path) -> None:
    def key(
        text: str = "run: x\nsetup: pip install $P\nenvs: {P: a, Q: b}", environ: dict[str, str] | None = None
    ) -> str:
        return setup_key(resolved(text, tmp_path, environ={"PATH": "/bin"} if environ is None else environ).spec)

    first = key()
    assert key() == first
    (tmp_path / "data.txt").write_text("other files do not count")
    assert key() == first
    different = {
        first,
        key("run: x\nsetup: pip install $P -U\nenvs: {P: a, Q: b}"),
        key("run: x\nsetup: pip install $P\nenvs: {P: c, Q: b}"),
        key("run: x\nsetup: pip install $P\nenvs: {P: a, Q: b}\nanycard: {environment: torch}"),
        key(environ={"PATH": "/bin", "VIRTUAL_ENV": "/v"}),
    }
    assert len(different) == 5
    assert key("run: y\nsetup: pip install $P\nenvs: {P: a, Q: c}") == first
    for name in ("requirements-dev.txt", "uv.lock"):
        (tmp_path / name).write_text("numpy")
        different.add(key())
    (tmp_path / "uv.lock").write_text("numpy==2")
    different.add(key())
    assert len(different) == 8


def test_setup_key_of_a_cached_environment_does_not_depend_on_where_the_submitter_stood(tmp_path: Path) -> None:
    text = "run: x\nsetup: pip install a\nanycard: {environment: torch}"
    here = resolved(text, tmp_path, environ={"PATH": "/bin"}).spec
    there = resolved(text, tmp_path, environ={"PATH": "/opt", "VIRTUAL_ENV": "/v"}).spec
    assert setup_key(here) == setup_key(there)


# ---- a look comes to an end


def test_a_pipe_is_no_list_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ff")
    os.mkfifo(tmp_path / "requirements.txt")
    assert faults("run: x\nanycard: {foreach: {lines: ff}}", tmp_path) == ["job.yaml:2:28: ff is not a plain file"]
    assert faults("run: x\nanycard: {foreach: {lines: /dev/zero}}", tmp_path) == [
        "job.yaml:2:28: /dev/zero is not a plain file"
    ]
    assert setup_key(resolved("run: x\nsetup: y", tmp_path).spec)


def test_a_look_through_more_files_than_allowed_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").touch()
    monkeypatch.setattr("anycard.jobs.file.foreach.Budget", lambda: Budget(left=20))
    (only,) = faults("run: x\nanycard: {foreach: {files: '**/nowhere'}}", tmp_path)
    assert only.startswith("job.yaml:2:28: **/nowhere leads through more than")


def test_the_jobs_of_a_file_share_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them alone would stay within what is looked at."""
    for number in range(30):
        (tmp_path / f"{number}.txt").touch()
    one = "run: x\nanycard: {foreach: {files: '*.txt'}}\n"
    monkeypatch.setattr("anycard.jobs.checking.Budget", lambda: Budget(left=70))

    def request(jobs: int) -> Request:
        return Request(cwd=str(tmp_path), submit_key="k", file_name="job.yaml", file="---\n".join([one] * jobs))

    assert len(check(request(2)).jobs) == 2
    with pytest.raises(JobFileError) as caught:
        check(request(3))
    assert "leads through more than" in str(caught.value.faults[0])


def test_a_look_ends_with_its_time(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(TooMuchError):
        list(matches("**/nowhere", tmp_path, Budget(until=0.0)))


def test_patterns_find_what_glob_finds(tmp_path: Path) -> None:
    for name in ("a/b/c.txt", "a/.hidden/d.txt", "a/e.txt", ".f.txt", "g[1].txt", "h/i.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    patterns = (
        "*", ".*", "*.txt", "**", "**/*.txt", "**/**/c.*", "a/**", "a/**/c.txt", "*/", "**/", "a/**/", "a/", "./a/e.txt", "a/../h/*",
        "g[[]1].txt", "[gh]*", "*/b/?.txt", "a/.hidden/*", "nowhere", "e.txt/*", "**/b/**", "link/*", "[", str(tmp_path / "**/*.txt"),
    )  # fmt: skip
    for pattern in patterns:
        expected = {
            path
            for path in glob.glob(pattern, root_dir=tmp_path, recursive=True)
            if pattern.endswith("/") or not (tmp_path / path).is_dir()
        }
        assert set(matches(pattern, tmp_path, Budget())) == expected, pattern


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_folder_that_cannot_be_named_is_a_fault(tmp_path: Path, name: str) -> None:
    (job,) = parse("run: x", "job.yaml")
    with pytest.raises(JobFileError, match="cannot be entered"):
        resolve(job, cwd=f"{tmp_path}/{name}", environ=E)
