"""Files that are wrong, and the sentences that say so."""

from __future__ import annotations

import pytest

from anycard.jobs.file.faults import JobFileError
from anycard.jobs.file.nodes import MAX_BYTES
from anycard.jobs.file.parse import parse


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        parse(text, "j")
    return [str(fault) for fault in caught.value.faults]


# What stands under `resources:`, and the one fault it makes (lines and columns of the whole file, where this is line 3).
RESOURCES = {
    "acelerators: A100": "j:3:3: acelerators is not a key of resources (did you mean accelerators?)",
    "accelerators: A100:0.5": (
        "j:3:17: resources.accelerators: A100:0.5 asks for a part of a card; slices are not here yet, ask for whole cards"
    ),
    "accelerators: {A100: 0.5}": (
        "j:3:18: resources.accelerators: A100 asks for a part of a card; slices are not here yet, ask for whole cards"
    ),
    "accelerators: A100:two": "j:3:17: resources.accelerators: a count is a whole number, not two",
    "accelerators: A100:0": "j:3:17: resources.accelerators: a count is from 1 to 1024, not 0 (cpu means none)",
    "accelerators: cpu:4": "j:3:17: resources.accelerators: the CPU is given by cores, write cpus: 4",
    "accelerators: []": "j:3:17: resources.accelerators is empty: write NAME, NAME:COUNT, or leave it out",
    "accelerators: [[A100]]": "j:3:18: resources.accelerators: a list holds NAME or NAME:COUNT, not another list",
    "accelerators: '!!'": (
        "j:3:17: resources.accelerators: !! is no accelerator; write NAME, NAME:COUNT (A100:8), any, cpu, or a card memory (24GB+)"
    ),
    "{accelerators: A100, gpus: A100}": "j:3:24: gpus is another word for accelerators: give one of them",
    "cpus: 0": "j:3:9: resources.cpus wants a number of CPUs above zero such as 4, 4+ or 0.5, not 0",
    "cpus: many": "j:3:9: resources.cpus wants a number of CPUs above zero such as 4, 4+ or 0.5, not many",
    "cpus: [4]": "j:3:9: resources.cpus wants a number of CPUs above zero such as 4, 4+ or 0.5, not [...]",
    "memory: 32 apples": "j:3:11: resources.memory wants GiB (32, 32+) or a size (16GB, 512MiB) above zero, not 32 apples",
    "memory: 0": "j:3:11: resources.memory wants GiB (32, 32+) or a size (16GB, 512MiB) above zero, not 0",
    "use_spot: yes": "j:3:13: resources.use_spot wants true or false, not yes",
    "autostop: soon": "j:3:13: resources.autostop wants a length of time such as 90s, 30m, 1h30m or 2d, not soon",
    "job_recovery: sometimes": (
        "j:3:17: resources.job_recovery is one of none, failover, eager_next_region, eager_failover, not sometimes"
    ),
    "job_recovery: {max_restarts: 3}": (
        "j:3:18: max_restarts is not a key of resources.job_recovery (did you mean max_restarts_on_errors?)"
    ),
    "priority: 5000": "j:3:13: resources.priority wants a whole number from -1000 to 1000, not 5000",
    "any_of: A100": "j:3:11: resources.any_of wants a list of 1 to 100 entries",
    "any_of: []": "j:3:11: resources.any_of wants a list of 1 to 100 entries",
    "any_of: [A100]": "j:3:12: resources.any_of wants a mapping (key: value), not A100",
    "{any_of: [{cpus: 1}], ordered: [{cpus: 2}]}": "j:3:25: any_of and ordered exclude each other",
}


@pytest.mark.parametrize("written", RESOURCES)
def test_resources(written: str) -> None:
    assert faults(f"run: x\nresources:\n  {written}\n") == [RESOURCES[written]]


