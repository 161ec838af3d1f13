"""Model names as people write them, and the rows of the table that they can mean.

A name is taken apart into words: family, version, size, variant, weight format. A row is meant only if every word of the name is one of
the row's, or says nothing about its shape (Instruct, GGUF, a date). A word that nobody here knows rules the row out: a model is never taken
for another one in silence.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_LENGTH_MAX = 200
# Words that do not change a shape: who tuned it, how it was packed, when.
_SAYS_NOTHING = frozenset(
    ("instruct", "chat", "it", "hf", "base", "pt", "gguf", "mlx", "meta", "qat", "quantized", "dynamic", "unsloth")
)  # fmt: skip
_DATE_OR_CONTEXT = re.compile(r"\d{4}|\d{6}|\d{8}|\d+k")
_EDITION = re.compile(r"v(0\.\d+|1(\.0)?)")  # of a checkpoint (Mixtral-8x7B-v0.1), not of a family (DeepSeek-V3)
_EDGE = r"(?:^|(?<=[^a-z0-9])){}(?![a-z0-9])"
_TOP_K = r"i?q[1-8]_(?:k_?(?:xxl|xl|l|m|s)|k|xxs|xs|nl|s|m|0|1)"
# (as written, the format that it means); {0} is what matched. The longer ones first.
_FORMATS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(_EDGE.format(pattern)), meant)
    for pattern, meant in (
        (r"(?:ud[-_ ])?" + _TOP_K, "{0}"),
        (r"tq[12]_0|mxfp4(?:_moe)?|nvfp4|bf16|fp16|f16|fp32|f32", "{0}"),
        (r"mlx[-_ ]?8[-_ ]?bit", "mlx-8bit"),
        (r"mlx[-_ ]?4[-_ ]?bit", "mlx-4bit"),
        (r"bnb[-_ ]?4[-_ ]?bit|nf4|bnb", "nf4"),
        (r"bnb[-_ ]?8[-_ ]?bit", "int8"),
        (r"gptq[-_ ]?(?:int)?8(?:[-_ ]?bit)?|w8a16", "gptq-int8"),
        (r"gptq(?:[-_ ]?(?:int)?4(?:[-_ ]?bit)?)?|w4a16|int4|4[-_ ]?bit", "gptq-int4"),
        (r"awq(?:[-_ ]?(?:int)?4(?:[-_ ]?bit)?)?", "awq-int4"),
        (r"fp8(?:[-_ ](?:dynamic|block|kv))*|float8", "fp8"),
        (r"w8a8|int8|8[-_ ]?bit", "int8"),
        (r"q2", "q2_k"),
        (r"q3", "q3_k_m"),
        (r"q4", "q4_k_m"),
        (r"q5", "q5_k_m"),
        (r"q6", "q6_k"),
        (r"q8", "q8_0"),
    )
)
_PATH = re.compile(r"^(/|~|\.{1,2}/|[A-Za-z]:\\)|\.(gguf|safetensors|bin|pt|onnx)$")


@dataclass(frozen=True, slots=True)
class Asked:
    """``words``: what decides the shape, in order; ``quant``: the weight format that the name says, None where it says none."""

    words: tuple[str, ...]
    quant: str | None


def is_path(reference: str) -> bool:
    """Whether ``reference`` can only mean a file or a folder: no name in a table is taken for one that is missing."""
    return bool(_PATH.search(reference)) or reference.count("/") > 2


@lru_cache(maxsize=1024)
def parse_name(name: str) -> Asked:
    """``hf.co/unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL``: qwen 3 8b, ud-q4_k_xl."""
    publisher, _, last = name[:_LENGTH_MAX].lower().rpartition("/")
    last = last.replace("quantized.", "")
    if "mlx" in publisher:
        last = re.sub(r"(?<![a-z0-9])(4|8)[-_ ]?bit", r"mlx-\1bit", last)
    quant: str | None = None
    for pattern, meant in _FORMATS:
        match = pattern.search(last)
        if match:
            # GPTQ-Int8 says how much of what; a further word of the kind (AWQ 4bit) says no more
            quant = quant or meant.format(match[0].replace("ud_", "ud-").replace("ud ", "ud-"))
            last = last[: match.start()] + " " + last[match.end() :]
    words = [word for part in re.split(r"[\s_:\-.]+(?!\d)|[\s_:\-]+", last) for word in _split(part)]
    return Asked(tuple(word for word in words if word not in _SAYS_NOTHING), quant)


def meant_by(asked: Asked, names: Iterable[str]) -> str | None:
    """The one of ``names`` that has exactly the words of ``asked``; None if none has, or several. A checkpoint's edition (v0.1), its date
    and its context (128k) count where rows differ by them."""
    if not asked.words:
        return None
    rows = [(name, parse_name(name).words) for name in names]
    for words in (asked.words, _lasting(asked.words), _dotted(_lasting(asked.words))):
        found = [name for name, row in rows if words and sorted(row) == sorted(words)]
        if found:
            return found[0] if len(found) == 1 else None
    if _lasting(asked.words) == asked.words:  # the name has no edition and one row alone has: Jamba is Jamba-v0.1
        found = [name for name, row in rows if sorted(_lasting(row)) == sorted(asked.words)]
        return found[0] if len(found) == 1 else None
    return None


def nearest(asked: Asked, names: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Names that share the family and most words, the nearest first; none where nothing is near."""
    if not asked.words:
        return ()
    joined = " ".join(asked.words)
    scored: list[tuple[float, str]] = []
    for name in names:
        words = parse_name(name).words
        family = bool(words) and words[0] == asked.words[0]
        shared = len(set(words) & set(asked.words)) / max(len(words), len(asked.words), 1)
        likeness = difflib.SequenceMatcher(None, joined, " ".join(words)).ratio()
        if family or likeness >= 0.6:
            scored.append((-(shared + likeness + family), name))
    return tuple(name for _, name in sorted(scored, key=lambda pair: pair[0])[:most])


def _lasting(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if not _EDITION.fullmatch(word) and not _DATE_OR_CONTEXT.fullmatch(word))


def _dotted(words: tuple[str, ...]) -> tuple[str, ...]:
    """A version in two words (llama-3-1-8b) as one."""
    return tuple(re.sub(r"(?<![^ ])(\d) (\d)(?![^ ])", r"\1.\2", " ".join(words)).split())


def _split(word: str) -> list[str]:
    """``llama3.1``, ``qwen2.5vl`` and ``smollm2`` into family, version and what follows; ``r1``, ``a3b``, ``8x7b``, ``v0.3`` are whole."""
    match = re.fullmatch(r"([a-z]{2,})(\d[\w.]*)", word)
    if match:
        return [match[1], *_split(match[2])]
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]{2,})", word)
    if match:
        return [match[1], match[2]]
    return [word] if word else []
