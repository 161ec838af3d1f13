"""What of the submitter's environment a program sees, and the values of ``envs`` and ``secrets``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from anycard.jobs.file.faults import Faults, Place
from anycard.jobs.file.nodes import ListNode, MapNode, Node, Scalar, is_null, written
from anycard.jobs.file.readers import VARIABLE, read_mapping

# Where programs and their libraries are, who the person is, which language they read. Nothing that is a secret, a session (SSH_AUTH_SOCK,
# DISPLAY) or a choice of cards (CUDA_VISIBLE_DEVICES), which is the grant's to make.
ALLOWED = frozenset(
    (
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE",
        "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONUNBUFFERED", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH",
        "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "MUSA_HOME", "ONEAPI_ROOT",
        "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "R_HOME", "R_LIBS_USER", "JULIA_DEPOT_PATH",
        "MODULEPATH", "LOADEDMODULES", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HF_HOME", "HF_ENDPOINT", "TORCH_HOME",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "OPENBLAS_CORETYPE",
    )
)  # fmt: skip
ALLOWED_PREFIXES = ("LC_", "CONDA_")
MAX_VALUE_BYTES = 64 * 1024
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|APIKEY|API_KEY|CREDENTIAL", re.IGNORECASE)
HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of ``envs`` or ``secrets``. ``value`` None: the submitter must give it. Never printed: it may be a secret."""

    name: str
    value: str | None
    place: Place
    secret: bool = False

    def __repr__(self) -> str:
        shown = HIDDEN if self.secret and self.value is not None else self.value
        return f"Variable({self.name!r}, {shown!r})"


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of the submitter's environment that their program gets. Values that are not UTF-8 are left out: the store keeps text."""
    return {
        name: value
        for name, value in environ.items()
        if (name in ALLOWED or name.startswith(ALLOWED_PREFIXES))
        and not _SECRET_NAME.search(name)
        and len(value) <= MAX_VALUE_BYTES
        and is_utf8(value)
    }


def is_utf8(text: str) -> bool:
    """No surrogate escapes in it: it can be written as UTF-8."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def read_variables(node: Node, key: str, faults: Faults, *, secret: bool) -> tuple[Variable, ...]:
    """``envs`` or ``secrets``; the latter may also be a list of names. Values of secrets get into no fault."""
    if secret and isinstance(node, ListNode):
        node = MapNode(node.place, tuple(_named(item, key, faults) for item in node.items if isinstance(item, Scalar)))
    mapping = read_mapping(node, key, faults) if not (secret and isinstance(node, Scalar)) else None
    if mapping is None:
        if secret and isinstance(node, Scalar):
            faults.add(node.place, "{key} wants a mapping (NAME: value)", key=key)
        return ()
    found: list[Variable] = []
    for name, value in mapping.entries:
        if not check_name(name.text, name.place, key, faults):
            continue
        if not isinstance(value, Scalar):
            faults.add(
                value.place,
                "{key}.{name} wants a single value, not {value}",
                key=key,
                name=name.text,
                value=written(value),
            )
        elif len(value.text) > MAX_VALUE_BYTES:
            faults.add(
                value.place, "{key}.{name} is longer than {limit} bytes", key=key, name=name.text, limit=MAX_VALUE_BYTES
            )
        else:
            found.append(Variable(name.text, None if is_null(value) else value.text, name.place, secret))
    return tuple(found)


def _named(item: Scalar, key: str, faults: Faults) -> tuple[Scalar, Node]:
    return item, Scalar(item.place, "", True)


def check_name(name: str, place: Place, key: str, faults: Faults) -> bool:
    """Whether ``name`` may be set by a job; notes a fault if not."""
    if not VARIABLE.fullmatch(name):
        faults.add(place, "{key}: {value} is no variable name (letters, digits, '_')", key=key, value=name)
        return False
    if name.startswith("ANYCARD_"):
        faults.add(place, "{key}: names that begin with ANYCARD_ are set by anycard, not {value}", key=key, value=name)
        return False
    return True


def values_of(
    variables: tuple[Variable, ...], given: Mapping[str, str], environ: Mapping[str, str], faults: Faults
) -> dict[str, str]:
    """Each variable's value: what was given with the submission, else the file's, else the submitter's own variable of that name."""
    values: dict[str, str] = {}
    for variable in variables:
        value = given.get(variable.name, variable.value)
        if value is None:
            value = environ.get(variable.name)
        if value is None:
            faults.add(
                variable.place,
                "{name} has no value: give it with --env {name}=VALUE, or set it in your environment",
                name=variable.name,
            )
        elif "\0" in value or not is_utf8(value) or len(value) > MAX_VALUE_BYTES:
            faults.add(
                variable.place,
                "The value of {name} is not UTF-8, holds a NUL byte or is longer than {limit} bytes",
                name=variable.name,
                limit=MAX_VALUE_BYTES,
            )
        else:
            values[variable.name] = value
    return values
