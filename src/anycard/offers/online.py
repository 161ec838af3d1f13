"""`anycard offers --refresh`: SkyPilot's catalogue and the ECB's rates, fetched when somebody asks and kept as files. Never by itself.

ANYCARD_CATALOGUE_URL names another place that holds ``CLOUD/vms.csv`` files (a mirror, a folder served on your own network).
"""

from __future__ import annotations

import csv
import io
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from anycard.errors import NotFoundError, UnavailableError, UsageError
from anycard.offers.files import RATES_FILE, catalogue_file
from anycard.offers.skypilot import CLOUDS, COLUMNS, VERSION, catalogue_rows

CATALOGUE = f"https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/{VERSION}"
RATES = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml"
_TIMEOUT_S = 30.0
_MOST_BYTES = 64 * 1024 * 1024  # the largest today is AWS's, 4 MB
_AT_ONCE = 6
_DAY = re.compile(r"""<Cube\s+time=['"](\d{4}-\d{2}-\d{2})['"]""")
_RATE = re.compile(r"""<Cube\s+currency=['"]([A-Z]{3})['"]\s+rate=['"](\d{1,9}(?:\.\d{1,9})?)['"]""")


@dataclass(frozen=True, slots=True)
class Refreshed:
    """``offers``: rows kept, by provider. ``failed``: what could not be had, and why. ``unread``: rows that made no sense.
    ``rates_date``: of the new exchange rates, None where the old ones stay."""

    offers: Mapping[str, int]
    failed: Mapping[str, str]
    unread: int
    rates_date: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "offers": dict(self.offers),
            "failed": dict(self.failed),
            "unread_rows": self.unread,
            "rates_date": self.rates_date,
        }


def refresh(
    folder: Path, day: str, *, clouds: Sequence[str] = (), url: str | None = None, rates_url: str | None = None
) -> Refreshed:
    """Fetches ``clouds`` (all when empty) into ``folder`` and replaces what was kept of them. ``day``: today, ISO.

    UsageError for an unknown cloud or address, UnavailableError when nothing at all could be had.
    """
    unknown = sorted(set(clouds) - set(CLOUDS))
    if unknown:
        raise UsageError("{name} is not in SkyPilot's catalogue; {names} are", name=unknown[0], names=", ".join(CLOUDS))
    base = (url or CATALOGUE).rstrip("/")
    _check_address(base)
    wanted = list(clouds or CLOUDS)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda cloud: _try(f"{base}/{cloud}/vms.csv"), wanted))
    counts: dict[str, int] = {}
    failed: dict[str, str] = {}
    unread = 0
    for cloud, (text, why) in zip(wanted, answers, strict=True):
        if text is None:
            failed[CLOUDS[cloud]] = why
            continue
        rows, bad = catalogue_rows(csv.DictReader(io.StringIO(text)), cloud, day)
        unread += bad
        if not rows:
            failed[CLOUDS[cloud]] = "no offers are in its table"
            continue
        _write(catalogue_file(folder, cloud), _as_csv(rows))
        counts[CLOUDS[cloud]] = len(rows)
    if not counts:
        raise UnavailableError(
            "the catalogue cannot be reached: {reason}",
            hint="without --refresh the catalogue that ships with anycard is used, or --offers FILE for a table of your own",
            reason=next(iter(failed.values())),
        )
    return Refreshed(counts, failed, unread, _refresh_rates(folder, rates_url or RATES, failed))


def _refresh_rates(folder: Path, url: str, failed: dict[str, str]) -> str | None:
    """The day of the rates that were fetched and kept; None when they could not be had."""
    text, why = _try(url)
    found = _DAY.search(text or "")
    rates = dict(_RATE.findall(text or ""))
    if found is None or "USD" not in rates or "CNY" not in rates:
        failed["exchange rates"] = why or "they are not in the answer"
        return None
    body = {
        "source": "European Central Bank, euro foreign exchange reference rates (eurofxref-daily.xml)",
        "date": found[1],
        "per_eur": {"EUR": "1", **rates},
    }
    _write(folder / RATES_FILE, json.dumps(body))
    return found[1]


def _try(url: str) -> tuple[str | None, str]:
    """(the text, "") or (None, why not)."""
    try:
        return _get(url), ""
    except (NotFoundError, UnavailableError) as error:
        return None, str(error)


def _get(url: str) -> str:
    request = urllib.request.Request(url, headers={"User-Agent": "anycard"})  # noqa: S310  the scheme was checked
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310  the scheme was checked
            content: bytes = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise UnavailableError("{url} answers {code}", url=url, code=error.code) from None
    except (urllib.error.URLError, HTTPException, TimeoutError, OSError) as error:
        raise UnavailableError(
            "{url} does not answer ({reason})", url=url, reason=str(getattr(error, "reason", error))[:200]
        ) from None
    if len(content) > _MOST_BYTES:
        raise UnavailableError("{url} is larger than any catalogue", url=url)
    return content.decode("utf-8", "replace")


def _check_address(url: str) -> None:
    if not url.startswith(("https://", "http://")):
        raise UsageError("{endpoint} is no web address", endpoint=url)


def _as_csv(rows: Sequence[Mapping[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _write(path: Path, text: str) -> None:
    """To a temporary name, then renamed: a reader sees the old table or the new one."""
    draft = path.with_suffix(".draft")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o600)
        draft.replace(path)
    except OSError as error:
        raise UnavailableError(
            "{home} cannot be written: {why}",
            hint="name a folder of yours: --home FOLDER, or ANYCARD_HOME",
            home=path.parent,
            why=error.strerror or str(error),
        ) from None