# The same for `anycard:`.
OWN = {
    "paralel: 4": "j:3:3: paralel is not a key of anycard (did you mean parallel?)",
    "not before: 2026": "j:3:3: not before is not a key of anycard (did you mean not_before?)",
    "parallel: 0": "j:3:13: anycard.parallel wants a whole number from 1 to 1000000, not 0",
    "parallel: 1.5": "j:3:13: anycard.parallel wants a whole number from 1 to 1000000, not 1.5",
    "time_limit: 0s": (
        "j:3:15: anycard.time_limit wants a length of time above zero such as 90s, 30m, 1h30m or 2d, not 0s"
    ),
    "time_limit: 2 fortnights": (
        "j:3:15: anycard.time_limit wants a length of time above zero such as 90s, 30m, 1h30m or 2d, not 2 fortnights"
    ),
    "stop_grace: .inf": "j:3:15: anycard.stop_grace wants a length of time such as 90s, 30m, 1h30m or 2d, not .inf",
    "not_before: tomorrow": (
        "j:3:15: anycard.not_before wants a moment such as 2026-12-01T08:00 or 2026-12-01T08:00:00+01:00, not tomorrow"
    ),
    "retry: {wait: 10s}": "j:3:10: anycard.retry wants times: how often to try again",
    "retry: {times: -1}": "j:3:18: anycard.retry.times wants a whole number from 0 to 1000, not -1",
    "retry: {times: 1, when: [succeeded]}": "j:3:28: An attempt that ended with succeeded is never tried again",
    "retry: {times: 1, when: []}": "j:3:27: anycard.retry.when is empty: leave it out to retry what is retried by default",
    "retry: {times: 1, when: [{exit: 256}]}": "j:3:35: anycard.retry.when.exit wants a whole number from 1 to 255, not 256",
    "release: 10m": "j:3:12: anycard.release wants a mapping (key: value), not 10m",
    "resumable: 1": "j:3:14: anycard.resumable wants true or false, not 1",
    "on_item_error: stopp": "j:3:18: anycard.on_item_error is one of continue, stop, not stopp (did you mean stop?)",
    "environment: ../x": "j:3:16: anycard.environment wants a name of letters, digits, '.', '_' and '-', not ../x",
    "after: [{a: b}]": "j:3:11: anycard.after wants a single value, not {...}",
    "after: ['']": "j:3:11: anycard.after has an empty entry",
    "foreach: {}": "j:3:12: anycard.foreach has exactly one of files, matrix, lines, count",
    "foreach: {count: 1, lines: a}": "j:3:12: anycard.foreach has exactly one of files, matrix, lines, count",
    "foreach: {count: 1000001}": "j:3:20: anycard.foreach.count wants a whole number from 1 to 1000000, not 1000001",
    "foreach: {matrix: {lr: []}}": "j:3:26: anycard.foreach.matrix.lr is empty",
    "foreach: {matrix: {}}": "j:3:21: anycard.foreach.matrix is empty",
    "foreach: {matrix: {a b: 1}}": "j:3:22: anycard.foreach.matrix: a b is no variable name (letters, digits, '_')",
    "foreach: {matrix: {job: 1}}": (
        "j:3:22: anycard.foreach.matrix: ANYCARD_JOB has a meaning of its own, choose another name than job"
    ),
    "foreach: {matrix: {lr: 1, LR: 2}}": "j:3:29: anycard.foreach.matrix: two keys become ANYCARD_LR",
    "foreach: {matrix: {lr: [null]}}": "j:3:27: anycard.foreach.matrix.lr wants single values, not null",
    "foreach: {files: []}": "j:3:20: anycard.foreach.files is empty",
    "model: ''": "j:3:10: anycard.model wants a model: a folder, a .gguf file, or a name",
    "model: {task: infer}": "j:3:10: anycard.model.name wants a model: a folder, a .gguf file, or a name",
    "model: [a]": "j:3:10: anycard.model wants a mapping (key: value), not [...]",
    "model: {name: a, task: lore}": (
        "j:3:26: anycard.model.task is one of infer, lora, qlora, full, train, not lore (did you mean lora?)"
    ),
    "model: {name: a, context: 0}": "j:3:29: anycard.model.context wants a whole number from 1 to 100000000, not 0",
    "model: {name: a, batch: -1}": "j:3:27: anycard.model.batch wants a whole number from 1 to 1000000, not -1",
    "model: {name: a, rank: x}": "j:3:26: anycard.model.rank wants a whole number from 1 to 65536, not x",
    "model: {name: a, quant: q4_k_mm}": (
        "j:3:27: anycard.model.quant: no weight format is called q4_k_mm (did you mean q4_k_m?)"
    ),
    "model: {name: a, too_large: no}": "j:3:31: anycard.model.too_large is one of refuse, warn, not no",
    "model: {name: a, contxt: 5}": "j:3:20: contxt is not a key of anycard.model (did you mean context?)",
}


@pytest.mark.parametrize("written", OWN)
def test_own_keys(written: str) -> None:
    assert faults(f"run: x\nanycard:\n  {written}\n") == [OWN[written]]


def test_an_end_reason_is_suggested() -> None:
    (fault,) = faults("run: x\nanycard: {retry: {times: 1, when: out-of-memmory}}\n")
    assert fault.startswith("j:2:35: anycard.retry.when: out-of-memmory is no end reason; they are program-error, ")
    assert fault.endswith("(did you mean out-of-memory?)")


