"""Whole numbers of a configuration by any of several names; a wrong one is an error that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.errors import UsageError

SIZE_MAX = 10**9  # no dimension of a model comes near it
LAYERS_MAX = 100_000


class ConfigError(UsageError):
    """A model's configuration lacks what decides memory, or contradicts itself."""

    code = "bad-model-config"


class Fields:
    """``values`` are the configuration's; ``defaults`` what its class takes for those it leaves out; ``name`` is for messages."""

    def __init__(self, values: Mapping[str, Any], name: str, defaults: Mapping[str, int] | None = None) -> None:
        self.values = values
        self._name = name
        self._defaults = defaults or {}

    def number(self, *keys: str, default: int | None = None) -> int:
        """The first of ``keys`` that is given. Raises ConfigError if none is and there is no ``default``, or if it makes no sense."""
        for key in keys:
            value = self.values.get(key)
            if value is None:
                continue
            if isinstance(value, list) and value and all(type(item) is int for item in value):
                value = max(value)
            whole = type(value) is int or (type(value) is float and value.is_integer())
            if not whole:
                raise self._wrong(key, value)
            if not (0 if default is not None else 1) <= value <= SIZE_MAX:
                raise self._wrong(key, value)
            return int(value)
        for key in keys:
            if key in self._defaults:
                return self._defaults[key]
        if default is None:
            raise ConfigError(
                "{name}: the configuration has no {field}",
                hint="give the model's folder with its config.json, or a GGUF file",
                name=self._name,
                field=keys[0],
            )
        return default

    def _wrong(self, key: str, value: object) -> ConfigError:
        return ConfigError(
            "{name}: {field} is {value}, which makes no sense", name=self._name, field=key, value=str(value)[:60]
        )
