"""/metrics: its names and values, who may have them, and a real Prometheus that scrapes them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from called import until
from prometheus_client.parser import text_string_to_metric_families


def asked(url: str, token: str | None) -> tuple[int, str, str]:
    request = urllib.request.Request(f"{url}/metrics")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["Content-Type"], refused.read().decode()


@pytest.fixture
def reached(one_card) -> tuple[str, str]:
    """The address and the token of the daemon, which now listens on loopback, too."""
    one_card("down")
    told = one_card.json("up", "-d", "--port", "0")
    return told["url"], told["token"]


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_told(one_card, reached):
    url, token = reached
    card = f"nvidia:{one_card.uuid}"
    one_card.describe(
        "utilisation = 42\nmemory_used = 1073741824\ntemperature = 61\npower = 250000\nfan = 30\nthrottle = 0x4"
    )
    job = one_card.submit("name: held\nresources: {accelerators: 1}\nrun: sleep 600\n")
    for _ in range(3):
        one_card.submit("resources: {accelerators: 1}\nrun: 'true'\nanycard: {foreach: {count: 5}}\n")
    of = (("card", card),)

    def now():
        return values(asked(url, token)[2])

    told = until(lambda: (found := now()).get(("anycard_card_utilisation_ratio", of)) == 0.42 and found)
    told = until(lambda: (found := now()).get(("anycard_card_held", of)) == 1 and found)
    assert told["anycard_card_temperature_celsius", of] == 61
    assert told["anycard_card_memory_total_bytes", of] == 85899345920
    assert told["anycard_card_throttled", (("card", card), ("reason", "power-cap"))] == 1
    assert told["anycard_card_throttled", (("card", card), ("reason", "hardware-thermal"))] == 0
    assert told["anycard_card_health", (("card", card), ("health", "ok"))] == 1
    assert told["anycard_card_free", of] == 0
    assert told["anycard_queue_jobs", ()] == 3
    assert told["anycard_queue_items", ()] == 15
    assert told["anycard_jobs", (("state", "running"),)] == 1
    assert told["anycard_attempts_running", ()] == 1
    assert told["anycard_starts_paused", ()] == 0
    assert told["process_resident_memory_bytes", ()] > 1e7
    assert any(name == "anycard_card_info" and ("model", "NVIDIA A100-SXM4-80GB") in labels for name, labels in told)
    one_card.describe("fault = lost")
    told = until(lambda: (found := now()).get(("anycard_card_health", (*of, ("health", "lost")))) == 1 and found)
    until(lambda: ("anycard_card_temperature_celsius", of) not in now())  # not seen: no sample, no zero
    one_card("cancel", str(job))


def test_who_may_have_it(one_card, reached):
    url, token = reached
    for wrong in (None, "", "wrong"):
        status, kind, body = asked(url, wrong)
        assert (status, kind) == (403, "application/json")
        assert "anycard_card" not in body
    status, kind, _ = asked(url, token)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")


def test_the_conventions_hold(one_card, reached):
    """promtool is Prometheus' own critic of names, units and help texts."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    text = asked(*reached)[2]
    told = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stdout + told.stderr) == (0, "")


@pytest.fixture
def prometheus(tmp_path: Path, reached: tuple[str, str]) -> Iterator[str]:
    """A real Prometheus that scrapes the daemon, by the configuration that docs/metrics.md shows; its address."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    url, token = reached
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    shown = page.partition("<!-- file: prometheus.yml -->\n```yaml\n")[2].partition("```")[0]
    assert "/etc/prometheus/anycard.token" in shown
    secret = tmp_path / "anycard.token"
    secret.write_text(token)
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(
        shown.replace("/etc/prometheus/anycard.token", str(secret))
        .replace("127.0.0.1:8470", url.removeprefix("http://"))
        .replace("scrape_interval: 15s", "scrape_interval: 1s")
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (tmp_path / "prometheus.log").open("wb") as log:
        running = subprocess.Popen(
            [program, f"--config.file={configuration}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
             f"--web.listen-address={address}"], stdout=log, stderr=log, env={**os.environ, "no_proxy": "*"},
        )  # fmt: skip
    yield f"http://{address}"
    running.terminate()
    running.wait(timeout=60)


def test_a_real_prometheus_scrapes_it(one_card, prometheus):
    one_card.describe("utilisation = 77")

    def query(expression: str):
        try:
            with urllib.request.urlopen(f"{prometheus}/api/v1/query?query={quote(expression)}", timeout=30) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.URLError:
            return []

    seen = until(lambda: [one for one in query("anycard_card_utilisation_ratio") if one["value"][1] == "0.77"])
    assert seen[0]["metric"]["card"] == f"nvidia:{one_card.uuid}"
    assert query("up")[0]["value"][1] == "1"
    named = query("anycard_card_utilisation_ratio * on (instance, card) group_left (model) anycard_card_info")
    assert {one["metric"]["model"] for one in named} >= {"NVIDIA A100-SXM4-80GB"}
