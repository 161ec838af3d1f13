"""The page in Debian's Chromium, as a person uses it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def seen(tab, condition):
    """Waits until a page's JavaScript expression is true. (Playwright's own way would need eval, which the page's policy forbids.)"""
    for _ in range(200):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(100)
    raise AssertionError(f"never: {condition}")


@pytest.fixture(scope="module")
def digits(cli):
    """The example, where this test may write."""
    folder = cli.folder / "digits"
    shutil.copytree(DIGITS, folder)
    return folder


def test_the_example_from_submit_to_download(tab, cli, digits):
    tab.get_by_role("link", name="New job").click()
    form = tab.locator("form", has=tab.locator("textarea"))
    form.locator("input[type=file]").set_input_files(str(digits / "job.yaml"))
    seen(tab, "document.getElementById('file').value.includes('foreach')")
    form.get_by_label("Folder it runs in").fill(str(digits))
    form.get_by_role("button", name="Submit").click()
    tab.wait_for_url("**/jobs/*")
    job = int(tab.url.rsplit("/", 1)[1])

    # The page follows by itself: nothing is reloaded here.
    tab.locator("#head .s-partly-failed").wait_for(timeout=120_000)
    squares = tab.locator("#items .items a")
    assert squares.count() == 9
    failed = tab.locator("#items a.i-failed")
    seen(tab, "document.querySelectorAll('#items a.i-succeeded').length === 8")
    assert failed.count() == 1
    tab.get_by_role("link", name="Look through the outputs of 8 items").wait_for()
    tab.locator("#shown .s-succeeded, #shown .s-failed").wait_for()
    seen(tab, "document.getElementById('events').textContent.includes('the job ended')")

    failed.click()
    tab.wait_for_url("**item=*")
    tab.get_by_text("bad input", exact=False).first.wait_for()
    seen(tab, "document.getElementById('log').textContent.includes('[anycard] ended')")
    assert "bad input" in tab.locator("#log").inner_text()

    tab.get_by_role("link", name="Look through the outputs").click()
    with tab.expect_download() as loading:
        tab.locator("table a").first.click()
    taken = Path(loading.value.path()).read_bytes()
    kept = [file.read_bytes() for file in (cli.home / "outputs" / str(job)).rglob("*") if file.is_file()]
    assert taken and taken in kept

    tab.goto(f"{tab.address}/jobs/{job}")
    tab.get_by_role("link", name="中文").click()
    tab.wait_for_load_state()
    assert tab.locator("html").get_attribute("lang") == "zh-CN"
    assert tab.url.endswith(f"/jobs/{job}")
    assert "部分失败" in tab.locator("#head").inner_text()
    tab.get_by_role("link", name="English").click()
    tab.wait_for_load_state()
    assert "partly-failed" in tab.locator("#head").inner_text()


def test_a_live_log_is_searched_and_its_errors_are_marked(tab, cli):
    job = cli.submit(
        "run: |\n  for n in $(seq 1 400); do echo \"step $n\"; done\n  echo 'RuntimeError: <b>no</b>'; sleep 2; echo the last line"
    )
    tab.goto(f"{tab.address}/jobs/{job}")
    log = tab.locator("#log")
    seen(tab, "document.getElementById('log').textContent.includes('the last line')")
    assert log.locator("b").count() == 0 and log.locator(".bad").inner_text() == "RuntimeError: <b>no</b>"
    tab.keyboard.press("/")
    tab.keyboard.type("STEP 399")
    log.locator("mark").wait_for()
    assert log.inner_text().strip() == "step 399"
    log.locator("a").click()
    seen(tab, "document.getElementById('log').textContent.includes('step 400')")
    tab.get_by_role("button", name="back to the log").click()
    assert "the last line" in log.inner_text()
    tab.get_by_role("button", name="Errors").click()
    log.locator("mark").first.wait_for()
    assert "RuntimeError" in log.inner_text() and "step" not in log.inner_text()


