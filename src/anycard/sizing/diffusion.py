"""Memory of an image model, component by component: text encoders, denoiser, decoder. Weights are exact from the headers.

Only serving: fine-tunes of image models are not sized yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anycard.model.text import Text
from anycard.sizing.estimate import Estimate, Part
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
    pixels = width * height * batch
    decode = pixels * _DECODE_BYTES_A_PIXEL
    denoise = -(-pixels // _LATENT) * 2 * _DENOISE_BYTES_A_POSITION  # with and without the prompt (guidance)
    parts = [Part(component.name, component.weight_bytes) for component in components]
    parts.append(Part("compute", max(decode, denoise), Text("the larger of denoising and decoding the image")))
    parts.append(Part("runtime_context", _CONTEXT, runtime=True))
    total = sum(part.size_bytes for part in parts)
    largest = max((component.weight_bytes for component in components), default=0)
    weights = sum(component.weight_bytes for component in components)
    return Estimate(
        tuple(parts),
        low_bytes=largest + _CONTEXT + min(decode, denoise) // 2,
        high_bytes=round(weights * 1.02) + _CONTEXT + 2 * max(decode, denoise),
        largest_buffer_bytes=max((component.largest_bytes for component in components), default=0),
        warnings=(
            Text(
                "moving each component in when it is used needs about {mib} MiB, and is slower",
                {"mib": round(largest / MIB)},
            ),
        )
        if largest < total // 2
        else (),
    )
