"""Every sentence has its Chinese, with the same fields, and what is shipped is what is written."""

from __future__ import annotations

import importlib.util
import string
from pathlib import Path

import pytest

from anycard import i18n

pytest.importorskip("babel", reason="Babel keeps the catalogues: pip install -e '.[dev]'")
_TOOL = Path(__file__).parents[2] / "tools" / "i18n.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("tools_i18n", _TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fields(template: str) -> set[str]:
    return {field for _text, field, _spec, _conversion in string.Formatter().parse(template) if field}


def test_every_sentence_is_translated(tool):
    catalogue = tool.read()
    missing = [text for text in sorted(tool.sentences()) if not (catalogue.get(text) and catalogue.get(text).string)]
    assert missing == [], "run: python tools/i18n.py, then translate these"


def test_translations_have_the_fields_of_their_sentences(tool):
    wrong = [message.id for message in tool.read() if message.id and _fields(message.string) != _fields(message.id)]
    assert wrong == []


def test_the_compiled_catalogue_is_current(tool):
    assert tool.is_current(tool.read()), "run: python tools/i18n.py"


def test_language_is_the_flag_then_the_variable_then_the_locale():
    assert i18n.choose("zh", {"ANYCARD_LANG": "en"}) == "zh"
    assert i18n.choose(None, {"ANYCARD_LANG": "en", "LC_ALL": "zh_CN.UTF-8"}) == "en"
    assert i18n.choose(None, {"LC_ALL": "zh_TW.UTF-8", "LANG": "C"}) == "zh"
    assert i18n.choose(None, {"LANG": "de_DE.UTF-8"}) == "en"
    assert i18n.choose(None, {}) == "en"


def test_a_sentence_from_elsewhere_never_raises():
    i18n.use("en")
    assert i18n.show("{a} and {b}", {"a": 1}) == "{a} and {b}"
    assert i18n.show("{a.x} {", {"a": 1}) == "{a.x} {"
    assert i18n.show("100 %", None) == "100 %"
