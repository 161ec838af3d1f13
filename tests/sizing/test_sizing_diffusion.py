"""Image models by component."""

from __future__ import annotations

import json

import pytest
from sizing_headers import safetensors

from anycard.errors import NotFoundError
from anycard.sizing.diffusion import Component, diffusion_options, estimate_diffusion
from anycard.sizing.files import is_diffusion, load_diffusion

PARTS = (Component("text_encoder", 10**9, 10**8), Component("unet", 5 * 10**9, 10**8), Component("vae", 10**8, 10**7))


def test_every_component_is_a_line():
    estimate = estimate_diffusion(PARTS, width=1024, height=1024)
    assert {part.name for part in estimate.parts} >= {"text_encoder", "unet", "vae"}
    assert estimate.low_bytes < estimate.total_bytes < estimate.high_bytes


@pytest.mark.parametrize("larger", [{"width": 2048}, {"height": 1088}, {"batch": 2}])
def test_larger_pictures_need_more(larger):
    size = {"width": 1024, "height": 1024, "batch": 1}
    assert estimate_diffusion(PARTS, **{**size, **larger}).total_bytes > estimate_diffusion(PARTS, **size).total_bytes


def test_a_folder_of_components(tmp_path):
    index = {
        "_class_name": "Pipe",
        "unet": ["diffusers", "UNet"],
        "vae": ["diffusers", "VAE"],
        "scheduler": ["diffusers", "S"],
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    for name, suffixes in {"unet": ("", ".fp16"), "vae": (".fp16",)}.items():
        (tmp_path / name).mkdir()
        for suffix in suffixes:
            content = safetensors({"t": ("F32", [10], 40)} if not suffix else {"t": ("F16", [10], 20)})
            (tmp_path / name / f"model{suffix}.safetensors").write_bytes(content)
    assert is_diffusion(str(tmp_path))
    assert load_diffusion(str(tmp_path)) == (Component("unet", 40, 40), Component("vae", 20, 20))


def test_a_folder_without_weights_is_named(tmp_path):
    (tmp_path / "model_index.json").write_text('{"unet": ["diffusers", "UNet"]}')
    with pytest.raises(NotFoundError, match="none of their weights"):
        load_diffusion(str(tmp_path))


def test_what_would_make_an_image_model_fit():
    need = estimate_diffusion(PARTS, width=1024, height=1024, batch=2).total_bytes
    options = {one.name: one for one in diffusion_options(PARTS, 8 * 10**9, width=1024, height=1024, batch=2)}
    assert set(options) >= {"offload", "quantise-fp8", "smaller-picture", "smaller-batch", "offload-fp8"}
    assert all(one.total_bytes < need for one in options.values())
    assert options["offload-fp8"].total_bytes < options["offload"].total_bytes
    assert options["offload-fp8"].fits and not options["smaller-batch"].fits


def test_components_are_folders_inside(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model_index.json").write_text(json.dumps({"..": ["a", "b"], "../other": ["a", "b"]}))
    (tmp_path / "m.safetensors").write_bytes(safetensors({"t": ("F32", [10], 40)}))
    with pytest.raises(NotFoundError, match="none of their weights"):
        load_diffusion(str(tmp_path / "model"))