def test_markup_never_becomes_markup(tab, cli):
    tab.on("dialog", lambda dialog: pytest.fail(dialog.message))
    job = cli.submit(
        "name: '\"><img/src=x/onerror=alert(1)>'\n".replace("/", "\u2215")
        + "run: echo '<img src=x onerror=alert(2)>'; echo '<script>alert(3)</script>' >&2; exit 3\n"
        "anycard: {foreach: {matrix: {v: ['<img src=x onerror=alert(4)>', '</script><script>alert(5)</script>']}}}"
    )
    cli.over(job)
    for path in (
        "/jobs",
        f"/jobs/{job}",
        f"/jobs/{job}?item=1",
        "/jobs?name=<img src=x onerror=alert(6)>",
        "/nothing<script>alert(7)</script>",
    ):
        tab.goto(tab.address + path)
        tab.wait_for_load_state("networkidle") if "/jobs/" not in path else tab.wait_for_timeout(700)
        assert tab.locator("main img").count() == 0
        assert tab.evaluate(
            "[...document.scripts].every(s => s.src.startsWith(location.origin) || s.type === 'application/json')"
        )


def test_cancel_asks_and_says_what_it_ends(tab, cli):
    job = cli.submit("run: sleep 600\nanycard: {foreach: {count: 3}, parallel: 1}")
    tab.goto(f"{tab.address}/jobs/{job}")
    asked = []

    def answer(dialog):
        asked.append(dialog.message)
        dialog.accept() if len(asked) > 1 else dialog.dismiss()

    tab.on("dialog", answer)
    tab.locator("#cancel").click()
    with cli.client() as client:
        assert client.job(job)["state"] in ("queued", "running")
    tab.locator("#cancel").click()
    tab.locator("#head .s-cancelled").wait_for()
    assert cli.over(job)["state"] == "cancelled"
    assert f"job {job}" in asked[0] and len(asked) == 2


def test_a_failed_item_is_retried(tab, cli):
    mark = cli.folder / "mend"
    job = cli.ran(f"run: test -e {mark} || exit 3\nanycard: {{foreach: {{count: 2}}}}")["id"]
    mark.touch()
    tab.goto(f"{tab.address}/jobs/{job}")
    tab.get_by_role("button", name="Retry what failed").click()
    tab.locator("#head .s-succeeded").wait_for()
    assert cli.over(job)["state"] == "succeeded"


def test_all_faults_of_a_form_come_back_with_what_was_typed(tab, cli):
    before = len(cli.json("jobs")["jobs"])
    tab.goto(f"{tab.address}/submit")
    tab.locator("textarea").fill("run: 'true'\nresources: {cpus: many}\nanycard: {paralel: 3}\n")
    tab.locator("form", has=tab.locator("textarea")).get_by_role("button", name="Submit").click()
    told = tab.get_by_role("alert").inner_text()
    assert "paralel" in told and "many" in told
    assert "paralel" in tab.locator("textarea").input_value()
    assert len(cli.json("jobs")["jobs"]) == before


def test_a_command_runs_from_the_page(tab, cli):
    tab.goto(f"{tab.address}/submit")
    tab.get_by_label("A line of shell").fill("echo 6 times 7 is $((6*7))")
    tab.get_by_role("button", name="Start").click()
    tab.wait_for_url("**/jobs/*")
    seen(tab, "document.getElementById('log').textContent.includes('is 42')")


def test_keys_go_where_they_say(tab):
    tab.goto(f"{tab.address}/cards")
    tab.keyboard.press("g")
    tab.keyboard.press("q")
    tab.wait_for_url("**/queue")
    tab.keyboard.press("/")
    tab.wait_for_url("**/jobs?find=1")
    seen(tab, "document.activeElement.id === 'name'")
    tab.keyboard.press("Escape")
    tab.evaluate("document.activeElement.blur()")
    tab.keyboard.press("?")
    assert tab.locator("#keys").is_visible()
    tab.keyboard.press("Escape")
    tab.keyboard.press("Tab")


