"""Frameworks: which build is installed, for which card and driver."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.chips import KEPLER, PASCAL, VOLTA, oldest_card
from anycard.doctor.codes import cuda
from anycard.doctor.facts import numbers
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, measured, on, said, seen, step
from anycard.doctor.shapes import Line, Verdict
from anycard.doctor.tables import cuda_floor_driver

NO_KERNEL = seen(
    *cuda(209).expressions,
    r"no kernel image is available for execution",
    r"cudaErrorNoKernelImageForDevice",
    r"CUDA_ERROR_NO_BINARY_FOR_GPU",
    r"CUDA_ERROR_INVALID_PTX",
    r"invalid device kernel image",
    r"cudaErrorInvalidDeviceFunction",
    r"CUDA error: invalid device function",
)
DRIVER_OLD = seen(
    *cuda(35).expressions,
    *cuda(222).expressions,
    r"CUDA driver version is insufficient for CUDA runtime version",
    r"NVIDIA driver on your system is too old",
    r"cudaErrorInsufficientDriver",
    r"unsatisfied condition: cuda ?>=",
    r"requires? a (?:newer|more recent) (?:NVIDIA |CUDA )?driver",
    r"provided PTX was compiled with an unsupported toolchain",
    r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
)


def _torch_is_cpu_build(case: Case) -> tuple[Line, ...] | None:
    for fact in case.facts("torch"):
        if fact.value.endswith("+cpu"):
            return (fact.line,)
    built = case.fact("torch_built_with_cuda")
    rocm = case.fact("torch_built_with_rocm")
    if built and built.value.lower() in ("none", "n/a", "could") and not (rocm and rocm.value[0].isdigit()):
        return (built.line,)
    return None


def _torch_and_torchvision_differ(case: Case) -> tuple[Line, ...] | None:
    torch, vision = case.fact("torch"), case.fact("torchvision")
    if not torch or not vision:
        return None
    tags = [fact.value.partition("+")[2] for fact in (torch, vision)]
    if all(tags) and tags[0] != tags[1]:
        return (torch.line, vision.line)
    return None


def _driver_below_wheel(case: Case) -> tuple[Line, ...] | None:
    """The wheel's CUDA major needs a newer driver than the one running."""
    driver, torch = case.fact("driver"), case.fact("torch")
    if not driver or not torch or "+cu" not in torch.value:
        return None
    tag = torch.value.partition("+cu")[2]
    floor = cuda_floor_driver(tag[:-1]) if tag.isdigit() else None
    if floor and numbers(driver.value)[:1] and numbers(driver.value)[0] < floor:
        return (driver.line, torch.line)
    return None


def _card_and_build(case: Case) -> tuple[int, list[int], tuple[Line, ...]] | None:
    """(the card's capability, those built in, the lines), as two-digit numbers: 86, [37, 50, 70]."""
    card, built = case.fact("capability"), case.fact("architectures_built")
    if not card or not built:
        return None
    own = "".join(c for c in card.value if c.isdigit())
    codes = [int("".join(c for c in word if c.isdigit())) for word in built.value.split() if word.startswith("sm_")]
    return (int(own), codes, (card.line, built.line)) if own and codes else None


def _card_older_than_build(case: Case) -> tuple[Line, ...] | None:
    seen_both = _card_and_build(case)
    return seen_both[2] if seen_both and seen_both[0] < min(seen_both[1]) else None


def _card_below_every_build(case: Case) -> tuple[Line, ...] | None:
    """Kepler and older: no build of the last years has code for them. Maxwell to Volta: none for CUDA 13, Maxwell and Pascal none for torch 2.8
    and later with CUDA 12.8 and later. Source: PyTorch RELEASE.md and CUDA 13 release notes."""
    card, torch = oldest_card(case), case.fact("torch")
    tag = torch.value.partition("+cu")[2] if torch else ""
    for fact in case.facts("capability"):
        digits = "".join(character for character in fact.value if character.isdigit())
        if digits and int(digits) < 50:
            return (fact.line,)
    if card is None:
        return None
    place, fact = card
    newest = (
        VOLTA
        if tag.startswith("13")
        else PASCAL
        if tag in ("128", "129") and torch and numbers(torch.value)[:2] >= (2, 8)
        else KEPLER
    )
    return (fact.line, torch.line) if torch and place <= newest else (fact.line,) if place <= newest else None


def _card_newer_than_build(case: Case) -> tuple[Line, ...] | None:
    seen_both = _card_and_build(case)
    return seen_both[2] if seen_both and seen_both[0] > min(seen_both[1]) else None


