"""A visitor of the page as bytes over HTTP."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from called import Cli


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Visitor:
    """Speaks HTTP to one daemon's page; ``log_in`` gives it a session."""

    def __init__(self, called: Cli) -> None:
        self.called = called
        self.link = called.json("up", "-d")["page"]
        self.address = self.link.partition("/login")[0]
        self.netloc = urlsplit(self.address).netloc
        self.cookie = ""
        self.csrf = ""

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.netloc, timeout=60)

    def ask(
        self,
        path: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        method: str | None = None,
    ) -> Answer:
        """GET, or POST of ``form`` as this page's own scripts and forms would; ``headers`` replace what they send."""
        sent = {"Cookie": self.cookie, "Host": self.netloc}
        body = None
        if form is not None:
            sent |= {"Origin": self.address, "Content-Type": "application/x-www-form-urlencoded"}
            body = urlencode(form)
        sent |= headers or {}
        connection = self.connect()
        try:
            connection.request(
                method or ("GET" if form is None else "POST"), path, body, {k: v for k, v in sent.items() if v}
            )
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def post(self, path: str, **fields: str) -> Answer:
        return self.ask(path, {"csrf": self.csrf, **fields})

    def log_in(self) -> None:
        answer = self.ask(urlsplit(self.link).path + "?" + urlsplit(self.link).query)
        assert answer.status == 200, answer.text
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        found = re.search(r'name="csrf" value="([^"]+)"', self.ask("/submit").text)
        assert found
        self.csrf = found[1]
