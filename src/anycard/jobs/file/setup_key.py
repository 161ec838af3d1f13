"""When is a setup the same setup? When its script, the workdir's lock files and the environment it goes into are."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from pathlib import Path

from anycard.jobs.file.looking import read_plain
from anycard.jobs.spec import JobSpec

# Files that say which packages a project wants, by the tools that read them.
LOCK_PATTERNS = (
    "requirements*.txt", "constraints*.txt", "pyproject.toml", "setup.py", "setup.cfg", ".python-version",
    "uv.lock", "pylock*.toml", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock",
    "environment.yml", "environment.yaml", "conda-lock.yml", "pixi.toml", "pixi.lock",
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock",
    "Cargo.toml", "Cargo.lock", "go.mod", "go.sum", "Gemfile", "Gemfile.lock", "renv.lock", "Project.toml", "Manifest.toml",
)  # fmt: skip
_MAX_FILE_BYTES = 64 * 1024 * 1024  # the largest lock files have a few MiB
_ENVIRONMENT_NAMES = ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH")


def setup_key(spec: JobSpec) -> str:
    """A hexadecimal SHA-256 over ``spec.setup``, the values of ``envs`` that it mentions, the environment it goes into and the content of
    the lock files in the workdir's top folder. Reads those files; OSError if one cannot be read."""
    digest = hashlib.sha256()
    setup = spec.setup or ""
    _add(digest, "setup", setup.encode())
    mentioned = set(re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", setup))
    for name in sorted(mentioned & spec.envs.keys()):
        _add(digest, f"env {name}", spec.envs[name].encode())
    if spec.setup_environment is not None:
        _add(digest, "cached environment", spec.setup_environment.encode())
    else:
        for name in _ENVIRONMENT_NAMES:
            _add(digest, name, spec.environment.get(name, "").encode())
    for path in sorted(Path(spec.workdir).iterdir()):
        if any(fnmatch.fnmatchcase(path.name, pattern) for pattern in LOCK_PATTERNS) and path.is_file():
            _add(digest, f"file {path.name}", read_plain(path, _MAX_FILE_BYTES))
    return digest.hexdigest()


def _add(digest: hashlib._Hash, label: str, content: bytes) -> None:
    """Lengths go in too, so that no content can pass for a boundary."""
    digest.update(f"{label}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
    digest.update(content)
