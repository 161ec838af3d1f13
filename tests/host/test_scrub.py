"""Nothing private stays, and what carries the evidence does."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anycard.host.private import Private
from anycard.host.scrub import COMMON_WORDS, Scrubber

KNOWN = Private(
    people=frozenset({"bob", "Robert Smith"}),
    machines=frozenset({"titan07", "titan07.corp.example.com"}),
    secrets=frozenset({"hunter2xyz"}),
)


def scrub(text: str, known: Private = KNOWN) -> str:
    scrubber = Scrubber(known)
    scrubber.learn([text])
    return scrubber.text(text)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("bob@titan07: TITAN07.corp.example.com bobsled", "user-1@host-1: host-2 bobsled"),
        ("owner Robert Smith", "owner user-1"),
        ("xhunter2xyzx", "x<removed>x"),
        (
            "    Serial Number                     : 1565020000001",
            "    Serial Number                     : 9000000000001",
        ),
        (
            '"product_serial": "PC-33", "Unique ID": "0x18f00ba"',
            '"product_serial": "SERIAL-1", "Unique ID": "SERIAL-2"',
        ),
        ("GPU[0]\t\t: Unique ID: 0x18f00ba", "GPU[0]\t\t: Unique ID: SERIAL-1"),
        ("Serial Number (system): C02XK1", "Serial Number (system): SERIAL-1"),
        ("GPU PDI : 0x1234abcd5678", "GPU PDI : SERIAL-1"),
        ("board serial=AB12CD then AB12CD again", "board serial=SERIAL-1 then SERIAL-1 again"),
        ("GPU-1b2c3d4e-0000-4000-8000-00000000000a", "GPU-00000000-0000-4000-8000-000000000001"),
        ("GPU[0] MIG-1b2c3d4e-0000-4000-8000-00000000000a", "GPU[0] MIG-00000000-0000-4000-8000-000000000001"),
        (
            "kubepods-pod1b2c3d4e_0000_4000_8000_00000000000a.slice",
            "kubepods-pod00000000-0000-4000-8000-000000000001.slice",
        ),
        ("inet 10.1.2.3/24 and 10.1.2.3, 192.168.0.9.", "inet 240.0.0.1/24 and 240.0.0.1, 240.0.0.2."),
        ("fe80::1%eth0 2001:db8:1::5:", "2001:db8::1%eth0 2001:db8::2:"),
        ("ether 3c:ec:ef:00:11:22 GUID 3cecef0300001122", "ether 02:00:00:00:00:01 GUID 3cecef0300001122"),
        ("mail a.b+c@sub.example.org", "mail person-1@example.invalid"),
        ("/home/alice/x owned by alice", "/home/user-1/x owned by user-1"),
        (r"C:\Users\Alice Cooper\x", r"C:\Users\user-1\x"),
        ("/docker/" + "ab" * 32, "/docker/" + "1".zfill(64)),
        ("https://u:p@ss@example.com/x", "https://<removed>@example.com/x"),
        ("PASSWORD=hunter3 API_KEY: 'two words' ok", "PASSWORD=<removed> API_KEY: '<removed>' ok"),
        ('{"password": "two words", "n": 1}', '{"password": "<removed>", "n": 1}'),
        ("tool --token abc,def --auth-key=ghi", "tool --token <removed> --auth-key=<removed>"),
        ("Authorization: Bearer abc.def", "Authorization: <removed>"),
        ("curl -H 'bearer abcdefghij'", "curl -H 'bearer <removed>'"),
        ("using hf_abcdefghijklmnopqrst now", "using <removed> now"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest", "<removed>\nrest"),
        ("-----BEGIN PRIVATE KEY-----\ncut of", "<removed>"),
    ],
)
def test_private_details_go(text: str, clean: str) -> None:
    assert scrub(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "| Serial Number: unknown |",
        "Serial Number : N/A",
        "Serial Number : 0",
        "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus",
        "GPU 00000000:65:00.0 VBIOS 96.00.74.00.01 Driver Version: 580.95.05 CUDA 13.0",
        "Software Version : 24.1.0.3",
        "firmware version=7.1.0.5",
        "[  12.345678] pcieport 0000:00:1c.0: AER: Corrected error received: 0000:03:00.0",
        "Mon Nov 30 17:20:05 2026 std::vector c10::cuda::x a::b::",
        "127.0.0.1 ::1 0.0.0.0",
        "gfx90a sm_90 0x20b210de [10de:20b2] (rev a1)",
        "/home/user/x /Users/Shared/y",
        "bypass: on; compass = north; monkey: see",
    ],
)
def test_evidence_stays(text: str) -> None:
    assert scrub(text) == text


def test_the_same_value_has_the_same_stand_in_across_texts() -> None:
    scrubber = Scrubber(KNOWN)
    first, second = "10.0.0.1 bob 10.0.0.2", "10.0.0.2 BOB 10.0.0.1"
    scrubber.learn([first, second])
    assert (scrubber.text(first), scrubber.text(second)) == ("240.0.0.1 user-1 240.0.0.2", "240.0.0.2 user-1 240.0.0.1")
    assert scrubber.removed == {"ipv4": 4, "user": 2}


def test_json_stays_json() -> None:
    text = json.dumps({"card0": {"Serial Number": "692123", "serial": 12345678, "token": 'a"b', "ip": "10.0.0.1"}})
    shown = json.loads(scrub(text.replace('a\\"b', "ab")))
    assert shown["card0"]["serial"] != 12345678 and isinstance(shown["card0"]["serial"], int)
    assert (shown["card0"]["token"], shown["card0"]["ip"]) == ("<removed>", "240.0.0.1")


def test_a_machine_called_gpu_is_left_in_and_said() -> None:
    scrubber = Scrubber(Private(people=frozenset({"al"}), machines=frozenset({"gpu"})))
    assert scrubber.text("gpu 0 of al") == "gpu 0 of al"
    assert scrubber.left_in == {"gpu": "host", "al": "user"}


NAMES = st.text(string.ascii_letters + string.digits + "._-", min_size=3, max_size=20).filter(
    lambda name: name.lower() not in COMMON_WORDS and name[0].isalnum() and name[-1].isalnum()
)
AROUND = st.sampled_from(["", " ", "\n", "/", ":", "'", '"', "(", ",", "=", "@", "-", "_", "\t", "é"])
TEXTS = st.text(max_size=30)


@given(name=NAMES, before=TEXTS, after=TEXTS, left=AROUND, right=AROUND)
def test_a_planted_name_goes_wherever_it_is_a_word(name: str, before: str, after: str, left: str, right: str) -> None:
    assume(name.lower() not in "user-1 <removed>")
    text = f"{before}\n{left}{name}{right}\n{after}"
    scrubber = Scrubber(Private(people=frozenset({name})))
    scrubber.learn([text])
    assert scrubber.survivors(scrubber.text(text)) == []


@given(
    secret=st.text(string.ascii_letters + string.digits + "+/=.$!#", min_size=8, max_size=40), before=TEXTS, after=TEXTS
)
def test_a_planted_secret_goes_even_inside_a_word(secret: str, before: str, after: str) -> None:
    assume(secret.lower() not in COMMON_WORDS)
    scrubber = Scrubber(Private(secrets=frozenset({secret})))
    clean = scrubber.text(f"{before}{secret}{after}")
    assert secret not in clean


@given(
    label=st.sampled_from(
        ["PASSWORD=", "password: ", "db_password = ", '"api_key": ', "HF_TOKEN=", "--client-secret ", "--token="]
    ),
    secret=st.text(string.ascii_letters + string.digits + "+/=.,;$!#%&*", min_size=4, max_size=40),
    quote=st.sampled_from(["", '"', "'"]),
)
def test_what_follows_a_secrets_label_goes(label: str, secret: str, quote: str) -> None:
    assume(len(set(secret)) > 2 and secret.strip("=,;") == secret)
    clean = scrub(f"some text {label}{quote}{secret}{quote} more text")
    assert secret not in clean.replace("<removed>", "")
    assert clean.endswith("more text")


@given(st.ip_addresses(v=4).filter(lambda address: not address.is_loopback and not address.is_unspecified))
def test_every_ipv4_address_goes(address: object) -> None:
    assert str(address) not in scrub(f"peer {address}:22, via {address}.").replace("240.0.0.1", "")


@given(st.ip_addresses(v=6).filter(lambda address: not address.is_loopback and not address.is_unspecified))
def test_every_ipv6_address_goes(address: object) -> None:
    assert scrub(f"peer [{address}]:22 {address}") == "peer [2001:db8::1]:22 2001:db8::1"


@given(st.uuids(), st.sampled_from(["", "GPU-", "MIG-", "uuid="]))
def test_every_uuid_goes_and_keeps_its_shape(uuid: object, prefix: str) -> None:
    assert scrub(f"a {prefix}{uuid} b") == f"a {prefix}00000000-0000-4000-8000-000000000001 b"


@given(st.text(max_size=300))
def test_any_text_is_survived_and_known_words_do_not_survive(text: str) -> None:
    scrubber = Scrubber(KNOWN)
    scrubber.learn([text])
    assert scrubber.survivors(scrubber.text(text)) == []
