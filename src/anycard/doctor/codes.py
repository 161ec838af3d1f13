"""Error codes and their many spellings: a program prints the number, the runtime's name, the driver's name or the sentence."""

from __future__ import annotations

from anycard.doctor.rule import Seen

# Code -> (runtime's name, driver's name, sentence, code of the runtime before CUDA 10.1).
# Source: CUDA 12 and CUDA 10.0 headers, enums cudaError and CUresult.
_CUDA: dict[int, tuple[str, str, str, int | None]] = {
    2: ("MemoryAllocation", "OUT_OF_MEMORY", "out of memory", None),
    3: ("InitializationError", "NOT_INITIALIZED", "initialization error", None),
    35: ("InsufficientDriver", "INSUFFICIENT_DRIVER", "driver version is insufficient for CUDA runtime version", None),
    46: ("DevicesUnavailable", "DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable", None),
    100: ("NoDevice", "NO_DEVICE", "no CUDA-capable device is detected", 38),
    101: ("InvalidDevice", "INVALID_DEVICE", "invalid device ordinal", 10),
    209: ("NoKernelImageForDevice", "NO_BINARY_FOR_GPU", "no kernel image is available for execution", 48),
    214: ("ECCUncorrectable", "ECC_UNCORRECTABLE", "uncorrectable ECC error encountered", 39),
    220: ("NvlinkUncorrectable", "NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected", None),
    222: ("UnsupportedPtxVersion", "UNSUPPORTED_PTX_VERSION", "PTX was compiled with an unsupported toolchain", None),
    700: ("IllegalAddress", "ILLEGAL_ADDRESS", "an illegal memory access was encountered", 77),
    702: ("LaunchTimeout", "LAUNCH_TIMEOUT", "the launch timed out and was terminated", 6),
    802: ("SystemNotReady", "SYSTEM_NOT_READY", "system not yet initialized", None),
    803: (
        "SystemDriverMismatch",
        "SYSTEM_DRIVER_MISMATCH",
        "unsupported display driver / cuda driver combination",
        None,
    ),
    804: ("CompatNotSupportedOnDevice", "COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted", None),
    999: ("Unknown", "UNKNOWN", "CUDA unknown error", 30),
}

# NVML's return values. Source: nvml.h, enum nvmlReturn_t.
_NVML: dict[int, tuple[str, str]] = {
    4: ("NO_PERMISSION", "Insufficient Permissions"),
    9: ("DRIVER_NOT_LOADED", "Driver Not Loaded"),
    12: ("LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"),
    15: ("GPU_IS_LOST", "GPU is lost"),
    16: ("RESET_REQUIRED", "GPU requires reset"),
    17: ("OPERATING_SYSTEM", "GPU access blocked by the operating system"),
    18: ("LIB_RM_VERSION_MISMATCH", "Driver/library version mismatch"),
}


# What else programs say for it.
_ALSO = {702: (r"launch exceeded timeout",), 2: (r"CUDA out of memory",)}


def cuda(code: int) -> Seen:
    """A CUDA error in any spelling. KeyError for a code that the table does not hold."""
    name, constant, sentence, old = _CUDA[code]
    numbers = f"(?:{code}|{old})" if old else str(code)
    spelled = [
        rf"cudaError{name}\b",
        rf"CUDA_ERROR_{constant}\b",
        _plain(sentence),
        *_ALSO.get(code, ()),
        rf"CUDA.{{0,12}}\berror(?: code)? ?[:=(#]? ?{code}\b",
        rf"\b(?:cuda[A-Z]\w+|cuInit|cuDeviceGet\w*|cuCtxCreate\w*)\b.{{0,40}}(?:returned|fail\w*|error|code|->|=).{{0,12}}\b{numbers}\b",
    ]
    if code >= 100:
        spelled.append(rf"\bError {code}:")
        spelled.append(rf"failure: {code}\b")
    return Seen(tuple(spelled))


def nvml(code: int) -> Seen:
    """An NVML error in any spelling: constant, sentence, pynvml's class, number."""
    constant, sentence = _NVML[code]
    camel = "".join(part.capitalize() for part in constant.split("_"))
    return Seen(
        (
            rf"\bERROR_{constant}\b",
            rf"NVML_ERROR_{constant}\b",
            rf"NVMLError_{camel}\b",
            _plain(sentence),
            rf"\bnvml\w*.{{0,40}}(?:returned|error|code|failure) ?:? ?{code}\b",
        )
    )


def _plain(sentence: str) -> str:
    return "".join(f"\\{character}" if character in "().?*+|[]" else character for character in sentence)
