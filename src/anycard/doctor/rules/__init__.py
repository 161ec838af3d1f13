"""What the field knows, one file a family. A new rule is one ``Rule`` in its family's file and one fixture in tests/doctor/fixtures."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from anycard.doctor.rule import Rule

FAMILIES = (
    "driver",
    "framework",
    "hardware",
    "fabric",
    "memory",
    "container",
    "cluster",
    "wsl",
    "vm",
    "windows",
    "inference",
    "intel",
    "ascend",
    "amd",
    "apple",
    "multi_gpu",
    "rental",
    "starvation",
    "industry",
    "harmless",
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of every family. A slug has one rule."""
    return tuple(rule for family in FAMILIES for rule in import_module(f"anycard.doctor.rules.{family}").RULES)
