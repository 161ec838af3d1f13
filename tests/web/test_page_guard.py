"""Who is let in, and what no stranger's page can make a visitor's browser do."""

from __future__ import annotations

import http.client
import re
import stat
from pathlib import Path
from urllib.parse import quote

import pytest
from called import until
from visitor import Visitor

import anycard.web

PAGES = ("/", "/cards", "/cards/now", "/cards/readings", "/queue", "/jobs", "/jobs/1", "/jobs/1/log/0", "/jobs/1/outputs",
         "/submit", "/page/stream?topics=queue", "/page/session", "/nothing")  # fmt: skip


@pytest.fixture(scope="module")
def stranger(cli):
    return Visitor(cli)


@pytest.fixture(scope="module")
def job(cli):
    return cli.ran('run: echo secret-words; echo out > "$ANYCARD_OUTPUT_DIR/x"')["id"]


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_shown_without_a_session(stranger, job, path):
    answer = stranger.ask(path)
    assert answer.status == 401
    assert "anycard up -d" in answer.text and "secret-words" not in answer.text


@pytest.mark.parametrize("path", ["/submit", "/jobs/1/cancel", "/jobs/1/retry", "/logout", "/login"])
def test_nothing_is_done_without_a_session(stranger, path):
    assert stranger.ask(path, {"csrf": "x"}).status in (401, 403, 405)


def test_a_login_link_works_once(cli, stranger):
    code = stranger.link.partition("code=")[2]
    path = f"/login?code={code}"
    first = stranger.ask(path)
    cookie = first.headers["Set-Cookie"]
    assert first.status == 200 and "HttpOnly" in cookie and "SameSite=strict" in cookie
    again = stranger.ask(path)
    assert again.status == 403 and "Set-Cookie" not in again.headers
    assert stranger.ask(f"/login?code={code[:-1]}x").status == 403
    assert stranger.ask("/login?code=").status == 403


def test_only_hashes_of_sessions_are_kept(cli, visitor):
    kept = cli.home / "page-sessions"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    secret = visitor.cookie.partition("=")[2]
    assert secret not in kept.read_text() and secret not in (cli.home / "daemon.log").read_text()


@pytest.mark.parametrize("cookie", ["", "x", "anycard=x", "{name}=", "{name}=wrong", "{name}=\x80\xff", "{name}=%00"])
def test_a_wrong_cookie_is_none(visitor, cookie):
    name = visitor.cookie.partition("=")[0]
    assert visitor.ask("/cards", headers={"Cookie": cookie.format(name=name)}).status == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7411", "127.0.0.1.evil.example", "[::ffff:1.2.3.4]", "localhost@evil", ""]
)
def test_a_foreign_name_is_refused(visitor, host):
    """DNS rebinding: the browser of a logged-in visitor asks us under the name of somebody else's page."""
    answer = visitor.ask("/cards", headers={"Host": host or "."})
    assert answer.status == 403 and "MODEL" not in answer.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost.evil", "http://[", ""]
)
def test_a_form_of_another_origin_does_nothing(cli, visitor, origin):
    before = cli.json("jobs")["jobs"]
    headers = {"Origin": origin} if origin else {"Origin": ""}
    answer = visitor.ask("/submit", {"csrf": visitor.csrf, "kind": "command", "command": "true"}, headers=headers)
    assert answer.status == 403
    assert cli.json("jobs")["jobs"] == before


@pytest.mark.parametrize("csrf", [None, "", "wrong", "\u20ac"])
def test_a_form_without_its_token_does_nothing(cli, visitor, csrf):
    before = cli.json("jobs")["jobs"]
    form = {"kind": "command", "command": "true", "submit_key": "k" * 20} | ({} if csrf is None else {"csrf": csrf})
    assert visitor.ask("/submit", form).status == 403
    assert visitor.ask("/submit", form, headers={"X-CSRF-Token": "wrong"}).status == 403
    assert cli.json("jobs")["jobs"] == before


def test_the_token_of_another_session_does_nothing(cli, visitor):
    other = Visitor(cli)
    other.log_in()
    assert other.csrf != visitor.csrf
    assert visitor.ask("/logout", {"csrf": other.csrf}).status == 403
    assert visitor.ask("/page/session").status == 204


