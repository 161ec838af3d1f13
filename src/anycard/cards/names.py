"""What a job may call a card. Names are compared whole: ``A800-SXM4`` is no ``M4``, ``A100`` no ``A10``, ``RTX 4070 Ti`` no ``RTX 4070``.

A MIG instance has names of its own, and none of its whole card's but the maker's: ``1g.10gb``, ``MIG-1g.10gb``, ``A100-1g.10gb``, ``MIG``.

``NVIDIA A100-SXM4-80GB`` may be called A100, A100-80GB, A100-SXM4, A100-SXM, A100-SXM4-80GB, nvidia-A100 and so on; ``NVIDIA GeForce
RTX 4090`` RTX4090, RTX-4090, "RTX 4090", 4090. Case does not matter.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from itertools import combinations, pairwise, product

from anycard.cards.mig import split_model
from anycard.model.card import Card

# Words of a model that do not tell one model from another: a name may leave them out.
_FILLER = re.compile(
    r"nvidia|amd|intel|huawei|apple|tesla|geforce|quadro|radeon|instinct|arc|graphics|corporation|data|center|gpu|generation|edition"
    r"|blackwell|sxm\d*|pcie|oam|hgx|nvl\d*|hbm\d*e?|laptop|workstation|server|series"
    r"|rtx|gtx|gt|rx|ascend"
)
_RANK = ("pro", "max")  # "RTX PRO 6000" is no "RTX 6000" and "M4 Max" no "M4", but "Radeon Pro W7900" is the only W7900
_MEMORY = re.compile(r"\d+(gb|g|gib)")
_LONGEST = 5  # words in a name; more, joined in every way, would be thousands of spellings

# Memory as it is sold, in GB: a driver reports a little less (an A10 has 22.5 GiB of its 24).
_SIZES_GB = (2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 94, 96, 128, 141, 144, 180, 192, 256, 288)


def names(card: Card) -> frozenset[str]:
    """Every name of the card, lower case: of its vendor, its model and its memory, in each spelling."""
    if card.part_of is not None:
        return _instance_names(card.vendor, card.model)
    return _names(card.vendor, card.model, card.memory_bytes)


@functools.lru_cache(maxsize=256)
def _instance_names(vendor: str, model: str) -> frozenset[str]:
    found = {vendor.lower(), model.lower(), "mig"}
    whole, profile = split_model(model)
    if profile is not None:
        of = ("mig", *_names(vendor, whole, None))
        for word in {profile.lower(), profile.lower().replace("+", ".")}:  # 1g.10gb+me: Kubernetes writes 1g.10gb.me
            found |= {word, *(f"{name}{join}{word}" for name in of for join in "- ")}
    return frozenset(found)


@functools.lru_cache(maxsize=256)
def _names(vendor: str, model: str, memory_bytes: int | None) -> frozenset[str]:
    words = re.findall(r"[a-z0-9.+]+", re.sub(r"\((r|tm|c)\)", " ", model.lower()))
    size = _sold_size(words, memory_bytes)
    found = {vendor.lower(), model.lower()}
    for sequence in _sequences(words):
        found.update(_spellings(sequence))
        if size and size not in sequence:
            found.update(_spellings((*sequence, size)))
    return frozenset(found)


def _sequences(words: list[str]) -> Iterator[tuple[str, ...]]:
    """Every choice of the model's words, in order, that holds each word which tells it from other models."""
    needed = [place for place in range(len(words)) if _tells(words, place)]
    if not needed:
        return
    for length in range(len(needed), min(_LONGEST, len(words)) + 1):
        for places in combinations(range(len(words)), length):
            if set(needed) <= set(places):
                chosen = tuple(words[place] for place in places)
                yield chosen
                yield tuple(re.sub(r"^sxm\d$", "sxm", word) for word in chosen)


def _tells(words: list[str], place: int) -> bool:
    word = words[place]
    if word in _RANK:
        return place + 1 == len(words) or words[place + 1].isdigit()
    return not _FILLER.fullmatch(word) and not _MEMORY.fullmatch(word)


def _spellings(words: tuple[str, ...]) -> Iterator[str]:
    """Joined by a hyphen or a blank, or by nothing where a letter meets a digit: ``RTX4090``, ``6000Ada``, never ``A10080GB``; or all
    by nothing: ``RTXPRO6000``."""
    if not any(_MEMORY.fullmatch(word) for word in words) and not any(
        left[-1].isdigit() and right[0].isdigit() for left, right in pairwise(words)
    ):
        yield "".join(words)
    if len(words) > _LONGEST:
        yield from (join.join(words) for join in "- ")
        return
    joins = [
        ("-", " ", "") if left[-1].isdigit() != right[0].isdigit() and not _MEMORY.fullmatch(right) else ("-", " ")
        for left, right in pairwise(words)
    ]
    for chosen in product(*joins):
        yield words[0] + "".join(join + word for join, word in zip(chosen, words[1:], strict=True))


def _sold_size(words: list[str], memory_bytes: int | None) -> str | None:
    """``80gb``: said by the model's name, else the size sold that is at most 7 % above what the driver reports."""
    said = next((word for word in words if _MEMORY.fullmatch(word)), None)
    if said is not None:
        return f"{re.sub(r'[^0-9]', '', said)}gb"
    gib = (memory_bytes or 0) / 1024**3
    size = next((size for size in _SIZES_GB if 0.93 * size <= gib <= 1.01 * size), None)
    return f"{size}gb" if size else None
