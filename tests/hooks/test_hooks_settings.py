"""The configuration: what is meant, what is refused, and that no address is ever repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.config import Paths, configuration
from anycard.errors import UsageError
from anycard.jobs.hooks.settings import Hook, Kind, Shape, settings

TOKEN = "T000-B000-XyZsecret"
URL = f"https://hooks.example.com/services/{TOKEN}"


def hook(**given):
    return settings({"hooks": [{"url": URL, **given}]}).hooks[0]


def test_what_a_hook_is_when_nothing_more_is_said():
    made = hook()
    assert (made.name, made.host, made.shape, made.kinds) == (
        "hook-1",
        "hooks.example.com",
        Shape.JSON,
        frozenset(Kind),
    )


def test_all_keys():
    made = hook(name="team", shape="dingtalk", on=["failed", "too-hot"], secret="SECxyz", language="zh")
    assert (made.name, made.shape, made.language, made.secret) == ("team", Shape.DINGTALK, "zh", "SECxyz")
    assert made.kinds == {Kind.FAILED, Kind.TOO_HOT}
    assert settings({}).hooks == ()
    assert settings({"cards": {"idle_after": "30m", "hot_c": 83}}).limits.idle_s == 1800


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "../x"}, "no name"),
        ({"name": "Team"}, "no name"),
        ({"nmae": "x"}, "nmae is not a key"),
        ({"shape": "teams"}, "teams is no shape"),
        ({"on": ["done", "exploded"]}, "exploded is no on"),
        ({"on": []}, "`on` is a list"),
        ({"on": "done"}, "`on` is a list"),
        ({"secret": "x", "shape": "slack"}, "slack takes no secret"),
        ({"secret": 5}, "secret must be a text"),
        ({"language": "fr"}, "not fr"),
        ({"url": "file:///etc/passwd"}, "http or https"),
        ({"url": "https://"}, "http or https"),
        ({"url": f"https://{TOKEN}:x@host/"}, "no user and password"),
        ({"url": f"https://host/{TOKEN}\r\nX: y"}, "http or https"),
        ({"url": f"https://host/{TOKEN} HTTP/1.1"}, "http or https"),
        ({"url": f"https://[::1/{TOKEN}"}, "cannot be read"),
        ({"url": f"https://host:99999/{TOKEN}"}, "cannot be read"),
        ({"url": f"https://a..b/{TOKEN}"}, "cannot be read"),
        ({"url": f"https://{'a' * 70}.example/{TOKEN}"}, "cannot be read"),
        ({"url": 7}, "url must be a text"),
    ],
)
def test_what_is_refused_is_named_and_its_address_is_not(wrong, said):
    with pytest.raises(UsageError) as error:
        hook(**wrong)
    assert said in str(error.value)
    assert TOKEN not in str(error.value) + str(error.value.to_json())


def test_two_of_a_name_and_wrong_tables():
    for wrong in (
        {"hooks": [{"url": URL, "name": "a"}, {"url": URL, "name": "a"}]},
        {"hooks": {"url": URL}},
        {"hooks": "x"},
        {"cards": {"hot": 80}},
        {"cards": {"hot_c": True}},
        {"cards": {"hot_c": 900}},
        {"cards": {"idle_after": "soon"}},
        {"cards": []},
    ):
        with pytest.raises(UsageError):
            settings(wrong)


def test_a_hook_shows_neither_address_nor_secret():
    assert TOKEN not in repr(hook(secret="SECxyz")) and "SECxyz" not in repr(hook(secret="SECxyz"))


@given(
    st.dictionaries(
        st.sampled_from(["name", "url", "shape", "on", "secret", "language", "x"]),
        st.one_of(st.text(max_size=20), st.integers(), st.lists(st.text(max_size=5), max_size=2), st.just(URL)),
    )
)
def test_whatever_stands_there_is_a_hook_or_a_usage_error(given_):
    try:
        made = settings({"hooks": [given_]}).hooks[0]
    except UsageError:
        return
    assert isinstance(made, Hook) and made.host and made.url.isascii()


def test_the_file(tmp_path):
    paths = Paths(tmp_path)
    assert configuration(paths) == {}
    paths.configuration.write_text(f'[[hooks]]\nurl = "{URL}"\n')
    paths.configuration.chmod(0o644)
    with pytest.raises(UsageError, match="may be read by others"):
        configuration(paths)
    paths.configuration.chmod(0o600)
    assert configuration(paths)["hooks"] == [{"url": URL}]
    for wrong in (f'[[hooks]]\nurl = "{URL}\n', "[hook]\n", "a = 1\n", "\ufeff\x00"):
        paths.configuration.write_text(wrong)
        with pytest.raises(UsageError) as error:
            configuration(paths)
        assert TOKEN not in str(error.value)
    paths.configuration.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="no TOML"):
        configuration(paths)
