"""docs/api.md and the published OpenAPI document name the same calls and the same fields."""

from __future__ import annotations

import re
from pathlib import Path

from anycard.api.answers import Item, Job
from anycard.api.app import create_app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def test_the_page_lists_every_call() -> None:
    published = {
        (method.upper(), path.removeprefix("/v1").replace("{ref}", "REF"))
        for path, methods in create_app(None, None, None).openapi()["paths"].items()
        for method in methods
    }
    told = set(re.findall(r"`(GET|POST) (/[\w/-]*)`", PAGE))
    told |= {("POST", "/jobs/REF/release")} if "`POST /jobs/REF/hold`, `/release`" in PAGE else set()
    assert told - {("GET", "/v1/openapi.json")} == published


def test_the_page_names_every_field_of_a_job_and_an_item() -> None:
    tables = PAGE.partition("## JOB and ITEM")[2].partition("## From Python")[0]
    for shape in (Job, Item):
        fields = {field.alias or name for name, field in shape.model_fields.items()}
        assert [
            name
            for name in sorted(fields)
            if f"`{name}`" not in tables and "_msgid" not in name and "_params" not in name
        ] == []
