"""The weight format that a ``config.json`` declares. Each quantising program has its own words; headers, where there are any, are exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.sizing.quantization import Scheme, grouped, scheme


def scheme_from_config(config: Mapping[str, Any], default: str = "bf16") -> Scheme:
    """From ``quantization_config``, else MLX's ``quantization``, else the dtype; ``default`` where none says anything that we know."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    declared = config.get("quantization_config") or inner.get("quantization_config") or config.get("compression_config")
    mlx = config.get("quantization")
    found = _declared(declared) if isinstance(declared, Mapping) else _mlx(mlx) if isinstance(mlx, Mapping) else None
    if found is not None:
        return found
    dtype = config.get("torch_dtype") or config.get("dtype") or inner.get("torch_dtype") or inner.get("dtype")
    try:
        return scheme(str(dtype or default).removeprefix("torch."))
    except KeyError:
        return scheme(default)


def _declared(said: Mapping[str, Any]) -> Scheme | None:
    method = str(said.get("quant_method", "")).lower()
    algorithm = f"{said.get('quant_algo', '')} {said.get('fmt', '')}".lower()
    if "nvfp4" in algorithm:
        return scheme("nvfp4")
    if "fp8" in method or "fp8" in algorithm:
        return scheme("fp8")
    if method == "mxfp4":
        return scheme("mxfp4")
    if method == "bitsandbytes":
        if said.get("load_in_8bit"):
            return scheme("int8")
        return scheme("nf4-dq" if said.get("bnb_4bit_use_double_quant") else "nf4")
    if method == "aqlm":
        codes = _number(said, "num_codebooks", 1) * _number(said, "nbits_per_codebook", 16)
        bits = codes / (_number(said, "in_group_size", 8) * _number(said, "out_group_size", 1))
        return Scheme(f"aqlm-{bits:g}bit", bits / 8, 2.0, packed=True)
    group = _first_group(said)
    if group is not None:
        return _of_group(group)
    if method in ("gptq", "awq", "auto-round", "intel/auto-round", "compressed-tensors", "hqq", "quark"):
        return _integers("awq" if method == "awq" else "gptq", _number(said, "bits", _number(said, "w_bit", 4)), said)
    words = f"{method} {said.get('weights', '')} {said.get('quant_type', '')}".lower()
    if "int4" in words:
        return scheme("gptq-int4")
    return scheme("int8") if "int8" in words or method == "eetq" else scheme("fp8") if "float8" in words else None


def _first_group(said: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """compressed-tensors describes groups of layers; the first one's weights stand for all."""
    groups = said.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if isinstance(weights, Mapping):
            return weights
    hqq = said.get("quant_config")
    weights = hqq.get("weight_quant_params") if isinstance(hqq, Mapping) else None
    return {"num_bits": weights.get("nbits"), **weights} if isinstance(weights, Mapping) else None


def _of_group(weights: Mapping[str, Any]) -> Scheme:
    bits = _number(weights, "num_bits", 4)
    if str(weights.get("type")) == "float":
        return scheme("fp8" if bits > 4 else "nvfp4")
    if bits == 8 and not _number(weights, "group_size", 0):
        return scheme("int8")
    return _integers("gptq", bits, weights)


def _integers(name: str, bits: int, said: Mapping[str, Any]) -> Scheme:
    """Packed integers with a scale and a zero point a group; a scale a column where the group is the whole (-1)."""
    group = _number(said, "group_size", 128)
    usual = scheme(f"{name}-int{bits}") if (name, bits) in (("awq", 4), ("gptq", 4), ("gptq", 8)) else None
    if usual is not None and group == 128:
        return usual
    size = grouped(bits, group) if group else bits / 8
    return Scheme(f"{name}-int{bits}", size, 2.0, packed=name == "gptq", fused_rotary=name == "awq")


def _mlx(said: Mapping[str, Any]) -> Scheme:
    bits, group = _number(said, "bits", 4), _number(said, "group_size", 64) or 64
    size = bits / 8 + 4 / group  # a scale and a bias of 16 bits a group, embedding and head included
    return Scheme(f"mlx-{bits}bit", size, size)


def _number(said: Mapping[str, Any], key: str, default: int) -> int:
    """A count that makes sense; 0 for a group of -1."""
    value = said.get(key)
    if type(value) is not int or value > 1 << 20:
        return default
    return max(0, value) if key == "group_size" else value if value > 0 else default