# Whole files.
FILES: dict[str | bytes, str] = {
    "": "j:1:1: The file is empty: a job needs at least run",
    "# nothing\n---\n---\n": "j:1:1: The file is empty: a job needs at least run",
    "[a, b]": "j:1:1: A job is a mapping (name: ..., run: ...), not [...]",
    "hello": "j:1:1: A job is a mapping (name: ..., run: ...), not hello",
    "name: a": "j:1:1: There is nothing to do: run is missing",
    "name: a\nrun: ' '": "j:2:1: There is nothing to do: run is missing",
    "run: [a]": "j:1:6: run wants a single value, not [...]",
    "run: a\nrun: b": "j:2:1: run was given already in line 1",
    "run: a\nnmae: b": "j:2:1: nmae is not a key of a job file (did you mean name?)",
    "run: a\nforeach: {count: 2}": "j:2:1: foreach is not a key of a job file (did you mean anycard.foreach?)",
    "run: a\naccelerator: A100": "j:2:1: accelerator is not a key of a job file (did you mean resources.accelerators?)",
    "run: a\non: b": (
        "j:2:1: on is not a key of a job file, which has name, workdir, num_nodes, resources, envs, secrets, file_mounts, "
        "setup, run, anycard"
    ),
    "run: a\nname: my job": (
        "j:2:7: my job is no name for a job: 1 to 100 characters without spaces and slashes, no '-' first, and not a number"
    ),
    "run: a\nname: 17": (
        "j:2:7: 17 is no name for a job: 1 to 100 characters without spaces and slashes, no '-' first, and not a number"
    ),
    "run: a\nnum_nodes: 2": "j:2:12: num_nodes is 2, but anycard runs on one machine: only 1 can be had",
    "run: a\nservice: {port: 80}": "j:2:1: Services are not here yet: service cannot be run as a batch job",
    "run: a\nvolumes: {/a: b}": (
        "j:2:1: volumes cannot be attached here: mount the data and name its local path in file_mounts"
    ),
    "run: a\nworkdir: {url: 'https://x'}": (
        "j:2:10: workdir wants a local folder: anycard does not fetch a repository, clone it and name the folder"
    ),
    "run: a\nfile_mounts: {/d: s3://bucket}": (
        "j:2:19: file_mounts: s3://bucket is not on this machine; download or mount it and name its local path"
    ),
    "run: a\nfile_mounts: {/d: {source: s3://bucket, mode: MOUNT}}": (
        "j:2:28: file_mounts: s3://bucket is not on this machine; download or mount it and name its local path"
    ),
    "run: a\nfile_mounts: {/d: {name: new-bucket}}": (
        "j:2:19: file_mounts: /d has no local source, and buckets cannot be made here"
    ),
    "run: a\nfile_mounts: {/: ./data}": "j:2:15: file_mounts wants TARGET: SOURCE, two paths; / cannot be a target",
    "run: a\nenvs: {1A: b}": "j:2:8: envs: 1A is no variable name (letters, digits, '_')",
    "run: a\nenvs: {ANYCARD_JOB: b}": "j:2:8: envs: names that begin with ANYCARD_ are set by anycard, not ANYCARD_JOB",
    "run: a\nenvs: {A: [b]}": "j:2:11: envs.A wants a single value, not [...]",
    "run: a\nenvs: {A: b}\nsecrets: {A: c}": "j:3:11: A is in envs and in secrets",
    "a: [1": "j:1:6: This is not YAML: expected ',' or ']', but got '<stream end>'",
    "run: a\n\tb: c": "j:2:1: A tab stands where YAML wants spaces",
    "run: echo: 1": "j:1:10: A second ': ' in one line (a value that holds ': ' needs quotes), or the line is indented wrongly",
    "run: *x": "j:1:6: There is no anchor of this name (a value that begins with * needs quotes)",
    "run: !!python/object:os.system x": "j:1:6: A tag means nothing in a job file (a value that begins with ! needs quotes)",
    "? [a]\n: b\nrun: c": "j:1:3: A key must be a single word",
    "run: a\nx: &a [*a]": "j:2:4: Aliases unfold to more than 50000 values or 32 levels",
    "run: a\0b": "j:1:7: YAML does not allow the character U+0000 here",
    b"run: a\nname: \xff": "j:2:7: This is not UTF-8: byte 0xff",
    "run: " + "[" * 100: "j:1:37: Nested deeper than 32 levels",
    "%YAML 9.9\n---\nrun: a": "j:1:1: This is not YAML: found incompatible YAML document (version 1.* is required)",
    "x" * (MAX_BYTES + 1): f"j:1:1: A job file has at most {MAX_BYTES} bytes, this one has {MAX_BYTES + 1}",
    "name: p\n---\nrun: a\n---\nname: b": "j:5:1: There is nothing to do: run is missing",
}


