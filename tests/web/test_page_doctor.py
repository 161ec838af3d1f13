"""The doctor's tab: this machine, a log that is pasted, a file that is dropped, a job that failed; in Chromium and as bytes."""

from __future__ import annotations

import gzip

import pytest

VISION = "RuntimeError: operator torchvision::nms does not exist"
CAUSE = "torch-torchvision-cuda-mismatch"


@pytest.fixture(scope="module")
def failed(cli):
    """A job whose second item failed for a cause that the rules know."""
    run = f"  echo begins; if [ $ANYCARD_ITEM = 1 ]; then echo '{VISION}'; exit 1; fi"
    cli("run", cli.file("f.yaml", f"name: failed\nrun: |\n{run}\nanycard:\n  foreach: {{count: 3}}\n"))
    return cli.json("job", "failed")["id"]


def test_a_pasted_log_gets_cause_proof_mend_and_next_check(tab, cli):
    tab.get_by_role("link", name="Doctor", exact=True).click()
    tab.get_by_label("What a program printed").fill(f"Epoch 1\n{VISION}\n")
    tab.get_by_role("button", name="Find the cause").click()
    finding = tab.locator("#diagnosis article").first
    finding.wait_for()
    assert CAUSE in finding.inner_text()
    assert f"log:2 {VISION}" in finding.locator("pre").inner_text()  # which line it is
    mend = finding.locator("ol li").first
    assert "pip install --force-reinstall torch" in mend.inner_text()
    assert "To be sure:" in finding.inner_text()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    mend.get_by_role("button", name="Copy").click()
    mend.get_by_role("button", name="copied").wait_for()
    assert tab.evaluate("navigator.clipboard.readText()").startswith("pip install --force-reinstall torch")


def test_the_tab_says_how_this_machine_is(tab):
    tab.goto(f"{tab.address}/doctor")
    tab.locator("#host .verdict").wait_for()
    assert "Nothing is broken" in tab.locator("#host").inner_text()
    assert tab.locator("#host li").count() >= 1


def test_a_bundle_of_another_machine_is_chosen(tab, cli, tmp_path):
    bundle = tmp_path / "bundle.tar.gz"
    assert cli("capture", str(bundle)).returncode == 0
    tab.goto(f"{tab.address}/doctor")
    tab.locator("#evidence").set_input_files(str(bundle))
    tab.locator("#diagnosis .verdict").wait_for()
    assert "Nothing is broken" in tab.locator("#diagnosis").inner_text()


def test_a_log_that_is_dropped_is_packed_on_its_way(tab, tmp_path):
    tab.goto(f"{tab.address}/doctor")
    tab.evaluate(
        """(line) => {
            const text = "all is well\\n".repeat(700000) + line + "\\n";
            const given = new DataTransfer();
            given.items.add(new File([text], "long.log"));
            document.getElementById("log").dispatchEvent(new DragEvent("drop", {dataTransfer: given, bubbles: true, cancelable: true}));
        }""",
        VISION,
    )
    tab.locator("#diagnosis article").first.wait_for()
    assert CAUSE in tab.locator("#diagnosis").inner_text()


def test_a_failed_job_leads_to_its_findings(tab, failed):
    tab.goto(f"{tab.address}/jobs/{failed}")
    tab.locator("#why").click()
    tab.wait_for_url("**/doctor/jobs/*")
    assert "item 1" in tab.locator("main").inner_text()
    assert CAUSE in tab.locator("#diagnosis article").first.inner_text()
    tab.get_by_role("link", name="中文").click()
    tab.wait_for_load_state()
    assert "处理" in tab.locator("#diagnosis").inner_text()
    tab.get_by_role("link", name="English").click()


def test_each_failed_item_leads_to_its_own(visitor, failed):
    page = visitor.ask(f"/jobs/{failed}").text
    assert f"/doctor/jobs/{failed}?item=1" in page
    assert CAUSE in visitor.ask(f"/doctor/jobs/{failed}?item=1").text
    assert "nothing is broken" in visitor.ask(f"/doctor/jobs/{failed}?item=0").text


def test_what_stands_in_a_log_is_text(visitor):
    line = f"</pre><script>alert(1)</script>\x1b[31m {VISION}"
    answer = visitor.post("/doctor", log=line)
    assert answer.status == 200
    assert CAUSE in answer.text
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert" in answer.text


@pytest.mark.parametrize("log", ["", "  \n\n"])
def test_nothing_is_said_to_be_nothing(visitor, log):
    answer = visitor.post("/doctor", log=log)
    assert answer.status == 400
    assert "there is nothing in it" in answer.text


def test_files_need_the_form_token(visitor):
    body = {"Content-Type": "application/octet-stream"}
    refused = visitor.ask("/doctor/evidence", {"x": "y"}, body)
    assert refused.status == 403
    taken = visitor.ask("/doctor/evidence", {"log": VISION}, {**body, "X-CSRF-Token": visitor.csrf})
    assert taken.status == 200


def test_broken_files_are_said_to_be(visitor):
    connection = visitor.connect()
    headers = {"Cookie": visitor.cookie, "Origin": visitor.address, "X-CSRF-Token": visitor.csrf}
    connection.request("POST", "/doctor/evidence", gzip.compress(b"x" * 1000)[:20], headers)
    answer = connection.getresponse()
    assert answer.status == 400
    assert "cannot be unpacked" in answer.read().decode()


def test_jobs_that_are_not_there(visitor):
    assert visitor.ask("/doctor/jobs/no-such-job").status == 404
