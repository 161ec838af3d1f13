"""Frameworks and the CUDA user space under them: which build is installed, for which card and driver, and what it is allowed to see."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.facts import numbers
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, on, printed, said, seen, step
from anycard.doctor.shapes import Line, Verdict
from anycard.doctor.tables import cuda_floor_driver

NO_KERNEL = seen(
    r"no kernel image is available for execution",
    r"cudaErrorNoKernelImageForDevice",
    r"CUDA_ERROR_NO_BINARY_FOR_GPU",
    r"CUDA_ERROR_INVALID_PTX",
    r"invalid device kernel image",
    r"cudaErrorInvalidDeviceFunction",
    r"CUDA error: invalid device function",
)
DRIVER_OLD = seen(
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


def _cuda_hidden(case: Case) -> tuple[Line, ...] | None:
    for fact in case.facts("visible_devices"):
        if fact.value in ("", "-1", "NoDevFiles", "none"):
            return (fact.line,)
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


def _card_newer_than_build(case: Case) -> tuple[Line, ...] | None:
    seen_both = _card_and_build(case)
    return seen_both[2] if seen_both and seen_both[0] > min(seen_both[1]) else None


def _index_outside(case: Case) -> tuple[Line, ...] | None:
    """``cuda:N`` asked for while fewer than N+1 devices are visible."""
    shown, asked = case.fact("visible_devices"), case.facts("device_asked")
    if not shown or not asked or shown.value in ("", "-1"):
        return None
    count = len([part for part in shown.value.split(",") if part])
    return next(((shown.line, fact.line) for fact in asked if int(fact.value) >= count), None)


_ORDINAL = seen(
    r"invalid device ordinal",
    r"CUDA_ERROR_INVALID_DEVICE\b",
    r"Attempting to deserialize object on CUDA device \d+ but torch\.cuda\.device_count\(\) is",
    r"Invalid device id",
    r"Device index must (?:be|not)",
    r"No such device: GPU:\d",
    r"GPU:\d unknown device",
    r"requested? (?:gpu|device)s?.{0,40}but (?:only )?(?:your machine|\d).{0,20}(?:has|available|visible)",
    r"MisconfigurationException: You requested gpu",
)

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
            clue(0.93, DRIVER_OLD, seen(r"ollama", r"llama runner", r"source=\w+\.go", r"Blender", r"Cycles")),
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
    Rule(
        slug="cuda-compat-on-unsupported-gpu",
        family="framework",
        verdict=Verdict.FAULT,
        says="A cuda-compat libcuda shadows the driver's own, and this kind of card may not use forward compatibility.",
        clues=(
            clue(PROVES, r"forward compatibility was attempted on non supported HW"),
            clue(PROVES, r"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
            clue(PROVES, r"cudaErrorCompatNotSupportedOnDevice"),
            clue(SHOWS, r"\bError 804\b"),
            clue(SUGGESTS, r"/usr/local/cuda\S*/compat\S*libcuda"),
            clue(0.6, r"\b804\b.{0,40}(?:error|forward|CUDA)"),
            clue(0.55, r"cuda-compat"),
            clue(0.55, r"forward compatib"),
        ),
        separates="803 is a libcuda of another driver; 804 is a compat libcuda on a GeForce (or too old a driver).",
        explains=("driver-too-old-for-cuda-runtime", "libcuda-driver-mismatch-803"),
        mend=(
            step(
                "Take the compat folder out of the loader's path",
                "sudo rm /etc/ld.so.conf.d/*compat*.conf; sudo ldconfig",
            ),
            step("Or update the driver, or use an image of an older CUDA"),
        ),
        next_check="ldconfig -p | grep libcuda.so; ls /usr/local/cuda*/compat",
        authority="https://docs.nvidia.com/deploy/cuda-compatibility/#forward-compatibility",
    ),
    Rule(
        slug="libcuda-driver-mismatch-803",
        family="framework",
        verdict=Verdict.FAULT,
        says="The libcuda that was loaded does not belong to the running driver.",
        clues=(
            clue(PROVES, r"\bError 803\b"),
            clue(PROVES, r"unsupported display driver / cuda driver combination"),
            clue(PROVES, r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
            clue(PROVES, r"cudaErrorSystemDriverMismatch"),
            clue(SHOWS, r"system has unsupported display driver"),
            clue(HINTS, r"\b803\b.{0,40}(?:error|driver|CUDA)"),
        ),
        explains=("driver-too-old-for-cuda-runtime",),
        mend=(
            step(
                "Find every libcuda and keep the driver's",
                "ldconfig -p | grep libcuda; find / -name 'libcuda.so*' 2>/dev/null",
            ),
            step("In a container drop the image's compat library", "unset LD_LIBRARY_PATH", "container k8s"),
        ),
        next_check="ldconfig -p | grep libcuda; cat /proc/driver/nvidia/version; echo $LD_LIBRARY_PATH",
        authority="CUDA driver API, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    ),
    Rule(
        slug="cuda-broken-after-suspend",
        family="framework",
        verdict=Verdict.FAULT,
        says="CUDA's state in nvidia_uvm was lost across a suspend; the card itself is well.",
        clues=(
            clue(
                PROVES,
                seen(
                    r"CUDA unknown error",
                    r"cuda unknown error - this may be due",
                    r"init failure: 999",
                    r"cuInit err: 999",
                    r"\bCUDA_ERROR_UNKNOWN\b",
                    r"cudaErrorUnknown",
                    r"torch\.cuda\.is_available\(\).{0,20}False",
                    r"unknown error",
                ),
                seen(
                    r"suspend",
                    r"hibernat",
                    r"\bPM: (?:resume|suspend)",
                    r"(?:machine|laptop|computer|system|pc).{0,20}(?:slept|sleep|wok)",
                    r"(?:after|from) (?:sleep|standby|waking)",
                    r"woke up",
                    r"wakes? (?:up|from)",
                ),
            ),
            clue(SUGGESTS, r"NVreg_PreserveVideoMemoryAllocations"),
            clue(0.55, r"(?:suspend|hibernat|resume from sleep|wake from sleep)\w*"),
        ),
        separates="Without a suspend before it, the same error 999 is nvidia-uvm-needs-reload.",
        explains=("nvidia-uvm-needs-reload",),
        mend=(
            step("Reload the module", "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"),
            step("Keep the state next time", "sudo systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate"),
        ),
        next_check="journalctl -b | grep -iE 'PM: (suspend|resume)'",
        authority="NVIDIA driver README, chapter 'Configuring Power Management Support'",
    ),
    Rule(
        slug="cuda-visible-devices-wrong",
        family="framework",
        verdict=Verdict.FAULT,
        says="CUDA_VISIBLE_DEVICES (or its kin) hides every card from the program.",
        clues=(
            clue(0.9, Check(_cuda_hidden), unless=(r"os\.environ\[",)),
            clue(SHOWS, r"(?:HIP|ROCR)_VISIBLE_DEVICES=['\"]?(?:-1|none)?['\"]?$"),
            clue(SHOWS, r"NVIDIA_VISIBLE_DEVICES[=:] ?['\"]?(?:none|void)"),
            clue(SUGGESTS, r"CUDA_VISIBLE_DEVICES.{0,60}(?:typo|wrong|empty|hides|invalid|nonexistent)"),
            clue(
                SUGGESTS,
                r"CUDA_VISIBLE_DEVICES(?:=| is set to |: ?)\S+",
                seen(r"no CUDA-capable device is detected", r"No CUDA GPUs are available"),
            ),
            clue(HINTS, r"No CUDA GPUs are available"),
            clue(HINTS, r"no CUDA-capable device is detected"),
            clue(HINTS, r"CUDA_ERROR_NO_DEVICE"),
            clue(HINTS, r"CUDA_VISIBLE_DEVICES"),
            clue(0.5, r"no nvidia devices detected by library"),
        ),
        separates="An index beyond the visible set says 'invalid device ordinal'.",
        explains=("llamacpp-built-without-gpu", "container-started-without-gpus"),
        mend=(
            step("Take the variable away or set it to the cards wanted", "unset CUDA_VISIBLE_DEVICES"),
            step(
                "Look where it is set (shell profile, service file, launcher)",
                "systemctl show ollama -p Environment",
                "linux",
            ),
        ),
        next_check="env | grep VISIBLE_DEVICES; nvidia-smi -L",
        authority="CUDA programming guide, environment variables",
    ),
    Rule(
        slug="cuda-visible-devices-set-too-late",
        family="framework",
        verdict=Verdict.APPLICATION,
        says="CUDA_VISIBLE_DEVICES was changed after CUDA had been initialised; it is read once.",
        clues=(
            clue(0.9, r"is_available\(\).*os\.environ\[.CUDA_VISIBLE_DEVICES.\]"),
            clue(0.9, r"import torch.*os\.environ\[.CUDA_VISIBLE_DEVICES.\]"),
            clue(
                SHOWS,
                r"os\.environ\[.CUDA_VISIBLE_DEVICES.\] ?=",
                seen(r"import torch", r"device_count\(\)", r"import tensorflow"),
            ),
            clue(SHOWS, r"CUDA_VISIBLE_DEVICES.{0,60}(?:too late|after (?:importing|import|CUDA|torch))"),
            clue(SUGGESTS, r"os\.environ\[.CUDA_VISIBLE_DEVICES.\] ?="),
            clue(SUGGESTS, r"set_visible_devices.{0,80}(?:initialized|after)"),
            clue(SHOWS, r"(?:Visible|Physical) devices cannot be modified after being initialized"),
        ),
        explains=("cuda-visible-devices-wrong", "cuda-index-outside-visible-set"),
        mend=(step("Set it before the program starts", "CUDA_VISIBLE_DEVICES=1 python train.py"),),
        next_check="grep -n 'CUDA_VISIBLE_DEVICES\\|import torch' your_script.py",
        authority="CUDA programming guide, environment variables",
    ),
    Rule(
        slug="cuda-index-outside-visible-set",
        family="framework",
        verdict=Verdict.APPLICATION,
        says="The program asks for a device number that it cannot see: more workers or a higher index than visible cards.",
        clues=(
            clue(PROVES, Check(_index_outside), _ORDINAL),
            clue(0.9, _ORDINAL, unless=(r"\bMIG[- ]", r"device=\d, num_gpus=\d*\bMIG", r"Xid \(")),
            clue(SHOWS, r"local_rank.{0,40}(?:exceeds|>=|out of range).{0,40}(?:device|gpu)"),
            clue(SHOWS, r"Duplicate GPU detected : rank"),
            clue(0.85, r"nvidia-container-cli: device error: .{0,12}unknown device"),
        ),
        mend=(
            step(
                "Start as many workers as cards are visible",
                "torchrun --nproc-per-node=$(nvidia-smi -L | wc -l) train.py",
            ),
            step("Or use cuda:0: visible cards are numbered from 0"),
        ),
        next_check="env | grep VISIBLE_DEVICES; python -c 'import torch; print(torch.cuda.device_count())'",
        authority="CUDA runtime API, cudaErrorInvalidDevice",
    ),
    Rule(
        slug="mig-instance-not-selected",
        family="framework",
        verdict=Verdict.FAULT,
        says="MIG is on, and the process was not given an instance by its UUID (or there is none).",
        clues=(
            clue(
                SHOWS,
                seen(r"MIG mode.{0,20}Enabled", r"MIG M\.? .*Enabled", r"\|\s+Enabled \|"),
                seen(
                    r"No CUDA GPUs are available",
                    r"device_count.{0,10}0",
                    r"no CUDA-capable device",
                    r"is_available\(\).{0,12}False",
                ),
            ),
            clue(SHOWS, r"No MIG devices found"),
            clue(
                0.9,
                seen(
                    r"INTERNAL ASSERT FAILED",
                    r"invalid device ordinal",
                    r"No CUDA GPUs are available",
                    r"no CUDA-capable device",
                ),
                seen(r"\bMIG\b"),
                unless=(r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?MIG-",),
            ),
            clue(SHOWS, r"device_count\(\).{0,20}\b0\b", r"\bMIG\b"),
            clue(SHOWS, r"(?:Invalid|Unknown|unsupported).{0,20}MIG.{0,20}(?:device|UUID|instance)"),
            clue(SHOWS, r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?\d[\d,]*['\"]?", r"\bMIG[- ](?:\d|GPU|[0-9a-f]{8})"),
            clue(
                SUGGESTS,
                seen(
                    r"No CUDA GPUs are available",
                    r"invalid device ordinal",
                    r"no CUDA-capable device",
                    r"INTERNAL ASSERT FAILED.*device",
                    r"AcceleratorError",
                ),
                r"\bMIG\b",
            ),
            clue(SUGGESTS, r"Failed to initialize NVML.{0,20}MIG"),
            clue(HINTS, r"INTERNAL ASSERT FAILED at .*CUDAContext.cpp.{0,120}device"),
        ),
        separates="One instance seen per process is by design (ok-one-mig-instance-per-process).",
        explains=("cuda-visible-devices-wrong", "cuda-index-outside-visible-set", "app-torch-nvml-count-bug"),
        mend=(
            step("List the instances", "nvidia-smi -L"),
            step("Give one by its UUID", "CUDA_VISIBLE_DEVICES=MIG-... python train.py"),
            step("If there is none, make one or switch MIG off", "sudo nvidia-smi mig -cgi 9 -C"),
        ),
        next_check="nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES",
        authority="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#cuda-device-enumeration",
    ),
    Rule(
        slug="compute-mode-exclusive",
        family="framework",
        verdict=Verdict.FAULT,
        says="The card's compute mode lets one process in (or none), and one already holds it.",
        clues=(
            clue(
                PROVES,
                seen(
                    r"E\. Process",
                    r"Exclusive_Process",
                    r"Compute Mode\s*: (?:Exclusive|Prohibited)",
                    r"\bProhibited\b",
                ),
                seen(
                    r"busy or unavailable",
                    r"cudaErrorDevicesUnavailable",
                    r"CUDA_ERROR_INVALID_DEVICE",
                    r"devices? unavailable",
                ),
            ),
            clue(SUGGESTS, r"CUDA-capable device\(?s?\)? (?:is|are) busy or unavailable"),
            clue(SUGGESTS, r"cudaErrorDevicesUnavailable"),
            clue(SUGGESTS, r"\bE\. Process\b"),
            clue(SUGGESTS, r"Compute Mode\s*: (?:Exclusive_Process|Prohibited)"),
            clue(SUGGESTS, r"exclusive.?(?:process|thread)? (?:compute )?mode"),
            clue(HINTS, r"CUDA_ERROR_DEVICE_UNAVAILABLE"),
            clue(0.55, r"(?:busy or unavailable|cudaErrorDevicesUnavailable)"),
        ),
        separates="In the default mode, 'busy or unavailable' points to a card that hangs or a process in between: look at the processes.",
        mend=(
            step("See who holds it", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
            step("Let several in", "sudo nvidia-smi -c DEFAULT"),
        ),
        next_check="nvidia-smi -q -d COMPUTE",
        authority="man nvidia-smi, compute mode",
    ),
    Rule(
        slug="cuda-libraries-mixed",
        family="framework",
        verdict=Verdict.FAULT,
        says="Parts of CUDA of different minor versions are loaded together (wheels, toolkit and LD_LIBRARY_PATH mixed).",
        clues=(
            clue(PROVES, r"undefined symbol: __nvJitLink\w+"),
            clue(0.9, r"lib(?:cusparse|cublas|cusolver|nvJitLink|cufft|nccl|torch_cuda)\S*: undefined symbol"),
            clue(SHOWS, r"undefined symbol: (?:cublas|cusparse|cudnn|nccl|cusolver|nvrtc)\w+"),
            clue(SHOWS, r"libcublas(?:Lt)?\.so\.\d+: (?:undefined symbol|symbol .* version)"),
            clue(SHOWS, r"version `?lib(?:cublas|cudart|cusparse|nvJitLink)\S*'? not found"),
            clue(SUGGESTS, r"CUBLAS_STATUS_NOT_INITIALIZED", r"LD_LIBRARY_PATH"),
            clue(SUGGESTS, r"detected CUDA version \([\d.]+\) mismatches the version that was used to compile"),
            clue(HINTS, r"site-packages/nvidia/\w+/lib/\S+"),
            clue(SUGGESTS, r"undefined symbol", r"(?:nvidia|cuda|libtorch|libcu)\w*"),
            clue(
                0.9, r"symbol \w+, version lib\w+\.so\.\d+ not defined in file lib\w+\.so\S* with link time reference"
            ),
            clue(
                SUGGESTS,
                r"undefined symbol: _ZT?[INVS]*\d*(?:2at|3c10|5torch|at|c10)\w*",
                unless=(r"torch_npu", r"intel_extension", r"libintel-ext", r"torchvision", r"torchaudio"),
            ),
            clue(0.6, r"WinError 127"),
            clue(0.6, r"The specified procedure could not be found"),
        ),
        mend=(
            step("Start without inherited libraries", "env -u LD_LIBRARY_PATH python train.py"),
            step("Make a fresh environment with one framework, whose wheels bring their own CUDA"),
        ),
        next_check="pip list | grep -i nvidia; echo $LD_LIBRARY_PATH",
        authority="https://github.com/pytorch/pytorch/issues/111469",
    ),
    Rule(
        slug="cudnn-major-version-mismatch",
        family="framework",
        verdict=Verdict.FAULT,
        says="The program was linked with another cuDNN version than the one that it finds.",
        clues=(
            clue(0.9, r"Loaded runtime CuDNN library: \S+ but source was compiled with"),
            clue(0.9, r"cuDNN version incompatibility: PyTorch was compiled against"),
            clue(
                SHOWS,
                r"libcudnn(?:_\w+)?\.so\.\d",
                seen(
                    r"libcudnn\S*\.so\.9.{0,200}(?:found|installed|exists)",
                    r"(?:installed|have|has|system).{0,40}(?:cudnn|cuDNN).{0,12}9",
                    r"cudnn-?(?:cu1\d)?[= ]+9\.",
                    r"cudnn9",
                ),
            ),
            clue(SHOWS, r"CUDNN_STATUS_(?:VERSION_MISMATCH|SUBLIBRARY_VERSION_MISMATCH)"),
            clue(0.6, r"Invalid handle\. Cannot load symbol cudnn\w+"),
            clue(SHOWS, r"requires? cuDNN (?:v?ersion )?[89].{0,60}(?:but|found|installed)"),
            clue(SHOWS, r"libcudnn\w*\.so\.\d: undefined symbol"),
            clue(SHOWS, r"ctranslate2.{0,80}cudnn"),
            clue(0.92, r"libcudnn\w*\.so\.8", printed(r"libcudnn\w*\.so\.9")),
            clue(HINTS, r"libcudnn\w*\.so\.8: cannot open shared object file"),
            clue(0.55, r"(?:cuDNN|cudnn|CuDNN)\w*.{0,80}(?:version|compiled|incompatib|mismatch)"),
        ),
        separates="cudnn-not-on-loader-path: the right version is there, inside the Python packages, where the loader does not look.",
        explains=("cudnn-not-on-loader-path",),
        mend=(
            step(
                "Install the major version that the program was linked with",
                "pip install 'nvidia-cudnn-cu12==8.9.7.29'",
            ),
            step("Or take a release of the program built for cuDNN 9"),
        ),
        next_check="ldconfig -p | grep cudnn; pip list | grep -i cudnn",
        authority="https://github.com/SYSTRAN/faster-whisper#gpu",
    ),
    Rule(
        slug="cudnn-not-on-loader-path",
        family="framework",
        verdict=Verdict.FAULT,
        says="cuDNN is not where the loader looks (it lies inside the Python packages, or nowhere).",
        clues=(
            clue(SHOWS, r"libcudnn\w*\.so\S*: cannot open shared object file"),
            clue(SHOWS, r"Could not load library libcudnn\w*"),
            clue(SHOWS, r"Unable to load any of \{?libcudnn\w*"),
            clue(SHOWS, r"Could not (?:locate|load|find) (?:zlibwapi|cudnn\w*64_\d\.dll|cudnn_\w+\.dll)"),
            clue(SHOWS, r"Could not load (?:dynamic )?library '?(?:lib)?cudnn"),
            clue(SUGGESTS, r"Library (?:lib)?cudnn\S+ is not found or cannot be loaded"),
            clue(SUGGESTS, r"Cannot dlopen some GPU libraries"),
            clue(SUGGESTS, r"Library (?:lib)?cublas\S+ is not found or cannot be loaded"),
            clue(0.55, r"(?:cudnn|cuDNN)\w*.{0,80}(?:not found|cannot|could not|missing|failed to load|Unable)"),
            clue(0.6, r"Invalid handle\. Cannot load symbol cudnn\w+"),
            clue(0.7, r"Failed to create CUDAExecutionProvider"),
            clue(0.7, r"Require cuDNN \d"),
        ),
        mend=(
            step(
                "Show the loader where it is",
                "export LD_LIBRARY_PATH=$(python -c 'import nvidia.cudnn as c, os; print(os.path.join(c.__path__[0], \"lib\"))'):$LD_LIBRARY_PATH",
                "linux wsl container",
            ),
            step("Or install it", "pip install nvidia-cudnn-cu12"),
        ),
        next_check="find / -name 'libcudnn*' 2>/dev/null | head; echo $LD_LIBRARY_PATH",
        authority="https://github.com/SYSTRAN/faster-whisper#gpu",
    ),
)