@pytest.mark.parametrize("text", FILES, ids=lambda text: repr(text[:40]))
def test_whole_files(text: str | bytes) -> None:
    assert FILES[text] in faults(text)


def test_every_fault_is_said_at_once_and_in_the_order_of_the_file() -> None:
    found = faults(
        "nmae: x\nresources:\n  cpus: -1\n  memory: lots\nanycard:\n  parallel: none\n---\nrun: a\nnum_nodes: 8\n"
    )
    assert [fault.split(" ")[0] for fault in found] == ["j:1:1:", "j:1:1:", "j:3:9:", "j:4:11:", "j:6:13:", "j:9:12:"]


def test_faults_before_a_syntax_error_are_said_with_it() -> None:
    found = faults("run: a\nnum_nodes: 8\n---\nrun: [\n")
    assert [fault.split(" ")[0] for fault in found] == ["j:2:12:", "j:4:7:"]


def test_laughing_aliases_end() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9)]
    text = "run: a\nconfig:\n  l0: &l0 [x, x, x]\n" + "".join(f"  {line}\n" for line in levels)
    assert any("Aliases unfold" in fault for fault in faults(text))


@pytest.mark.parametrize(
    "text",
    [
        "run: a\nsecrets: {TOKEN: [hunter2]}",
        "run: a\nsecrets: hunter2",
        "run: a\nsecrets: {TOKEN: *hunter2}",
        "run: a\nsecrets:\n  TOKEN: hunter2: x",
        "run: a\nsecrets:\n  TOKEN: 'hunter2",
        "run: a\nsecrets:\n  TOKEN: @hunter2",
        "run: a\nsecrets:\n  TOKEN: %hunter2",
        "run: a\nsecrets:\n  TOKEN: !hunter2",
        "run: a\nsecrets:\n  TOKEN: !x!hunter2 a",
        'run: a\nsecrets:\n  TOKEN: "\\hunter2"',
        "run: a\nsecrets:\n  TOKEN: {a: hunter2}",
        "run: a\nenvs: {TOKEN: a}\nsecrets: {TOKEN: hunter2}",
    ],
)
def test_no_fault_shows_a_secret(text: str) -> None:
    with pytest.raises(JobFileError) as caught:
        parse(text, "j")
    assert "hunter2" not in str(caught.value) + repr(caught.value.faults_json())


def test_the_error_is_one_of_usage_and_carries_its_faults() -> None:
    with pytest.raises(JobFileError) as caught:
        parse("run: a\nnmae: b\nenvs: {1: a}", "j")
    error = caught.value
    assert (error.exit_code, error.http_status, error.code) == (2, 400, "job-file")
    assert str(error).startswith("Nothing was submitted: 2 faults. The first: j:2:1: nmae")
    assert error.faults_json()[0] == {
        "file": "j", "line": 2, "column": 1, "value": "nmae", "message": "nmae is not a key of a job file",
        "msgid": "{value} is not a key of a job file", "params": {"value": "nmae"}, "nearest": "name",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place", "character"),
    [
        (r'run: "\ud800"', "1:6", "U+D800"),
        (r'run: "a\0b"', "1:6", "U+0000"),
        ('run: x\nworkdir: "/a\\0b"', "2:10", "U+0000"),
        ('run: x\nanycard: {foreach: {matrix: {a: [1, "b\\0"]}}}', "2:37", "U+0000"),
        ('run: x\nenvs: {A: "\\udfff"}', "2:11", "U+DFFF"),
    ],
)
def test_what_no_program_can_be_given_is_a_fault(text: str, place: str, character: str) -> None:
    assert faults(text) == [f"j:{place}: No value may hold the character {character}"]


@pytest.mark.parametrize("name", ["\u202ereversed", "a\u2066b", "a\u200fb"])
def test_a_name_that_turns_the_line_around_is_refused(name: str) -> None:
    (only,) = faults(f"run: x\nname: {name}")
    assert only.startswith(f"j:2:7: {name} is no name for a job")
    (job,) = parse("run: x", f"{name}.yaml")
    assert job.name == "".join("-" if char > "\u2000" else char for char in name).lstrip("-")


def test_a_job_cannot_wait_for_one_that_comes_later_in_its_file() -> None:
    text = "name: a1\nrun: x\nanycard:\n  after: [a0, {}]\n---\nname: a2\nrun: x\nanycard: {{after: a1}}"
    said = "j:4:15: anycard.after: {} does not come earlier in this file, whose jobs run in order"
    for name in ("a2", "a1"):
        assert faults(text.format(name)) == [said.format(name)]
    assert len(parse(text.format("b"), "j")) == 2
