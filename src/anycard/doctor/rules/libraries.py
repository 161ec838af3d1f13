"""The CUDA user space under a framework: parts of one version, where the loader looks."""

from __future__ import annotations

from anycard.doctor.codes import cuda
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Rule, clue, printed, seen, step
from anycard.doctor.shapes import Verdict

RULES = (
    Rule(
        slug="cuda-compat-on-unsupported-gpu",
        family="framework",
        verdict=Verdict.FAULT,
        says="A cuda-compat libcuda shadows the driver's own, and this kind of card may not use forward compatibility.",
        clues=(
            clue(PROVES, cuda(804)),
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
            clue(PROVES, cuda(803)),
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
            step(
                "A symbol of torch missing in an extension (flash_attn, apex, ...): it was built for another torch; build it for this one",
                "pip install --force-reinstall --no-deps --no-build-isolation flash-attn",
            ),
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
            clue(
                0.55,
                r"(?:cuDNN|cudnn|CuDNN)\w*(?! version: Could not collect).{0,80}(?:version|compiled|incompatib|mismatch)",
            ),
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
            clue(
                0.55,
                r"(?:cudnn|cuDNN)\w*(?! version: Could not collect).{0,80}(?:not found|cannot|could not|missing|failed to load|Unable)",
            ),
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
