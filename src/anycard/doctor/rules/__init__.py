"""What the field knows, one file a family. A new rule is one ``Rule`` in its family's file and one fixture in tests/doctor/fixtures."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from anycard.doctor.rule import Rule

FAMILIES = (
    "driver",
    "module",
    "framework",
    "libraries",
    "visible",
    "hardware",
    "firmware",
    "card_memory",
    "fabric",
    "memory",
    "container",
    "cluster",
    "wsl",
    "vm",
    "windows",
    "ollama",
    "inference",
    "intel",
    "ascend",
    "amd",
    "apple",
    "multi_gpu",
    "rental",
    "starvation",
    "industry",
    "application",
    "by_design",
    "harmless",
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of every family. A slug has one rule."""
    return tuple(rule for family in FAMILIES for rule in import_module(f"anycard.doctor.rules.{family}").RULES)