RULES = (
    Rule(
        slug="torch-cpu-only-build",
        family="framework",
        verdict=Verdict.FAULT,
        says="The installed PyTorch is a CPU-only build: it cannot use any card, whatever the driver.",
        clues=(
            clue(PROVES, r"Torch not compiled with CUDA enabled"),
            clue(
                PROVES,
                Check(_torch_is_cpu_build),
                unless=(on("mac"), r"[+]rocm", r"[+]xpu", r"Apple M\d", r"torch[_-]npu"),
            ),
            clue(SHOWS, r"PyTorch (?:was |is )?not (?:compiled|built|linked) with (?:support for )?CUDA"),
            clue(SHOWS, r"^(?:py)?torch +\d[\d.]+ +(?:py3\.\d+_cpu|cpu)"),
            clue(SHOWS, r"torch.*py3[.\d]+_cpu_\d"),
            clue(SUGGESTS, r"torch\.version\.cuda.{0,20}None", unless=(r"[+]rocm", r"version\.hip.{0,6}\d", r"[+]xpu")),
            clue(
                HINTS,
                r"torch\.cuda\.is_available\(\).{0,20}False",
                unless=(r"NVIDIA-SMI has failed", r"Error \d{2,3}:"),
            ),
            clue(HINTS, said(r"cpu.?only|\+cpu\b", r"torch is a CPU build")),
            clue(0.6, r"(?:cpuonly|pytorch-cpu|torch-cpu|cpu_generic)"),
            # the card was there and nobody took it: the likeliest of several
            clue(0.55, measured("card_unused"), r"\btorch\b", unless=(r"\+cu\d", r"\+rocm")),
            clue(0.5, measured("card_unused"), unless=(r"\+cu\d", r"\+rocm")),
            clue(HINTS, r"is_available\(\).{0,20}False"),
        ),
        separates="A CUDA build on an AMD or Intel card prints +cuNNN; a CUDA build without a driver says 'Found no NVIDIA driver'.",
        explains=("cuda-visible-devices-wrong", "app-silent-cpu-fallback"),
        mend=(
            step(
                "Install the build for your driver's CUDA",
                "pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu126",
                "linux windows wsl container vm",
            ),
            step("In conda take pytorch-gpu from conda-forge, and do not mix channels"),
        ),
        next_check="python -c 'import torch; print(torch.__version__, torch.version.cuda)'",
        authority="https://pytorch.org/get-started/locally/",
    ),
    Rule(
        slug="torch-torchvision-cuda-mismatch",
        family="framework",
        verdict=Verdict.FAULT,
        says="torch and torchvision (or torchaudio) are builds that do not belong together.",
        clues=(
            clue(PROVES, r"PyTorch and torchvision (?:has|have|were|are) .*(?:different|compiled)"),
            clue(PROVES, r"operator torchvision::nms does not exist"),
            clue(PROVES, Check(_torch_and_torchvision_differ)),
            clue(0.9, r"Detected that PyTorch and (?:torchvision|TorchAudio)"),
            clue(SHOWS, r"Could not run 'torchvision::nms' with arguments from the 'CUDA' backend"),
            clue(SHOWS, r"Couldn't load custom C\+\+ ops"),
            clue(SHOWS, r"Failed to load image Python extension.{0,120}(?:undefined symbol|torchvision)"),
            clue(SHOWS, r"torchaudio.{0,160}undefined symbol"),
            clue(SUGGESTS, r"torchvision [\d.+a-z]+ (?:requires|depends on|has requirement) torch==[\d.]+"),
            clue(SUGGESTS, r"partially initialized module 'torchvision' has no attribute 'extension'"),
            clue(0.6, r"torchvision.{0,120}(?:[Ee]rror|undefined|not exist|mismatch|incompatib)"),
            clue(HINTS, r"torchaudio.{0,120}(?:[Ee]rror|undefined|mismatch)"),
        ),
        explains=("torch-cpu-only-build",),
        mend=(
            step(
                "Install them together from one index",
                "pip install --force-reinstall torch torchvision torchaudio --index-url https://download.pytorch.org/whl/cu126",
            ),
        ),
        next_check="pip list | grep -iE '^torch'",
        authority="https://github.com/pytorch/vision#installation (table of pairs)",
    ),
    Rule(
        slug="framework-build-lacks-gpu-arch",
        family="framework",
        verdict=Verdict.FAULT,
        says="The installed build carries no machine code for this card: the card is newer than the build (or left out of it).",
        clues=(
            clue(0.93, r"has no device code compatible with (?:CUDA|HIP|ROCm)? ?arch"),
            clue(SHOWS, NO_KERNEL, unless=(r"too old|below the minimum|minimum (?:cuda )?capability supported",)),
            clue(0.9, r"CUDA capability sm_\d+ is not compatible with the current PyTorch installation"),
            clue(
                0.9,
                r"is not compatible with the current PyTorch installation",
                seen(r"sm_(?:8|9|10|11|12)\d", r"RTX [345]0[5-9]0"),
            ),
            clue(SHOWS, r"ptxas.{0,60}(?:Value 'sm_\d+a?' is not defined|unsupported gpu arch)"),
            clue(SHOWS, r"nvcc fatal *: Unsupported gpu architecture"),
            clue(
                SHOWS,
                r"(?:not built|built without|does not (?:include|contain|support)).{0,40}(?:sm_\d|compute_\d|compute capability)",
            ),
            clue(SHOWS, r"compute capability not in compiled architectures"),
            clue(SHOWS, r"TensorFlow was not built with CUDA kernel binaries compatible with compute capability"),
            clue(
                SHOWS,
                r"CUDA kernels? (?:not|was not|were not) (?:compiled|built) for (?:this|your) (?:GPU|architecture)",
            ),
            clue(SUGGESTS, r"Unsupported (?:GPU|gpu|CUDA) arch\w*"),
            clue(0.94, Check(_card_newer_than_build), unless=(Check(_card_older_than_build),)),
            clue(0.9, r"sm_\d+.{0,40}(?:is )?not in (?:the )?(?:supported|compiled)? ?arch\w*"),
            clue(SHOWS, r"no kernel image"),
            clue(0.75, r"Unknown CUDA arch"),
            clue(0.75, r"unsupported gpu architecture"),
        ),
        separates="gpu-too-old-for-framework: the card is below the build's lowest capability, so an older build is wanted, not a newer one.",
        mend=(
            step(
                "Install a build whose arch list has the card (Blackwell: cu128 or newer)",
                "pip install --upgrade torch --index-url https://download.pytorch.org/whl/cu128",
            ),
        ),
        next_check="python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'",
        authority="PyTorch RELEASE.md, release compatibility matrix",
    ),
    Rule(
        slug="gpu-too-old-for-framework",
        family="framework",
        verdict=Verdict.FAULT,
        says="The card is below the lowest compute capability that this framework build was compiled for.",
        clues=(
            clue(0.93, NO_KERNEL, Check(_card_below_every_build)),
            clue(PROVES, r"PyTorch no longer supports this GPU because it is too old"),
            clue(PROVES, r"minimum cuda capability supported by this library is"),
            clue(SHOWS, r"GPU.{0,60}is of cuda capability [1-6]\.\d"),
            clue(SHOWS, r"Ignoring visible gpu device .*compute capability.*minimum required"),
            clue(SHOWS, r"Cuda compute capability [\d.]+\. The minimum required Cuda capability is"),
            clue(
                SHOWS,
                r"(?:is )?only supported on (?:CUDA )?(?:GPUs|devices) (?:with|of) (?:CUDA |compute )?capability >= ?\d",
            ),
            clue(
                SHOWS,
                r"CUDA capability sm_[3-6]\d is not compatible with the current PyTorch installation",
            ),
            clue(
                SHOWS, r"(?:requires|need|at least) .{0,40}compute capability.{0,20}\d\.\d.{0,80}(?:has|have|got|but)"
            ),
            clue(SHOWS, r"Triton.{0,60}only supports? devices of CUDA Capability >="),
            clue(SHOWS, r"Bfloat16 is only supported on GPUs with compute capability of at least"),
            clue(SHOWS, r"FlashAttention only supports (?:Ampere|Turing)"),
            clue(SHOWS, r"Device capability \(?\d.{0,12}(?:too low|not supported|below)"),
            clue(
                SUGGESTS,
                NO_KERNEL,
                seen(
                    r"Tesla [KM]\d",
                    r"GTX [679]\d\d",
                    r"Quadro [KM]\d",
                    r"GTX 10\d0",
                    r"Tesla P\d",
                ),
            ),
            clue(SUGGESTS, r"Found GPU\d .* which is of cuda capability"),
            clue(0.9, r"\(too old\)"),
            clue(SHOWS, r"too old to be supported by the triton"),
            clue(SHOWS, r"requires? device with capability"),
            clue(SHOWS, r"compute capability (?:<|less than|below|lower than) ?\d"),
            clue(
                SHOWS,
                r"(?:Volta|Pascal|Maxwell|Kepler).{0,60}(?:not supported|no longer supported|unsupported|dropped|removed)",
            ),
            clue(0.94, Check(_card_older_than_build)),
            clue(0.92, NO_KERNEL, seen(r"compute capability [1-6]\.\d", r"cuda capability [1-6]\.\d")),
        ),
        explains=("framework-build-lacks-gpu-arch",),
        mend=(
            step(
                "Install a build that still has this capability (6.x and older: cu126)",
                "pip install torch --index-url https://download.pytorch.org/whl/cu126",
            ),
            step("Or build from source with TORCH_CUDA_ARCH_LIST set to the card's capability"),
        ),
        next_check="nvidia-smi --query-gpu=name,compute_cap --format=csv",
        authority="PyTorch RELEASE.md (architectures dropped); TensorFlow gpu_device.cc",
    ),
    Rule(
        slug="driver-too-old-for-cuda-runtime",
        family="framework",
        verdict=Verdict.FAULT,
        says="The driver is older than the CUDA runtime of this build needs.",
        clues=(
            clue(0.92, r"unsupported CUDA version: driver [\d.]+ < image"),
            clue(0.9, DRIVER_OLD, unless=(r"Unable to load nvcuda", r"NVIDIA driver too old")),
            clue(SHOWS, Check(_driver_below_wheel)),
            clue(SUGGESTS, r"found version \d{4,5}\)\. Please update your GPU driver"),
            clue(SUGGESTS, r"nvidia-container-cli: requirement error"),
            clue(0.6, r"driver.{0,60}(?:too old|insufficient|outdated|older than)"),
        ),
        separates="A library of the program that lacks a driver symbol is driver-too-old-for-app; error 804 is the compat library.",
        mend=(
            step("Install a newer driver", "sudo ubuntu-drivers install", "linux vm"),
            step("Install a newer driver from nvidia.com", None, "windows wsl"),
            step(
                "Or install a build for an older CUDA",
                "pip install torch --index-url https://download.pytorch.org/whl/cu118",
            ),
        ),
        next_check="nvidia-smi | head -4; python -c 'import torch; print(torch.version.cuda)'",
        authority="https://docs.nvidia.com/deploy/cuda-compatibility/ (11.x: 450, 12.x: 525, 13.x: 580)",
    ),
    Rule(
        slug="driver-too-old-for-app",
        family="framework",
        verdict=Verdict.FAULT,
        says="The driver is older than the interface that this program uses.",
        clues=(
            clue(
                0.93,
                DRIVER_OLD,
                seen(r"ollama", r"llama runner", r"source=\w+\.go", r"Blender", r"Cycles"),
                unless=(r"too old \(found version \d+\)",),  # torch's own words, beside another program's
            ),
            clue(PROVES, r"NVIDIA driver too old"),
            clue(PROVES, r"libcuda\.so\.\S+ ?: undefined symbol: cu\w+"),
            clue(SHOWS, r"symbol lookup.{0,40}cu\w+ failed"),
            clue(SHOWS, r"undefined symbol: (?:nvml|cuCtx|cuDevice|cuMem|cuGraph|cuStream|cuLibrary)\w+"),
            clue(SHOWS, r"Driver does not support the required nvenc API version"),
            clue(SHOWS, r"minimum required (?:Nvidia )?driver (?:for nvenc )?is"),
            clue(
                SHOWS,
                r"(?:requires|needs) (?:NVIDIA |graphics |display |GPU )?driver (?:version )?(?:>= ?)?\d{3}",
                unless=(r"(?:Lumerical|Ansys|FDTD|V-Ray|Fluent)",),
            ),
            clue(SHOWS, r"driver (?:version )?(?:is )?too old"),
            clue(SUGGESTS, r"device kernel image is invalid", seen(r"[Oo]llama", r"llama", r"ggml", r"[Dd]river")),
            clue(HINTS, r"device kernel image is invalid"),
            clue(SUGGESTS, r"cuda v\d+.{0,40}driver.{0,20}(?:old|insufficient)"),
            clue(SUGGESTS, r"(?:nvml|cuda) function not found"),
            clue(0.55, r"(?:update|upgrade) (?:your |the )?(?:NVIDIA |GPU |graphics |display )?driver"),
            clue(0.94, r"nvidia driver is too old or missing"),
            clue(0.92, r"symbol lookup for cu\w+ failed"),
        ),
        explains=("driver-too-old-for-cuda-runtime", "ollama-runner-libs-missing", "app-needs-cuda-toolkit-at-runtime"),
        mend=(
            step(
                "Install the driver branch that the program names (Ollama: 550, and 570 for cards before Volta)",
                "sudo ubuntu-drivers install",
                "linux vm",
            ),
            step("Or stay on the last version of the program that knows this driver"),
        ),
        next_check="nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv",
        authority="ollama discover/cuda_compat.go; ffmpeg nvenc.c",
    ),
)