def test_log_out_ends_the_session_for_good(cli):
    leaving = Visitor(cli)
    leaving.log_in()
    assert leaving.post("/logout").status == 303
    assert leaving.ask("/cards").status == 401


def test_a_session_outlives_the_daemon(cli, visitor):
    assert cli("down").returncode == 0
    assert cli("up", "-d").returncode == 0
    assert visitor.ask("/page/session").status == 204  # at the same port, too


def test_the_cookie_is_no_key_to_the_api(visitor):
    for path in ("/v1/jobs", "/v1/status", "/v1/cards"):
        answer = visitor.ask(path)
        assert answer.status == 403 and "token" in answer.json["error"]["message"]
    assert visitor.ask("/v1/page-link", {}).status == 403


@pytest.mark.parametrize("path", ["/cards", "/jobs", "/assets/app.js", "/nothing", "/login"])
def test_every_answer_carries_the_policy(visitor, path):
    headers = visitor.ask(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/cards", "/queue", "/jobs", "/jobs/1", "/submit"])
def test_pages_need_nothing_that_the_policy_blocks(visitor, job, path):
    text = visitor.ask(path).text
    assert not re.search(r'\son[a-z]+\s*=\s*"', text) and " style=" not in text and "<style" not in text
    for attributes in re.findall(r"<script([^>]*)>", text):
        assert 'src="/assets/' in attributes or 'type="application/json"' in attributes
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)


@pytest.mark.parametrize(
    "back", ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "javascript:x", ""]
)
def test_the_way_back_stays_here(visitor, back):
    answer = visitor.ask(f"/look/language/zh?back={quote(back)}")
    assert answer.status == 303
    assert re.match(r"/(?![/\\\t])", answer.headers["Location"])


def test_the_api_of_the_daemon_is_not_on_the_page(visitor):
    assert visitor.ask("/openapi.json").status == 404
    assert visitor.ask("/docs").status == 404


def test_assets_are_kept_by_the_browser_and_nothing_else_is_served(visitor):
    assert "immutable" in visitor.ask("/assets/app.js").headers["Cache-Control"]
    assert visitor.ask("/cards").headers["Cache-Control"] == "no-store"
    for path in ("/assets/../guard.py", "/assets/%2e%2e/guard.py", "/assets/..%2fguard.py", "/assets//etc/passwd"):
        assert visitor.ask(path).status == 404


def test_odd_addresses_are_pages_that_say_so(visitor):
    for path in (
        "/jobs/%00",
        "/jobs/" + "9" * 400,
        "/jobs/1/log/x",
        "/queue?after=x",
        "/jobs?cursor=x",
        "/jobs?state=zz",
        "/jobs/1/events?after=-1",
        "/jobs/1/events?after=" + "9" * 20,
        "/%ff%fe",
    ):
        answer = visitor.ask(path)
        assert 400 <= answer.status < 500 and "<h1>" in answer.text, path


def test_a_form_that_never_ends_is_cut(visitor):
    connection = http.client.HTTPConnection(visitor.netloc, timeout=60)
    connection.putrequest("POST", "/submit")
    for name, value in {"Cookie": visitor.cookie, "Origin": visitor.address, "Content-Type": "application/x-www-form-urlencoded",
                        "Content-Length": str(2**40)}.items():  # fmt: skip
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status in (403, 413)
    connection.close()


def test_sessions_are_dropped_when_their_file_is_spoilt(fresh):
    assert fresh("up", "-d").returncode == 0
    visitor = Visitor(fresh)
    visitor.log_in()
    fresh("down")
    (fresh.home / "page-sessions").write_text("{broken")
    fresh("up", "-d")
    assert visitor.ask("/cards").status == 401
    again = Visitor(fresh)
    until(lambda: again.link)
    again.log_in()
    assert again.ask("/cards").status == 200


def test_what_a_page_loads_stays_small():
    """Under 300 KB in all, licences of what is not ours beside it."""
    assets = Path(anycard.web.__file__).parent / "assets"
    assert sum(file.stat().st_size for file in assets.iterdir()) < 300_000
    licences = (assets / "LICENSES.txt").read_text()
    assert all(name in licences for name in ("htmx.min.js", "uplot.min.js", "uplot.min.css"))
    assert {file.name for file in assets.glob("*.min.*")} == {"htmx.min.js", "uplot.min.js", "uplot.min.css"}
