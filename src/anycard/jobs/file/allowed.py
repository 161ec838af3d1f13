"""What of the submitter's environment goes along with a job. Light: the command line imports it, too."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

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


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of the submitter's environment that their program gets. Values that are not UTF-8 are left out: the store keeps text."""
    return {
        name: value
        for name, value in environ.items()
        if _goes_along(name) and len(value) <= MAX_VALUE_BYTES and is_utf8(value)
    }


@functools.lru_cache(4096)  # the same few names at every submit
def _goes_along(name: str) -> bool:
    return (name in ALLOWED or name.startswith(ALLOWED_PREFIXES)) and not _SECRET_NAME.search(name)


def is_utf8(text: str) -> bool:
    """No surrogate escapes in it: it can be written as UTF-8."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