def test_the_first_tab_stop_skips_the_navigation(tab):
    tab.goto(f"{tab.address}/queue")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    assert tab.evaluate("location.hash") == "#main"


@pytest.mark.parametrize("path", ["/cards", "/queue", "/jobs", "/submit"])
def test_everything_has_a_name_for_a_screen_reader(tab, cli, path):
    cli.ran("run: 'true'")
    tab.goto(tab.address + path)
    tab.wait_for_timeout(500)
    nameless = tab.evaluate("""() => [...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea')]
        .filter(e =>
        !(e.innerText || '').trim() && !e.getAttribute('aria-label') && !e.title && !(e.labels && e.labels.length))
        .map(e => e.outerHTML)""")
    assert nameless == []
    assert tab.locator("h1").count() == 1 and tab.locator("main").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/cards", "/jobs", "/submit", "/jobs/1"])
def test_contrast(tab, cli, theme, path):
    """Every text has at least 4.5:1 on what it stands on (WCAG 2 AA)."""
    cli.ran("run: exit $((ANYCARD_INDEX % 2))\nanycard: {foreach: {count: 2}}")
    tab.goto(f"{tab.address}/look/theme/{theme}?back={path}")
    tab.wait_for_timeout(700)
    weak = tab.evaluate(CONTRAST)
    assert weak == []


CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return { r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1 }; };
  const light = ({ r, g, b }) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > 0.99) return c; }
    return { r: 255, g: 255, b: 255 }; };
  const weak = [];
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility() || e.closest('svg, .vh, .skip, .u-legend, canvas')) continue;
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const generated = getComputedStyle(e, '::after').content;
    if (!own && (generated === 'none' || generated === 'normal')) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push(`${ratio.toFixed(2)} ${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`);
  }
  return weak;
}"""


def test_a_phone_scrolls_only_down(browser, cli, tab):
    cli.ran("run: echo a\nanycard: {foreach: {count: 20}}")
    tab.set_viewport_size({"width": 360, "height": 740})
    for path in ("/cards", "/queue", "/jobs", "/jobs/1", "/submit"):
        tab.goto(tab.address + path)
        tab.wait_for_timeout(400)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 362, path


def test_retry_of_an_item_is_in_reach_on_a_phone(tab, cli):
    job = cli.ran(
        "name: a-batch-whose-name-is-as-long-as-names-of-batches-sometimes-get\nrun: echo RuntimeError; exit 3\n"
        "anycard: {foreach: {matrix: {file: [/data/a/long/folder/of/a/dataset/one.parquet, two], rate: [0.1, 0.01]}}}"
    )["id"]
    for width in (390, 768):
        tab.set_viewport_size({"width": width, "height": 844})
        for path in (
            f"/jobs/{job}",
            f"/jobs/{job}?as=table",
            f"/jobs/{job}/outputs",
            "/jobs",
            "/queue",
            "/doctor",
            "/sizing",
        ):
            tab.goto(tab.address + path)
            tab.wait_for_timeout(400)
            beyond = tab.evaluate("""() => [...document.querySelectorAll('main *')]
                .filter(e => !e.closest('svg, canvas, .vh, table.matrix') && e.getBoundingClientRect().right > innerWidth + 1)
                .map(e => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)""")
            assert beyond == [], path
        tab.goto(f"{tab.address}/jobs/{job}")
        assert tab.locator("#failed button").count() == 4
        tab.locator("#failed button").first.click(trial=True)


def test_a_hidden_page_holds_no_stream(tab, cli):
    tab.goto(f"{tab.address}/queue")
    tab.wait_for_timeout(800)
    opened = []
    tab.on("request", lambda asked: opened.append(asked.url) if "/page/stream" in asked.url else None)
    tab.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    tab.wait_for_timeout(300)
    assert opened == []
    job = cli.submit("name: meanwhile\nrun: sleep 20")
    tab.wait_for_timeout(2500)
    assert "meanwhile" not in tab.locator("#queue").inner_text()
    tab.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    tab.locator("#queue").get_by_text("meanwhile").wait_for()
    assert len(opened) == 1
    cli("cancel", str(job))


def test_thousands_of_items_come_by_pages(tab, cli):
    job = cli.submit("run: 'true'\nanycard: {foreach: {count: 10000}}", options={"held": True})
    tab.goto(f"{tab.address}/jobs/{job}")
    assert tab.locator("#items .items a").count() == 1000
    tab.get_by_role("link", name="next 1000").click()
    tab.wait_for_load_state()
    assert tab.locator("#items .items a").first.get_attribute("data-item") == "1000"
    tab.locator("#as").click()
    tab.wait_for_url("**as=table**")
    rows = tab.locator("#items tbody tr")
    assert rows.count() == 100 and rows.first.locator("a").inner_text() == "0"
    head = tab.get_by_role("columnheader", name="Item").get_by_role("link")
    head.focus()
    # News renew the table under the keyboard's focus, which stays.
    tab.evaluate(
        "new Promise(done => { addEventListener('htmx:afterSettle', done, {once: true}); htmx.trigger('#items', 'news') })"
    )
    assert tab.evaluate("document.activeElement.id") == "items-title-by-item"
    tab.keyboard.press("Enter")
    tab.wait_for_url("**sort=item**")
    assert rows.first.locator("a").inner_text() == "9999"
    assert tab.get_by_role("columnheader", name="Item").get_attribute("aria-sort") == "descending"
    tab.get_by_role("link", name="next 100").click()
    tab.wait_for_url("**cursor=**")
    assert rows.first.locator("a").inner_text() == "9899"
    tab.reload()
    assert rows.first.locator("a").inner_text() == "9899"
    cli("cancel", str(job))


def test_the_list_of_jobs_is_sorted_by_its_address(tab, cli):
    for name in ("zeta", "alpha", "mid"):
        cli.submit(f"name: sort-{name}\nrun: 'true'", options={"held": True})
    tab.goto(f"{tab.address}/jobs?state=held")
    named = "[...document.querySelectorAll('#jobs tbody a')].map(a => a.textContent)"
    assert tab.evaluate(named)[:3] == ["sort-mid", "sort-alpha", "sort-zeta"]
    assert tab.get_by_role("columnheader", name="No.").get_attribute("aria-sort") == "descending"
    tab.get_by_role("columnheader", name="Name").get_by_role("link").click()
    tab.wait_for_url("**sort=name**")
    assert [name for name in tab.evaluate(named) if name.startswith("sort-")] == ["sort-alpha", "sort-mid", "sort-zeta"]
    assert "state=held" in tab.url and tab.locator("#state").input_value() == "held"
    # A filter keeps the order, and so does what comes by itself.
    tab.locator("#name").fill("sort-mid")
    tab.get_by_role("button", name="Show").click()
    tab.wait_for_url("**name=sort-mid**")
    assert "sort=name" in tab.url
    tab.goto(f"{tab.address}/jobs?state=held&sort=name&order=desc")
    late = cli.submit("name: sort-zz\nrun: 'true'", options={"held": True})
    tab.get_by_role("link", name="sort-zz").wait_for()
    assert [name for name in tab.evaluate(named) if name.startswith("sort-")][:2] == ["sort-zz", "sort-zeta"]
    cli("cancel", str(late), "sort-zeta", "sort-alpha", "sort-mid")
    tab.goto(f"{tab.address}/jobs?sort=nothing")
    assert "sorted by nothing" in tab.locator("main").inner_text()


def test_a_page_whose_session_ended_says_so(tab, cli):
    tab.goto(f"{tab.address}/queue")
    tab.context.clear_cookies()
    tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    tab.get_by_text("Your session is over").wait_for()
    # A part of the page that was being refreshed meanwhile is refused too, and htmx says so on the console.
    tab.wrong[:] = [said for said in tab.wrong if "Response Status Error Code 401" not in said]
