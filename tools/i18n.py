"""Keeps the catalogues: finds every sentence in the source, brings zh/anycard.po up to date, compiles it.

    python tools/i18n.py          after adding or changing a sentence; then translate what it lists in anycard.po and run it again
    python tools/i18n.py --check  exit 1 when a translation is missing or anycard.mo is not that of anycard.po

Babel's own extraction sees only positional arguments; our sentences also stand in ``hint=``, in conditional expressions and in the
second argument of a job file's faults, so the source is read with ``ast`` here. Babel reads and writes the catalogues.
"""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from gettext import GNUTranslations
from pathlib import Path

import jinja2
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from jinja2.ext import extract_from_ast

PROJECT = Path(__file__).parent.parent
SOURCE = PROJECT / "src" / "anycard"
SOURCES = (SOURCE, PROJECT / "examples")
PO = SOURCE / "i18n" / "locales" / "zh" / "LC_MESSAGES" / "anycard.po"
MO = PO.with_suffix(".mo")
_NO_FACE_YET: tuple[str, ...] = ()  # packages that no verb and no page shows: take one off when a face comes
_MARKS = ("_", "N_", "Text", "show", "sentence", "step")  # the sentence is their first argument
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)  # a fixed date in the header: a catalogue changes only when a sentence does


def sentences(*folders: Path) -> set[str]:
    """Every sentence that a face may be asked to translate, in ``folders`` (default: the package and the examples)."""
    hidden = tuple(SOURCE / package for package in _NO_FACE_YET)
    files = (file for folder in folders or SOURCES for file in folder.rglob("*.py"))
    found = {
        text for file in files if not any(file.is_relative_to(folder) for folder in hidden) for text in _of_file(file)
    }
    templates = (file for folder in folders or SOURCES for file in folder.rglob("*.html"))
    return found | {text for file in templates for text in _of_template(file)}


def _of_template(file: Path) -> Iterator[str]:
    """The sentences of a page's template: first arguments of ``_``."""
    parsed = jinja2.Environment().parse(file.read_text(encoding="utf-8"), str(file))
    for _line, _function, strings in extract_from_ast(parsed, ("_",), babel_style=False):
        yield strings[0]


def _of_file(file: Path) -> Iterator[str]:
    module = ast.parse(file.read_text(encoding="utf-8"), str(file))
    named = {
        target.id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            for argument in _places(node):
                yield from _constants(argument, named)


def _places(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of ``call`` that hold a sentence."""
    function = call.func
    name = (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
    if name in _MARKS or name.endswith("Error"):
        yield from call.args[:1]
    if name.endswith("Error"):
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "hint")
    if name == "Rule":  # the doctor's
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "says")
    if name == "add" and len(call.args) == 2:  # Faults.add(place, sentence)
        yield call.args[1]


def _constants(node: ast.expr, named: Mapping[str, ast.expr]) -> Iterator[str]:
    """The sentence that ``node`` is, or each of those that it may be; ``named`` are the module's constants."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip():
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _constants(node.body, named)
        yield from _constants(node.orelse, named)
    elif isinstance(node, ast.Name) and node.id in named:
        yield from _constants(named[node.id], {})


def read() -> Catalog:
    with PO.open("rb") as file:
        return read_po(file, locale="zh", domain="anycard")


def compiled(catalog: Catalog) -> bytes:
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def updated(old: Catalog, wanted: set[str]) -> Catalog:
    """The catalogue of the sentences that are in the source now, with the translations that ``old`` has."""
    new = Catalog(
        locale="zh", domain="anycard", project="anycard", version="1", copyright_holder="anycard contributors",
        creation_date=_EPOCH, revision_date=_EPOCH, last_translator="anycard contributors", language_team="zh", fuzzy=False,
    )  # fmt: skip
    new.header_comment = "# Chinese sentences of anycard. Words: docs/cli.md."
    for text in sorted(wanted):
        known = old.get(text)
        # Fields look like str.format's, never like %-formatting: a stray % must not be checked as such.
        new.add(text, string=known.string if known else "", flags=())
        new[text].flags.discard("python-format")
    return new


def is_current(catalog: Catalog) -> bool:
    """Whether anycard.mo says what ``catalog`` says (its header may name another Babel)."""
    if not MO.exists():
        return False
    with MO.open("rb") as there:
        return _pairs(GNUTranslations(there)) == _pairs(GNUTranslations(io.BytesIO(compiled(catalog))))


def _pairs(translations: GNUTranslations) -> dict[str, str]:
    return {key: text for key, text in translations._catalog.items() if key}  # type: ignore[attr-defined]


def untranslated(catalog: Catalog) -> list[str]:
    return [str(message.id) for message in catalog if message.id and not message.string]


def main() -> int:
    wanted = sentences()
    old = read() if PO.exists() else Catalog(locale="zh")
    if "--check" in sys.argv:
        missing = [text for text in sorted(wanted) if not (old.get(text) and old.get(text).string)]
        current = is_current(old)
        for text in missing:
            print(f"not translated: {text}")
        print("catalogues are current" if current else "anycard.mo is not that of anycard.po: run tools/i18n.py")
        return 0 if current and not missing else 1
    new = updated(old, wanted)
    out = io.BytesIO()
    write_po(out, new, width=0, sort_output=True)
    PO.write_bytes(out.getvalue())
    MO.write_bytes(compiled(read()))
    missing = untranslated(new)
    for text in missing:
        print(f"not translated: {text}")
    print(f"{len(wanted)} sentences, {len(missing)} to translate")
    return 0


if __name__ == "__main__":
    sys.exit(main())
