"""How a program is told which cards are its own: each vendor's environment variables. A program that holds none of a vendor's cards
sees none of them.

What hides everything differs, and an empty value is not always it:
- CUDA: empty means no card (CUDA programming guide, environment variables). Of a MIG instance the variable holds its UUID and nothing else:
  no grant has two, nor one beside a whole card (cards/mig.py says why).
- ROCm: ROCR_VISIBLE_DEVICES empty means no card (ROCR-Runtime, RvdFilter::SelectZeroDevices); HIP takes an empty HIP_VISIBLE_DEVICES for
  unset and then looks at CUDA_VISIBLE_DEVICES, but stops at the first index that it does not know: -1 (clr, rocdevice.cpp).
- Level Zero takes an empty ZE_AFFINITY_MASK for unset, and passes over numbers that are no card (compute-runtime, parseAffinityMask). It
  numbers cards by bus address only under ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 (compute-runtime, sortNeoDevices), and counts each tile of a Max
  card as a device unless the hierarchy is COMPOSITE (Level Zero specification, ZE_FLAT_DEVICE_HIERARCHY). The mask means nothing to
  OpenCL, through which SYCL finds the same cards: ONEAPI_DEVICE_SELECTOR discards those; discarding filters alone accept all else
  (DPC++, device_filter.cpp).
- CANN reads ids up to the first that is none and takes ascending order alone; an id is the chip's logical one (CANN 8.5, environment
  variable reference; CANN 6.3 names -1 as one that ends the list).
- P800 under PyTorch: CUDA_VISIBLE_DEVICES must say the same as XPU_VISIBLE_DEVICES (sglang for Kunlun sets the one to the other); its
  PyTorch device is ``cuda`` (vllm-kunlun, KunlunPlatform.device_type).
- MUSA_VISIBLE_DEVICES (vllm and sglang for MUSA), MLU_VISIBLE_DEVICES (Ray's manager for MLU), TOPS_VISIBLE_DEVICES (vllm for GCU) and
  XPU_VISIBLE_DEVICES (vllm-kunlun, FastDeploy) are the names that public code sets; that an unknown index ends their list, as CUDA's does,
  was not tried on such cards.
- MetaX and Iluvatar take CUDA_VISIBLE_DEVICES. MetaX has MACA_VISIBLE_DEVICES too; what both mean
  together is written nowhere, so one is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anycard.model.card import Card


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    hides: str
    vendors: frozenset[str]
    by_uuid: bool = False  # else by the vendor's index
    renumbered: bool = False  # counts the cards that a variable before it left visible


def _of(*vendors: str) -> frozenset[str]:
    return frozenset(vendors)


_ROCM = _of("amd", "hygon")
_VARIABLES = (
    # Iluvatar, MetaX and Kunlunxin run CUDA programs and read CUDA's variable
    _Variable("CUDA_VISIBLE_DEVICES", "", _of("nvidia", "iluvatar", "metax", "kunlunxin"), by_uuid=True),
    _Variable("ROCR_VISIBLE_DEVICES", "", _ROCM, by_uuid=True),
    _Variable("HIP_VISIBLE_DEVICES", "-1", _ROCM, renumbered=True),
    _Variable("ZE_AFFINITY_MASK", "65535", _of("intel")),
    _Variable("ASCEND_RT_VISIBLE_DEVICES", "-1", _of("ascend")),
    _Variable("MUSA_VISIBLE_DEVICES", "-1", _of("moorethreads")),
    _Variable("MLU_VISIBLE_DEVICES", "-1", _of("cambricon")),
    _Variable("TOPS_VISIBLE_DEVICES", "-1", _of("enflame")),
    _Variable("XPU_VISIBLE_DEVICES", "-1", _of("kunlunxin")),
)

# vendor -> what PyTorch calls its devices
_TORCH_DEVICE = {
    "nvidia": "cuda",
    "amd": "cuda",
    "hygon": "cuda",
    "iluvatar": "cuda",
    "metax": "cuda",
    "kunlunxin": "cuda",
    "intel": "xpu",
    "ascend": "npu",
    "moorethreads": "musa",
    "cambricon": "mlu",
    "enflame": "gcu",
    "apple": "mps",
}


def visibility_env(cards: Sequence[Card]) -> dict[str, str]:
    """The variables for a program that holds ``cards`` and no others (the CPU among them counts for nothing), and ANYCARD_DEVICE: the
    PyTorch device of the first card, ``cpu`` without one. Apple's card cannot be hidden: Metal has no such variable."""
    held = [card for card in cards if card.is_accelerator]
    env = {variable.name: _value(variable, held) for variable in _VARIABLES}
    env |= _intel(any(card.vendor == "intel" for card in held))
    if any(card.vendor == "nvidia" for card in held):
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order of nvidia-smi
    env["ANYCARD_DEVICE"] = _TORCH_DEVICE.get(held[0].vendor, "cpu") if held else "cpu"
    return env


def _intel(held: bool) -> dict[str, str]:
    """What makes the numbers in ZE_AFFINITY_MASK ours, and keeps OpenCL from going round it."""
    if not held:
        return {"ONEAPI_DEVICE_SELECTOR": "!level_zero:*;!opencl:gpu"}
    return {
        "ONEAPI_DEVICE_SELECTOR": "!opencl:gpu",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
        "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE",
    }


def _value(variable: _Variable, held: Iterable[Card]) -> str:
    cards = sorted((card for card in held if card.vendor in variable.vendors), key=lambda card: card.index)
    if not cards:
        return variable.hides
    if variable.renumbered:
        return ",".join(map(str, range(len(cards))))
    # one list may not mix the two forms
    if variable.by_uuid and all(card.uuid and card.uuid.startswith(("GPU-", "MIG-")) for card in cards):
        return ",".join(str(card.uuid) for card in cards)
    return ",".join(str(card.index) for card in cards)
