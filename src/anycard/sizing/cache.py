"""The key-value cache, exact to the byte."""

from __future__ import annotations

from anycard.sizing.shape import ModelShape


def cache_bytes(
    shape: ModelShape, context: int, batch: int = 1, *, element_bytes: float = 2.0, full_windows: bool = False
) -> int:
    """Bytes that ``batch`` sequences of ``context`` tokens keep.

    ``full_windows``: the server keeps sliding layers in full (vLLM without a hybrid allocator, transformers' dynamic cache before
    4.56). State-space and linear layers keep FP32 states, whatever the context.
    """
    total = 0.0
    for group in shape.cache:
        tokens = context if group.window is None or full_windows else min(context, group.window)
        total += group.layers * (group.elements_per_token * tokens * element_bytes + group.state_elements * 4)
    return round(total * batch)
