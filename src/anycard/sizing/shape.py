"""The architecture of a model, as far as memory and time depend on it. Pure values; counts are exact integers."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """``layers`` attention layers that keep the same cache.

    ``elements_per_token``: K and V together (GQA, MQA: 2 x KV heads x head size; MLA: the compressed latent and the shared rotary
    part). ``window``: a sliding window keeps at most so many tokens. ``state_elements``: fixed per sequence, for linear attention
    and state-space layers, which keep no tokens.
    """

    layers: int
    elements_per_token: int
    window: int | None = None
    state_elements: int = 0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Everything that the formulas need. Parameter counts are split by how quantisation treats them.

    ``linear_params``: matrices inside the blocks, experts included. ``embedding_params``: the token embedding. ``head_params``: the
    output matrix, also where it is tied (``tied``: stored and held once). ``other_params``: norms, biases, routers, vision towers.
    """

    name: str
    n_layer: int
    hidden: int
    n_head: int
    n_kv_head: int
    head_dim: int
    vocab: int
    intermediate: int
    linear_params: int
    embedding_params: int
    head_params: int
    other_params: int
    tied: bool
    cache: tuple[CacheGroup, ...]
    gated: bool = True
    parallel_block: bool = False  # attention and MLP side by side (Falcon, GPT-NeoX, Cohere)
    norms_per_layer: int = 2  # Gemma 2 and 3 have four, Falcon one
    eager_attention: bool = False  # capped scores (Gemma 2) rule fused attention kernels out
    n_expert: int = 0
    n_expert_active: int = 0
    active_linear_params: int | None = None  # of a mixture of experts, those that one token passes through
    max_context: int | None = None
    spare_layers: int = (
        0  # stored with key and value matrices that keep no cache: shared ones, those that predict tokens ahead
    )
    known: bool = True  # False: an architecture that we do not know, sizes guessed from its tensors

    @property
    def params(self) -> int:
        """Distinct parameters: a tied head is counted once."""
        head = 0 if self.tied else self.head_params
        return self.linear_params + self.embedding_params + head + self.other_params

    @property
    def active_params(self) -> int:
        """Parameters that one token's forward pass multiplies with (the embedding is a look-up)."""
        linear = self.linear_params if self.active_linear_params is None else self.active_linear_params
        return linear + self.head_params + self.other_params

    def untied(self) -> ModelShape:
        """The same model with its output matrix held a second time."""
        return replace(self, tied=False)


def block_params(
    *,
    hidden: int,
    n_head: int,
    n_kv_head: int,
    head_dim: int,
    intermediate: int,
    gated: bool,
    n_expert: int = 0,
    expert_intermediate: int = 0,
    shared_intermediate: int = 0,
) -> tuple[int, int, int]:
    """(attention, MLP, router) parameters of one block's matrices; an expert block's MLP counts every expert."""
    attention = hidden * head_dim * (2 * n_head + 2 * n_kv_head)
    matrices = 3 if gated else 2
    if not n_expert:
        return attention, matrices * hidden * intermediate, 0
    experts = n_expert * matrices * hidden * expert_intermediate + matrices * hidden * shared_intermediate
    return attention, experts, hidden * n_expert


def shape_from_sizes(
    *,
    name: str,
    n_layer: int,
    hidden: int,
    n_head: int,
    n_kv_head: int,
    head_dim: int,
    vocab: int,
    intermediate: int,
    params: int | None = None,
    n_expert: int = 0,
    n_expert_active: int = 0,
) -> ModelShape:
    """A dense or expert decoder from its bare sizes.

    Whether the MLP is gated and the head tied is not among them: with ``params`` given, the combination whose count is nearest is
    taken; what remains is put to ``other_params`` so that the total is exactly ``params``. Without it: gated and untied.
    """
    candidates: list[tuple[float, bool, bool]] = []
    for gated in (True, False):
        attention, mlp, router = block_params(
            hidden=hidden,
            n_head=n_head,
            n_kv_head=n_kv_head,
            head_dim=head_dim,
            intermediate=intermediate,
            gated=gated,
            n_expert=n_expert,
            expert_intermediate=intermediate if n_expert else 0,
        )
        for tied in (False, True):
            total = n_layer * (attention + mlp + router) + vocab * hidden * (1 if tied else 2)
            miss = abs(total - params) if params else 0 if gated and not tied else 1
            candidates.append((miss, gated, tied))
    _, gated, tied = min(candidates, key=lambda candidate: candidate[0])
    attention, mlp, router = block_params(
        hidden=hidden,
        n_head=n_head,
        n_kv_head=n_kv_head,
        head_dim=head_dim,
        intermediate=intermediate,
        gated=gated,
        n_expert=n_expert,
        expert_intermediate=intermediate if n_expert else 0,
    )
    linear = n_layer * (attention + mlp)
    norms = n_layer * (2 * hidden + router) + hidden
    family = name.lower()
    four_norms = "gemma-2-" in family or "gemma2" in family or "gemma-3" in family or "gemma3" in family
    table = vocab * hidden
    if params:
        rest = params - linear - table * (1 if tied else 2)
        norms, linear = (rest, linear) if rest >= 0 else (0, linear + rest)
    active = n_layer * (attention + mlp * n_expert_active // n_expert) if n_expert else None
    return ModelShape(
        name=name,
        n_layer=n_layer,
        hidden=hidden,
        n_head=n_head,
        n_kv_head=n_kv_head,
        head_dim=head_dim,
        vocab=vocab,
        intermediate=intermediate,
        linear_params=linear,
        embedding_params=table,
        head_params=table,
        other_params=norms,
        tied=tied,
        cache=(CacheGroup(n_layer, 2 * n_kv_head * head_dim),),
        gated=gated,
        parallel_block=not gated,
        norms_per_layer=4 if four_norms else 1 if n_kv_head == 1 and not gated else 2,
        eager_attention="gemma-2-" in family or "gemma2" in family,
        n_expert=n_expert,
        n_expert_active=n_expert_active,
        active_linear_params=active,
    )
