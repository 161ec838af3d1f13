"""The words of a card's name, as far as they tell one model from another, and the memory that it says."""

from __future__ import annotations

import re

# Words that do not tell one model from another.
NOISE = frozenset(
    (
        "nvidia",
        "geforce",
        "tesla",
        "amd",
        "radeon",
        "instinct",
        "intel",
        "apple",
        "huawei",
        "quadro",
        "lambdacloud",
        "gpu",
        "core",
    )
) | frozenset(("generation", "graphics", "data", "center", "gen", "gen4", "gen5", "hm", "edition", "of", "the"))


def words(name: str, noise: frozenset[str] = NOISE) -> tuple[frozenset[str], float | None]:
    """Whole words, lower case, and gibibytes ("80GB", "24 G") or None: ``A800-SXM4`` has no word ``M4``, ``RTX4090`` has ``4090``.
    ``noise`` are words to leave out."""
    text = re.sub(r"\d+\s*-?\s*core", " ", re.sub(r"[\u2010-\u2015]", "-", name.lower()))
    memory = None
    match = re.search(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)\s*g(?:i?b)?\b", text)
    if match:
        memory = float(match[1])
        text = text[: match.start()] + " " + text[match.end() :]
    text = re.sub(r"\bsxm\d?\b", "sxm", text)
    text = re.sub(r"\b(rtx|gtx|rx|arc|quadro)(?=\d)", r"\1 ", text)
    pieces = re.findall(r"[a-z]+\d*[a-z]*\d*|\d+[a-z]*", text)
    return frozenset(piece for piece in pieces if piece not in noise), memory
