"""Files that are right, and what is understood of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from anycard.jobs.file import own_keys, resources
from anycard.jobs.file import parse as parsing
from anycard.jobs.file.allowed import ALLOWED_PREFIXES
from anycard.jobs.file.foreach import Count, Files, Lines, Matrix
from anycard.jobs.file.parse import ParsedJob, parse
from anycard.jobs.file.resources import Ask
from anycard.jobs.spec import ModelAsk, RetryRule
from anycard.model.demand import Demand
from anycard.units import GIB


def one(text: str) -> ParsedJob:
    (job,) = parse(text, "job.yaml")
    return job


def demands(written: str) -> tuple[Demand, ...]:
    return one(f"run: x\nresources:\n  {written}\n").resources.demands(Ask())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("accelerators: A100", [(1, "A100")]),
        ("accelerators: A100:8", [(8, "A100")]),
        ("accelerators: 'A100: 8'", [(8, "A100")]),
        ("accelerators: {A100: 1}", [(1, "A100")]),
        ("accelerators: {A100: 2.0}", [(2, "A100")]),
        ("accelerators: A100-80GB:4", [(4, "A100-80GB")]),
        ("accelerators: RTX 4090", [(1, "RTX 4090")]),
        ("accelerators: nvidia", [(1, "nvidia")]),
        ("accelerators: [H100:1, A100:2]", [(1, "H100"), (2, "A100")]),
        ("accelerators: {V100: 1, A100: 1}", [(1, "V100"), (1, "A100")]),
        ("accelerators: {V100:1, A100:2}", [(1, "V100"), (2, "A100")]),
        ("accelerators: {'V100:1', 'A100'}", [(1, "V100"), (1, "A100")]),
        ("accelerators: any", [(1, None), (0, None)]),
        ("accelerators: any:2", [(2, None), (0, None)]),
        ("accelerators: [any, A100:4]", [(1, None), (4, "A100"), (0, None)]),
        ("accelerators: cpu", [(0, None)]),
        ("accelerators: null", [(0, None)]),
        ("accelerators: [T4, cpu]", [(1, "T4"), (0, None)]),
        ("gpus: T4:2", [(2, "T4")]),
        ("cpus: 2", [(0, None)]),
    ],
)
def test_accelerators(written: str, expected: list[tuple[int, str | None]]) -> None:
    assert [(demand.card_count, demand.card) for demand in demands(written)] == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("24GB+", (1, None, 24 * 10**9)),
        ("24GB", (1, None, 24 * 10**9)),
        ("nvidia:80GB+:2", (2, "nvidia", 80 * 10**9)),
        ("16GiB:4", (4, None, 16 * GIB)),
    ],
)
def test_accelerators_by_card_memory(written: str, expected: tuple[int, str | None, int]) -> None:
    (demand,) = demands(f"accelerators: {written}")
    assert (demand.card_count, demand.card, demand.card_memory_bytes) == expected


@pytest.mark.parametrize(("written", "cpus"), [("4", 4.0), ("4+", 4.0), ('"0.5"', 0.5), ("0.25", 0.25), ("1.5+", 1.5)])
def test_cpus(written: str, cpus: float) -> None:
    assert demands(f"cpus: {written}") == (Demand(cpus=cpus),)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("32", 32 * GIB),
        ("32+", 32 * GIB),
        ("0.5", GIB // 2),
        ("16GB", 16 * 10**9),
        ("512MiB+", GIB // 2),
        ("2x", 8 * GIB),
    ],
)
def test_memory(written: str, size: int) -> None:
    assert demands(f"cpus: 4\n  memory: {written}") == (Demand(cpus=4.0, memory_bytes=size),)


def test_no_resources_is_one_cpu_and_unreserved_memory() -> None:
    job = one("run: x")
    assert job.resources.demands(Ask()) == (Demand(cpus=1.0, memory_bytes=None, card_count=0),)
    assert not job.resources.cpus_given(Ask())


@pytest.mark.parametrize("key", ["any_of", "ordered"])
def test_alternatives_are_laid_over_the_base(key: str) -> None:
    found = demands(
        f"memory: 8\n  cpus: 2\n  accelerators: T4\n  {key}: [{{accelerators: A100:2}}, {{cpus: 4}}, {{accelerators: cpu, cpus: 16}}]"
    )
    assert [(d.card_count, d.card, d.cpus, d.memory_bytes) for d in found] == [
        (2, "A100", 2.0, 8 * GIB),
        (1, "T4", 4.0, 8 * GIB),
        (0, None, 16.0, 8 * GIB),
    ]


def test_the_cpu_that_any_falls_back_to_comes_after_every_other_alternative() -> None:
    found = demands("any_of: [{accelerators: any, cpus: 2}, {accelerators: A100:2}]")
    assert [(d.card_count, d.card) for d in found] == [(1, None), (2, "A100"), (0, None)]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("true", 300.0),
        ("false", None),
        ("10", 600.0),
        ("1h", 3600.0),
        ("{idle_minutes: 5, down: true}", 300.0),
        ("{idle_minutes: 0}", None),
        ("{down: true}", 300.0),
    ],
)
def test_autostop(written: str, seconds: float | None) -> None:
    assert one(f"run: x\nresources: {{autostop: {written}}}").resources.idle_s == seconds


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("none", RetryRule()),
        ("FAILOVER", RetryRule()),
        ("{strategy: EAGER_NEXT_REGION, max_restarts_on_errors: 3}", RetryRule(times=3)),
        ("{max_restarts_on_errors: 3, recover_on_exit_codes: [33]}", RetryRule(times=3)),
        ("{recover_on_exit_codes: 33}", RetryRule(times=10, when_reasons=(), when_exit_codes=(33,))),
    ],
)
def test_job_recovery(written: str, rule: RetryRule) -> None:
    assert one(f"run: x\nresources: {{job_recovery: {written}}}").resources.retry == rule


def test_recovery_without_end_is_bounded_and_says_so() -> None:
    job = one("run: x\nresources: {job_recovery: {recover_on_exit_codes: [33, 34]}}")
    assert [str(text) for text in job.warnings] == [
        "recover_on_exit_codes recovers without end in SkyPilot; here at most 10 times"
    ]


def test_use_spot_counts_when_every_alternative_has_it() -> None:
    assert one("run: x\nresources: {use_spot: true}").resources.preemptible
    assert not one("run: x\nresources: {any_of: [{use_spot: true}, {cpus: 2}]}").resources.preemptible
    assert not one("run: x").resources.preemptible


def test_keys_of_clouds_are_ignored_and_listed() -> None:
    job = one(
        "run: x\nconfig: {docker: {run_options: [a]}}\nresources:\n  infra: aws/us-east-1\n  disk_size: 100\n  ports: [80, 90-99]\n"
        "  image_id: docker:ubuntu\n  labels: {a: b}\n"
        "  autostop: {idle_minutes: 1, hook: ls}\n  any_of: [{region: x}, {region: y, priority: 1}]\n"
    )
    assert job.ignored == (
        "config",
        "resources.infra",
        "resources.disk_size",
        "resources.ports",
        "resources.image_id",
        "resources.labels",
        "resources.any_of.region",
        "resources.any_of.priority",
        "resources.autostop.hook",
    )


def test_on_stays_a_word_and_numbers_stay_as_written() -> None:
    job = one("run: x\nenvs: {A: on, B: 1e-3, C: 007, D: true, E: '', F: 1:20, G: 2026-12-01}")
    assert {variable.name: variable.value for variable in job.envs} == {
        "A": "on", "B": "1e-3", "C": "007", "D": "true", "E": "", "F": "1:20", "G": "2026-12-01",
    }  # fmt: skip


def test_null_must_be_given_and_secrets_hide_themselves() -> None:
    job = one("run: x\nenvs: {A: null, B: ~, C: 'null'}\nsecrets: {TOKEN: hunter2, OTHER: null}")
    assert [variable.value for variable in job.envs] == [None, None, "null"]
    assert "hunter2" not in repr(job)
    listed = one("run: x\nsecrets: [TOKEN, OTHER]")
    assert [(variable.name, variable.value) for variable in listed.secrets] == [("TOKEN", None), ("OTHER", None)]


def test_own_keys() -> None:
    own = one(
        "run: x\nanycard:\n  parallel: 4\n  priority: -5\n  after: [prepare, 17]\n  not_before: 2026-12-01T08:00:00+01:00\n"
        "  time_limit: 1h30m\n"
        "  stop_grace: 0\n  retry: {times: 2, wait: 10s, when: [out-of-memory, card-lost, {exit: [33, 34]}, {exit: 35}]}\n"
        "  release: {idle: 10m, max: 8h}\n  resumable: true\n  copy_workdir: true\n  on_item_error: stop\n  environment: torch-2\n"
    ).own
    assert (own.parallel, own.priority, tuple(own.after), own.time_limit_s, own.stop_grace_s) == (
        4,
        -5,
        ("prepare", "17"),
        5400.0,
        0.0,
    )
    assert own.not_before == datetime(2026, 12, 1, 8, tzinfo=timezone(timedelta(hours=1)))
    assert own.not_before.astimezone(UTC).hour == 7
    assert own.retry == RetryRule(
        times=2, wait_s=10.0, when_reasons=("out-of-memory", "card-lost"), when_exit_codes=(33, 34, 35)
    )
    assert (own.idle_s, own.max_s, own.environment) == (600.0, 28800.0, "torch-2")
    assert own.resumable and own.copy_workdir and own.stop_on_item_error


def test_short_forms() -> None:
    own = one("run: x\nanycard: {after: prepare, retry: 3}").own
    assert (tuple(own.after), own.retry) == (("prepare",), RetryRule(times=3))


def test_a_model_by_name_and_in_full() -> None:
    assert one("run: x\nanycard: {model: Qwen3-8B}").own.model == ModelAsk(name="Qwen3-8B")
    written = (
        "{name: m.gguf, task: qlora, context: 2048, batch: 4, quant: Q4_K_M, server: vllm, cache: q8_0, rank: 8, "
        "checkpointing: false, too_large: warn}"
    )
    assert one(f"run: x\nanycard: {{model: {written}}}").own.model == ModelAsk(
        name="m.gguf",
        task="qlora",
        context=2048,
        batch=4,
        quant="q4_k_m",
        server="vllm",
        cache="q8_0",
        rank=8,
        checkpointing=False,
        too_large="warn",
    )


def test_foreach_kinds() -> None:
    def kind(written: str) -> object:
        return one(f"run: x\nanycard: {{foreach: {written}}}").own.foreach

    files, lines, matrix, count = (
        kind("{files: [a/*.csv, 'b c/**']}"),
        kind("{lines: list.txt}"),
        kind("{matrix: {lr: [1e-3, 1e-4], seed: 1}}"),
        kind("{count: 100}"),
    )
    assert isinstance(files, Files) and [pattern for _, pattern in files.patterns] == ["a/*.csv", "b c/**"]
    assert isinstance(lines, Lines) and lines.path == "list.txt"
    assert isinstance(matrix, Matrix) and matrix.axes == (("lr", ("1e-3", "1e-4")), ("seed", ("1",)))
    assert isinstance(count, Count) and count.count == 100


def test_pipeline() -> None:
    jobs = parse("name: nightly\n---\nrun: a\n---\nname: train\nrun: b\n---\n", "job.yaml")
    assert [(job.name, job.pipeline, job.follows, job.run) for job in jobs] == [
        ("nightly-1", "nightly", False, "a"),
        ("train", "nightly", True, "b"),
    ]


def test_pipeline_without_a_name_is_called_after_its_file() -> None:
    jobs = parse("run: a\n---\nrun: b\n", "folder/my jobs.yaml")
    assert [(job.name, job.pipeline, job.follows) for job in jobs] == [
        ("my-jobs-1", "my-jobs", False),
        ("my-jobs-2", "my-jobs", True),
    ]


@pytest.mark.parametrize(
    ("file_name", "name"), [("a/train.yaml", "train"), ("17.yaml", "job-17"), ("", "job"), ("--x.yaml", "x")]
)
def test_name_out_of_the_file_name(file_name: str, name: str) -> None:
    assert parse("run: a", file_name)[0].name == name


def test_anchors_and_merge_keys() -> None:
    text = "run: x\nresources:\n  any_of:\n    - &base {accelerators: A100:1, cpus: 4}\n    - {<<: *base, accelerators: T4:1}\n"
    assert [(d.card, d.cpus) for d in one(text).resources.demands(Ask())] == [("A100", 4.0), ("T4", 4.0)]


def test_a_yaml_directive_and_an_end_mark() -> None:
    assert one("%YAML 1.2\n---\nname: a\nrun: b\n...\n").name == "a"


def test_byte_order_mark_and_windows_line_ends() -> None:
    job = parse(b"\xef\xbb\xbfname: a\r\nrun: |\r\n  echo 1\r\n  echo 2\r\n", "job.yaml")[0]
    assert (job.name, job.run) == ("a", "echo 1\necho 2\n")


def test_every_example_of_the_page_is_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "job-file.md").read_text()
    examples = [block.split("```")[0] for block in page.split("```yaml\n")[1:]]
    assert len(examples) == 4
    jobs = [parse(example, "job.yaml") for example in examples]
    assert [[job.name for job in found] for found in jobs] == [["train"], ["job"], ["job"], ["prepare", "train"]]


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "job-file.md").read_text()
    keys = [
        *parsing.KEYS,
        *parsing.IGNORED,
        *parsing.REFUSED,
        *resources.KEYS,
        *resources.IGNORED,
        *own_keys.KEYS,
        *ALLOWED_PREFIXES,
    ]
    missing = [key for key in keys if not key.startswith("_") and key not in page]
    assert missing == []
