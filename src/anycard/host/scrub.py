"""Removes private details from text. The same value always becomes the same stand-in, so that a reader can still follow who is who.

One regular expression finds everything in one pass: what was put in place of a value is never looked at again. What cannot be removed
without wrecking the text (a machine that is called ``gpu``) is left in and said, never skipped silently.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from anycard.host.private import Private

REMOVED = "<removed>"

# Words that name no one, although people call users and machines so. Replacing them would break the very lines that matter.
COMMON_WORDS = frozenset(
    """
    admin administrator amd anycard apple ascend card cards centos cloud cluster compute console container cpu cuda daemon data debian
    desktop dev device docker domain driver fedora gpu gpus guest home host hostname intel internal kernel lab lan laptop linux local
    localdomain localhost login mac machine main master memory my name node npu nvidia opc password pc person proc processor python
    render rocky root runner server service session slurm staff sys system test ubuntu unknown user username users video vm wheel
    windows work worker workstation
    """.split()  # noqa: SIM905  a list of 90 words reads better as words
)

# Values that vendors print where there is no serial number; shorter ones than three characters identify nothing.
_NO_SERIAL = re.compile(r"(?i)\[?n/?a\]?|none|null|unknown|undefined|default|removed|not|to|0+|0x0+|-+|.{0,2}")

_SERIAL_LABEL = (
    r"(?:(?:product|board|chassis|card|device|system|asic|module|hardware)?[ _-]?serial(?:[ _-]?(?:number|num|no|id))?(?: \(system\))?"
    r"|sn|s/n|unique[ _-]?id|asset[ _-]?tag|service[ _-]?tag|pdi|provisioning[ _]udid|ecid|guid|v?die[ _-]?id)"
)
_CONFIDENTIAL = (
    r"[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key"
    r"|authorization)[\w.-]*"
)
_ISSUED = (  # forms in which well-known services issue their keys
    r"hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|dop_v1_[0-9a-f]{40,}|nvapi-[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
)
_QUOTED = r"\"[^\"\n]*\"|'[^'\n]*'"
# The alternatives, in order; the names are the kinds in the summary. ``literal`` stands before them. A group ``..._value`` ends its
# alternative: what comes before it is a label and stays.
_PATTERNS = (
    ("key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("login", r"(?<=://)[^\s/'\"]+(?=@)"),
    ("issued", rf"(?<![A-Za-z0-9])(?:{_ISSUED})"),
    ("bearer", r"(?<![A-Za-z])(?i:bearer)\s+(?P<bearer_value>[A-Za-z0-9+/=._~-]{8,})"),
    (
        "secret",
        rf"(?i:(?<![\w.-])(?:{_CONFIDENTIAL}|pwd|pass)[\"']?[ \t]*[:=][ \t]*|(?<![\w-])--?{_CONFIDENTIAL}[ \t]+)"
        rf"(?P<secret_value>{_QUOTED}|(?:(?i:bearer|basic)[ \t]+)?[^\s\"']+)",
    ),
    (
        "serial",
        rf"(?<![A-Za-z])(?i:{_SERIAL_LABEL})[\"']?[ \t]*(?:\|[ \t]*)?[:=|][ \t]*(?P<serial_value>{_QUOTED}|[^\s\"',|]+)",
    ),
    ("home", r"(?:/home/|/Users/|/export/home/)(?P<home_value>[^/\s:\"',;]+)"),
    ("profile", r"[A-Za-z]:\\+Users\\+(?P<profile_value>[^\\/\r\n:\"']+)"),
    ("email", r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
    ("uuid", r"[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}"),
    ("mac", r"(?<![0-9a-fA-F:.-])[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5,}(?![0-9a-fA-F:-])"),
    ("ipv4", r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)"),
    ("ipv6", r"(?<![\w:.])[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*(?![\w:])"),
    ("hex", r"(?<![0-9a-zA-Z])(?:0x)?[0-9a-fA-F]{32,}(?![0-9a-zA-Z])"),
)
_VERSION_BEFORE = re.compile(r"(?i)(?:version|firmware|release)[\"']?\s*[:=|]?\s*[\"']?$")


class Scrubber:
    """``learn`` from every text first, then ``text`` each of them. ``removed`` counts by kind, ``left_in`` holds what was not removed
    because it is a common or too short word."""

    def __init__(self, private: Private) -> None:
        self.removed: Counter[str] = Counter()
        self.left_in: dict[str, str] = {}  # word -> kind
        self._literals: dict[str, str] = {}  # lower case -> kind
        self._stand_ins: dict[tuple[str, str], str] = {}
        self._issued: set[str] = set()
        for kind, words in (("secret", private.secrets), ("user", private.people), ("host", private.machines)):
            for word in words:
                self._add(kind, word)
        self._pattern = self._compile()

    def learn(self, texts: Iterable[str]) -> None:
        """Notes the serial numbers, home folders and secrets that stand beside their labels, so that they go elsewhere too."""
        for text in texts:
            for match in self._pattern.finditer(text):
                kind, value = match.lastgroup or "", _value(match)
                if kind == "serial" and len(value) >= 5 and not _NO_SERIAL.fullmatch(value):
                    self._add("serial", value)
                elif kind == "secret" and len(value) >= 8:
                    self._add("secret", value)
                elif kind in ("home", "profile"):
                    self._add("user", value)
        self._pattern = self._compile()

    def add_person(self, name: str) -> None:
        """A user or group name that was met in the answers themselves."""
        self._add("user", name)
        self._pattern = self._compile()

    def text(self, text: str) -> str:
        return self._pattern.sub(self._replace, text)

    def json(self, value: Any) -> Any:
        """Every string within ``value``, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.json(item) for key, item in value.items()}
        return value

    def survivors(self, text: str) -> list[str]:
        """The known private words that are still in a scrubbed ``text``: there should be none."""
        for stand_in in sorted(self._issued, key=len, reverse=True):
            text = text.replace(stand_in, " ")
        return sorted({match.group() for match in self._pattern.finditer(text) if match.lastgroup == "literal"})

    def _add(self, kind: str, word: str) -> None:
        word = word.strip()
        if not word:
            return
        if word.lower() in COMMON_WORDS or len(word) < 3:
            self.left_in[word] = kind
            return
        self._literals.setdefault(word.lower(), kind)

    def _compile(self) -> re.Pattern[str]:
        names = []
        for word in sorted(self._literals, key=len, reverse=True):
            escaped = re.escape(word)
            # A secret goes wherever it stands; a name only as a word, or "ann" would be cut out of "channel".
            names.append(escaped if self._literals[word] == "secret" else rf"(?<![A-Za-z0-9]){escaped}(?![A-Za-z0-9])")
        literal = rf"(?P<literal>(?i:{'|'.join(names)}))|" if names else ""
        return re.compile(literal + "|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS), re.DOTALL)

    def _replace(self, match: re.Match[str]) -> str:
        kind, found, value = match.lastgroup or "", match.group(), _value(match)
        if kind == "literal":
            return self._stand_in(self._literals.get(found.lower(), "user"), found)
        if kind in ("ipv4", "ipv6"):
            return self._address(kind, match)
        if kind == "serial" and _NO_SERIAL.fullmatch(value):
            return found
        if kind in ("home", "profile"):
            if value.lower() in COMMON_WORDS or value.lower() in ("public", "shared", "default"):
                return found
            kind = "user"
        elif kind in ("key", "login", "issued", "bearer"):
            kind = "secret"
        at = found.rindex(value)
        return (
            self.text(found[:at]) + self._stand_in(kind, value) + found[at + len(value) :]
            if at
            else self._stand_in(kind, value)
        )

    def _address(self, kind: str, match: re.Match[str]) -> str:
        found = match.group()
        trailing = found[len(found.rstrip(".:")) :] if not found.endswith("::") else ""
        address = found[: len(found) - len(trailing)]
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return found  # a version, a time, a PCI address
        if parsed.is_loopback or parsed.is_unspecified:
            return found
        if kind == "ipv4" and _VERSION_BEFORE.search(match.string, max(0, match.start() - 40), match.start()):
            return found
        return self._stand_in(kind, address) + trailing

    def _stand_in(self, kind: str, found: str) -> str:
        self.removed[kind] += 1
        if kind == "secret":
            self._issued.add(REMOVED)
            return REMOVED
        key = (kind, found.lower())
        if key not in self._stand_ins:
            number = 1 + sum(1 for other, _ in self._stand_ins if other == kind)
            self._stand_ins[key] = _SHAPES[kind](number, found)
            self._issued.add(self._stand_ins[key])
        return self._stand_ins[key]


def _value(match: re.Match[str]) -> str:
    """What is private in a match: the part after the label, without quotes, or all of it."""
    groups = match.groupdict()
    value = groups.get(f"{match.lastgroup}_value")
    return match.group() if value is None else value[1:-1] if value[:1] in "\"'" and len(value) >= 2 else value


# Stand-ins keep the shape of what they replace, so that parsers go on working.
_SHAPES: dict[str, Callable[[int, str], str]] = {
    "user": lambda number, _: f"user-{number}",
    "host": lambda number, _: f"host-{number}",
    # JSON may hold a serial number as a bare number
    "serial": lambda number, found: (
        str(9 * 10 ** (len(found) - 1) + number) if found.isdecimal() else f"SERIAL-{number}"
    ),
    "email": lambda number, _: f"person-{number}@example.invalid",
    "uuid": lambda number, _: f"00000000-0000-4000-8000-{number:012x}",
    "mac": lambda number, found: ":".join(
        ["02"] + ["00"] * (len(re.split("[:-]", found)) - 3) + [f"{number >> 8:02x}", f"{number & 255:02x}"]
    ),
    "ipv4": lambda number, _: f"240.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",  # 240/4 is used by no one
    "ipv6": lambda number, _: f"2001:db8::{number:x}",  # reserved for documentation
    "hex": lambda number, found: f"{number:0{len(found)}x}",
}
