"""This Python and the packages in it that talk to cards, by their metadata: nothing is imported."""

from __future__ import annotations

import importlib.metadata
import platform

from anycard.host.host import Json

PACKAGES = (
    "torch", "torchvision", "torchaudio", "torch-npu", "torch-musa", "torch-mlu", "torch-xla", "intel-extension-for-pytorch",
    "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "paddlepaddle",
    "paddlepaddle-gpu", "mindspore", "triton", "xformers", "flash-attn", "vllm", "vllm-ascend", "sglang", "bitsandbytes", "deepspeed",
    "transformers", "accelerate", "lightning", "onnxruntime", "onnxruntime-gpu", "openvino", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x",
    "llama-cpp-python", "xllamacpp", "nvidia-ml-py", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime",
    "nvidia-cudnn-cu11", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "amdsmi", "numpy",
)  # fmt: skip


def look() -> Json:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"version": platform.python_version(), "implementation": platform.python_implementation(), "packages": found}
