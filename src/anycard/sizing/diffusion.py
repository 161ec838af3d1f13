"""Memory of an image model, component by component: text encoders, denoiser, decoder. Weights are exact from the headers.

Only serving: fine-tunes of image models are not sized yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anycard.model.text import Text
from anycard.sizing.estimate import Estimate, Part
from anycard.sizing.options import Option
from anycard.units import MIB

_CONTEXT = 450 * MIB
# Decoding at full size: two feature maps of 256 channels in half precision, their FP32 normalisation and a convolution's workspace, a
# pixel (the decoder of AutoencoderKL, block_out_channels 128-512; diffusers src/diffusers/models/autoencoders/vae.py).
_DECODE_BYTES_A_PIXEL = 256 * (2 + 2 + 4) + 128 * 2
# The denoiser works on latents an eighth as wide and high; hidden states and attention of a block, a latent position.
_DENOISE_BYTES_A_POSITION = 64 * 1024
_LATENT = 8 * 8


@dataclass(frozen=True, slots=True)
class Component:
    """``name`` is its folder (``unet``, ``transformer``, ``vae``, ``text_encoder`` ...)."""

    name: str
    weight_bytes: int
    largest_bytes: int


def estimate_diffusion(components: Sequence[Component], *, width: int, height: int, batch: int = 1) -> Estimate:
    """Everything on one card at once, as pipelines run by default. ``low_bytes``: with each component moved in when it is used."""
    decode, denoise = _compute_bytes(width * height * batch)
    parts = [Part(component.name, component.weight_bytes) for component in components]
    parts.append(Part("compute", max(decode, denoise), Text("the larger of denoising and decoding the image")))
    parts.append(Part("runtime_context", _CONTEXT, runtime=True))
    weights = sum(component.weight_bytes for component in components)
    return Estimate(
        tuple(parts),
        low_bytes=_largest(components) + _CONTEXT + min(decode, denoise) // 2,
        high_bytes=round(weights * 1.02) + _CONTEXT + 2 * max(decode, denoise),
        largest_buffer_bytes=max((component.largest_bytes for component in components), default=0),
    )


def diffusion_options(
    components: Sequence[Component], usable_bytes: int, *, width: int, height: int, batch: int = 1
) -> tuple[Option, ...]:
    """What would make it fit a card of ``usable_bytes``, with the price in words."""
    weights = sum(component.weight_bytes for component in components)
    decode, denoise = _compute_bytes(width * height * batch)
    compute = max(decode, denoise)
    one = max(_compute_bytes(width * height))
    small = max(_compute_bytes(width * height * batch // 4))
    found = [
        (
            "offload",
            _largest(components) + compute,
            Text("each component moved in when it is used: seconds more a picture"),
        ),
        ("tiled-decode", weights + denoise, Text("the picture decoded in tiles: a little slower, seams are rare")),
        (
            "quantise-fp8",
            _shrunk(components, 0.5) + compute,
            Text("the denoiser and the text encoders at 8 bits: hardly any loss"),
        ),
        (
            "quantise-nf4",
            _shrunk(components, 0.28) + compute,
            Text("the denoiser and the text encoders at 4 bits: some loss of detail"),
        ),
        ("smaller-picture", weights + small, Text("half as wide and half as high")),
    ]
    if batch > 1:
        found.append(("smaller-batch", weights + one, Text("one picture at a time")))
    halved = [replace(one, weight_bytes=one.weight_bytes // 2) for one in components]
    found.append(
        (
            "offload-fp8",
            _one_at_a_time(halved, decode, denoise),
            Text("8 bits, and each component moved in when it is used"),
        )
    )
    needs = [(name, need + _CONTEXT, price) for name, need, price in found if need < weights + compute]
    return tuple(Option(name, need, need <= usable_bytes, price) for name, need, price in needs)


def _compute_bytes(pixels: int) -> tuple[int, int]:
    """(decoding, denoising): the latter with and without the prompt, for guidance."""
    return pixels * _DECODE_BYTES_A_PIXEL, -(-pixels // _LATENT) * 2 * _DENOISE_BYTES_A_POSITION


def _largest(components: Sequence[Component]) -> int:
    return max((component.weight_bytes for component in components), default=0)


def _one_at_a_time(components: Sequence[Component], decode: int, denoise: int) -> int:
    return max(one.weight_bytes + (decode if one.name.startswith("vae") else denoise) for one in components)


def _shrunk(components: Sequence[Component], share: float) -> int:
    """Decoders stay as they are: they are small, and rounding shows."""
    return sum(round(one.weight_bytes * (1 if one.name.startswith("vae") else share)) for one in components)
