"""The key-value cache, exact to the byte."""

from __future__ import annotations

from anycard.sizing.shape import ModelShape

_PAD = 256


def cache_bytes(
    shape: ModelShape,
    context: int,
    batch: int = 1,
    *,
    element_bytes: float = 2.0,
    full_windows: bool = False,
    window_extra: int = 0,
) -> int:
    """Bytes that ``batch`` sequences of ``context`` tokens keep.

    ``full_windows``: the server keeps sliding layers in full (vLLM without a hybrid allocator, transformers' dynamic cache before
    4.56). ``window_extra``: tokens that it keeps beside a window, the sum rounded up to 256 (llama.cpp: a micro-batch). State-space and
    linear layers keep FP32 states, whatever the context.
    """
    total = 0.0
    for group in shape.cache:
        tokens = context if group.window is None or full_windows else windowed(context, group.window, window_extra)
        total += group.layers * (group.elements_per_token * tokens * element_bytes + group.state_elements * 4)
    return round(total * batch)


def windowed(context: int, window: int, extra: int = 0) -> int:
    """Tokens that a sliding layer keeps (llama-kv-cache-iswa.cpp, where there is an ``extra``)."""
    if not extra:
        return min(context, window)
    return min(context, -(-(window + extra) // _PAD) * _PAD)
