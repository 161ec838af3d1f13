"""This machine: the stand-in NVML with live faults, packages as they are installed, bundles, and the command line's exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from nvml_standin import EIGHT_CARDS

from anycard.doctor.live import examine
from anycard.host.live import LiveHost

XID = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"


def _doctor(*arguments, env=None, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", "anycard.cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        input=stdin,
        env={**os.environ, **(env or {})},
        timeout=60,
    )


def _install(folder, name, version, files):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


CPU_BUILD = "__version__ = '2.13.0'\ncuda: Optional[str] = None\nhip: Optional[str] = None\nxpu: Optional[str] = None\n"


def test_a_cpu_build_of_torch_beside_eight_cards(nvml, tmp_path):
    nvml.describe(EIGHT_CARDS)
    site = tmp_path / "site"
    _install(site, "torch", "2.13.0", {"torch/version.py": CPU_BUILD})
    done = _doctor("--json", env={**nvml.env, "PYTHONPATH": str(site)})
    seen = json.loads(done.stdout)
    assert len([card for card in seen["cards"] if card["accelerator"]]) == 8
    assert seen["findings"][0]["cause"] == "torch-cpu-only-build"
    assert done.returncode == 1


def test_torchvision_of_another_build_is_named(nvml, tmp_path):
    site = tmp_path / "site"
    _install(site, "torch", "2.13.0+cpu", {"torch/version.py": CPU_BUILD})
    _install(site, "torchvision", "0.28.0+cu130", {})
    seen = json.loads(_doctor("--json", env={**nvml.env, "PYTHONPATH": str(site)}).stdout)
    assert seen["findings"][0]["cause"] == "torch-torchvision-cuda-mismatch"


def test_a_cpu_build_is_right_where_there_is_no_card(tmp_path):
    site = tmp_path / "site"
    _install(site, "torch", "2.13.0+cpu", {"torch/version.py": CPU_BUILD})
    done = _doctor("--json", env={"PYTHONPATH": str(site)})
    assert json.loads(done.stdout)["verdict"] == "healthy"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("description", "cause"),
    [
        ("init = version_mismatch\n", "driver-library-mismatch"),
        ("init = operating_system\n", "gpu-pv-driver-files-incomplete"),
        ("[card]\n[card]\nfault = lost\n", "gpu-fallen-off-bus"),
    ],
)
def test_live_faults(nvml, description, cause):
    nvml.describe(description)
    seen = examine(LiveHost())
    assert cause in [finding.cause for finding in seen.diagnosis.findings]


def test_one_sick_card_does_not_hide_the_others(nvml):
    nvml.describe("[card]\n[card]\nfault = lost\n[card]\n")
    seen = examine(LiveHost())
    health = [str(card.health) for card in seen.inventory.cards if card.is_accelerator]
    assert sorted(health) == ["lost", "ok", "ok"]


def test_a_log_from_standard_input():
    done = _doctor("--from", "-", "--json", stdin=XID)
    assert json.loads(done.stdout)["findings"][0]["cause"] == "gpu-fallen-off-bus"
    assert done.returncode == 1


def test_exit_codes_and_no_traceback(tmp_path):
    healthy = tmp_path / "healthy.log"
    healthy.write_text("groups: cannot find name for group ID 109\n")
    empty = tmp_path / "empty.log"
    empty.write_text("")
    assert _doctor("--from", str(healthy)).returncode == 0
    assert _doctor("--from", str(empty)).returncode == 3
    missing = _doctor("--from", str(tmp_path / "nothing"))
    assert missing.returncode == 3
    assert "Traceback" not in missing.stderr


def test_json_has_the_shape_that_scorers_read(tmp_path):
    log = tmp_path / "log"
    log.write_text(XID)
    seen = json.loads(_doctor("--from", str(log), "--json").stdout)
    assert seen["schema"] == "anycard.doctor/1"
    assert seen["verdict"] == "fault"
    finding = seen["findings"][0]
    assert 0 <= finding["certainty"] <= 1
    assert finding["evidence"] == [XID.strip()]
    assert all(isinstance(step, str) for step in finding["mend"])


def test_a_captured_bundle_is_examined_as_a_machine(tmp_path):
    bundle = tmp_path / "b.tar.gz"
    captured = subprocess.run(
        [sys.executable, "-m", "anycard.cli", "capture", str(bundle)], capture_output=True, check=False, timeout=120
    )
    assert captured.returncode == 0
    done = _doctor("--from", str(bundle), "--json")
    assert json.loads(done.stdout)["verdict"] == "healthy"


def test_explain_names_what_it_looks_for():
    done = _doctor("--explain", "nouveau-owns-device")
    assert done.returncode == 0
    assert "Kernel driver in use: nouveau" in done.stdout
    unknown = _doctor("--explain", "nouveau-own-device")
    assert unknown.returncode == 3
    assert "nouveau-owns-device" in unknown.stderr
