"""llama.cpp, LM Studio and what they were built with; Vulkan, AMD and Intel under them."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, measured, on, seen, step
from anycard.doctor.shapes import Line, Verdict


def _old_intel_driver(case: Case) -> tuple[Line, ...] | None:
    for fact in case.facts("intel_windows_driver"):
        parts = [int(part) for part in fact.value.split(".")]
        if parts[:3] == [31, 0, 101] and parts[3] < 5522:
            return (fact.line,)
    return None


RULES = (
    Rule(
        slug="llamacpp-built-without-gpu",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="This llama.cpp was compiled without a GPU backend.",
        clues=(
            clue(0.7, r"supports_gpu_offload\(\)"),
            clue(0.92, r"not compiled with GPU offload support"),
            clue(SHOWS, r"Manually-specified variables were not used by the project", unless=(r"nvidia_dkms",)),
            clue(SHOWS, r"supports_gpu_offload\W{0,4}.{0,12}False"),
            clue(SHOWS, r"compiled without (?:GPU|CUDA|SYCL|Vulkan|HIP) support", unless=(r"one possible reason",)),
            clue(SUGGESTS, r"no usable GPU found, --gpu-layers option will be ignored"),
            clue(
                SUGGESTS,
                r"(?:LLAMA_CUBLAS|LLAMA_SYCL|LLAMA_HIPBLAS|LLAMA_CUDA)\b.{0,60}(?:deprecated|unused|not used|no effect|removed)",
            ),
            clue(SUGGESTS, r"-DLLAMA_(?:CUBLAS|SYCL|CUDA|HIPBLAS|METAL)"),
            clue(SUGGESTS, r"\bBLAS = 0\b"),
            clue(SUGGESTS, r"ggml_backend_\w*: no (?:GPU )?devices?"),
            clue(0.6, measured("card_unused"), seen(r"llama_model_load", r"llm_load_\w+", r"llama\.cpp")),
            clue(HINTS, r"one possible reason is that llama\.cpp was compiled without GPU support"),
            clue(HINTS, r"(?:GGML|LLAMA)_(?:CUDA|CUBLAS|SYCL|HIP|HIPBLAS|VULKAN|METAL)\b"),
            clue(SUGGESTS, r"llama-?cpp-python.{0,80}(?:CPU|GPU)"),
        ),
        separates="The same warning comes when a variable hides the card (cuda-visible-devices-wrong).",
        mend=(
            step(
                "Build it with the backend",
                "cmake -B build -DGGML_CUDA=ON && cmake --build build -j   # or GGML_HIP, GGML_SYCL, GGML_VULKAN",
            ),
            step(
                "llama-cpp-python",
                "CMAKE_ARGS='-DGGML_CUDA=on' pip install --force-reinstall --no-cache-dir llama-cpp-python",
            ),
        ),
        next_check="llama-cli --list-devices; env | grep VISIBLE",
        authority="https://github.com/ggml-org/llama.cpp/blob/master/docs/build.md",
    ),
    Rule(
        slug="lmstudio-stale-survey",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="LM Studio kept an outdated survey of the hardware; a new installation keeps it too.",
        clues=(
            clue(0.85, r"Failed to survey hardware with backend"),
            clue(
                0.9,
                r"LM ?Studio",
                seen(
                    r"(?:No|0) (?:GPU|card)s? (?:detected|found)",
                    r"(?:GPU )?survey.{0,60}(?:unsuccessful|fail|stale|error)",
                    r"not (?:detect|recogni[sz]|see)\w* .{0,40}(?:GPU|card)",
                    r"AppData.{0,20}LM Studio",
                    r"re-?install\w*.{0,40}(?:same|keep|not help|didn't|does not|no change|still)",
                ),
            ),
            clue(SHOWS, r"lm-?studio.{0,80}(?:survey|hardware)"),
            clue(SUGGESTS, r"gpuSurveyResult"),
            clue(SUGGESTS, r"surveyHardware"),
            clue(HINTS, r"LM ?Studio"),
            clue(0.9, r"GPU survey unsuccessful"),
        ),
        mend=(
            step(
                "Close LM Studio, rename its state, start it again",
                'ren "%APPDATA%\\LM Studio" "LM Studio.old"',
                "windows",
            ),
            step("Close LM Studio, rename its state, start it again", "mv ~/.lmstudio ~/.lmstudio.old", "linux mac"),
        ),
        next_check="lms runtime ls; lms log stream",
        authority="https://github.com/lmstudio-ai/lmstudio-bug-tracker",
    ),
    Rule(
        slug="lmstudio-wrong-engine-selected",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="LM Studio's selected engine for GGUF is another one (Vulkan, CPU) than the card's.",
        clues=(
            clue(
                0.92,
                seen(r"LM ?Studio", r"hardware page", r"llama\.cpp runtime", r"lms runtime"),
                seen(r"\bVulkan\b", r"CPU llama\.cpp", r"(?:engine|runtime)s?.{0,40}(?:selected|wrong|select)"),
            ),
            clue(SUGGESTS, r"llama\.cpp-(?:win|linux)-\S+(?:vulkan|avx2)\S*.{0,20}(?:selected|✓)"),
            clue(HINTS, r"LM ?Studio"),
            clue(0.6, r"lms? runtime"),
        ),
        explains=("lmstudio-stale-survey",),
        mend=(
            step(
                "Settings, Runtime: choose the CUDA (or ROCm) llama.cpp for GGUF",
                "lms runtime select llama.cpp-linux-x86_64-nvidia-cuda12-avx2",
            ),
        ),
        next_check="lms runtime ls",
        authority="https://lmstudio.ai/docs/app/system-requirements",
    ),
    Rule(
        slug="gpu-compute-capability-below-app-minimum",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="The card's compute capability is below the least that this program's CUDA build supports.",
        clues=(
            clue(0.92, r"CUDA GPU is too old"),
            clue(0.92, r"(?:GPU|card|device) is too old.{0,60}[Cc]ompute [Cc]apability"),
            clue(
                SHOWS, r"[Cc]ompute [Cc]apability.{0,40}(?:too old|too low|below|not supported|unsupported|less than)"
            ),
            clue(SHOWS, r"minimum (?:required )?compute capability"),
            clue(
                SHOWS,
                r"requires? (?:a )?(?:CUDA )?compute capability (?:of )?(?:>= ?|at least )?\d\.\d",
                unless=(r"PyTorch", r"torch"),
            ),
            clue(SUGGESTS, r"skipping (?:CUDA )?device.{0,80}compute capability"),
            clue(0.55, r"[Cc]ompute [Cc]apability.{0,40}(?:[1-4]\.\d|old|support|minimum)"),
        ),
        explains=("ollama-runner-libs-missing", "gpu-too-old-for-framework"),
        mend=(step("Use the Vulkan build, an older release, or another card", "OLLAMA_VULKAN=1 ollama serve"),),
        next_check="nvidia-smi --query-gpu=name,compute_cap --format=csv",
        authority="https://github.com/ollama/ollama/blob/main/docs/gpu.mdx (5.0 and up)",
    ),
    Rule(
        slug="vulkan-selected-llvmpipe",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="Vulkan chose llvmpipe, a software device: the work runs on the CPU.",
        clues=(
            clue(0.92, r"llvmpipe", seen(r"ggml_vulkan", r"Vulkan\d?\b", r"GPU\d", r"deviceName", r"Using")),
            clue(SUGGESTS, r"llvmpipe \(LLVM"),
            clue(SUGGESTS, r"PHYSICAL_DEVICE_TYPE_CPU"),
            clue(SHOWS, r"(?:SwiftShader|lavapipe).{0,60}(?:Vulkan|device|selected)"),
            clue(SHOWS, r"Device type is CPU\. This is probably not the device you want"),
        ),
        explains=("vulkan-icd-dependency-missing",),
        mend=(
            step(
                "Install the card's Vulkan driver",
                "sudo apt install mesa-vulkan-drivers  # NVIDIA: libnvidia-gl of the driver's version",
            ),
            step("Name the driver", "export VK_DRIVER_FILES=/usr/share/vulkan/icd.d/nvidia_icd.json"),
            step("In a container ask for graphics", "-e NVIDIA_DRIVER_CAPABILITIES=all --device /dev/dri", "container"),
        ),
        next_check="vulkaninfo --summary; ls /usr/share/vulkan/icd.d /etc/vulkan/icd.d",
        authority="https://github.com/ggml-org/llama.cpp/blob/master/docs/build.md#vulkan",
    ),
    Rule(
        slug="vulkan-icd-dependency-missing",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="The Vulkan driver's file is there, but a library it needs is not in this image, so no device is listed.",
        clues=(
            clue(SUGGESTS, r"ggml_vulkan: No devices found"),
            clue(
                SHOWS,
                r"(?:VK_ERROR_INCOMPATIBLE_DRIVER|vkEnumeratePhysicalDevices|loader_icd_scan|loader_scanned_icd\w*).{0,160}(?:fail|lib\w+\.so|cannot open|incompatible|0 device|nothing)",
            ),
            clue(
                0.9,
                r"lib(?:vulkan_\w+|GLX_nvidia|GLdispatch|GLX|EGL_nvidia|drm\w*|xcb\S*|X11\S*)\.so\S*: cannot open shared object",
                seen(r"[Vv]ulkan", r"\bICD\b", r"icd\.d"),
            ),
            clue(SUGGESTS, r"VK_ERROR_INCOMPATIBLE_DRIVER"),
            clue(SUGGESTS, r"Failed to (?:detect any valid|find any) (?:GPUs|ICDs?|Vulkan|physical)"),
            clue(HINTS, r"Could not get .vkCreateInstance. via .vk_icdGetInstanceProcAddr"),
            clue(HINTS, r"\b[Vv]ulkan\b.{0,80}(?:no |not |fail|error|0 )"),
            clue(HINTS, r"ERROR_INITIALIZATION_FAILED"),
        ),
        mend=(
            step(
                "Install what the driver needs",
                "apt install libvulkan1 mesa-vulkan-drivers libglvnd0 libgl1 libglx0 libegl1",
            ),
            step(
                "Give the container the nodes",
                "docker run --device /dev/dri --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all ...",
            ),
        ),
        next_check="VK_LOADER_DEBUG=error,warn vulkaninfo --summary 2>&1 | head -40; ls -l /dev/dri",
        authority="https://github.com/KhronosGroup/Vulkan-Loader/blob/main/docs/LoaderDebugging.md",
    ),
    Rule(
        slug="amd-gfx-unsupported-needs-override",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="The card's gfx name is not in the ROCm build's list, and HSA_OVERRIDE_GFX_VERSION is not in effect there.",
        clues=(
            clue(0.92, r"amdgpu is not supported"),
            clue(SHOWS, r"See \S+ for HSA_OVERRIDE_GFX_VERSION usage"),
            clue(SHOWS, r"rocBLAS error: Cannot read \S*TensileLibrary"),
            clue(SHOWS, r"TensileLibrary\S* .{0,60}(?:gfx\d+|No such file)"),
            clue(SHOWS, r"hipErrorNoBinaryForGpu"),
            clue(SHOWS, r"HIP error: (?:invalid device function|shared object initialization failed|no kernel image)"),
            clue(SHOWS, r"(?:unsupported|not supported).{0,40}\bgfx\d{3,4}\b"),
            clue(SHOWS, r"\bgfx\d{3,4}\b.{0,40}(?:unsupported|not supported|is not in)"),
            clue(SUGGESTS, r"no compatible amdgpu devices detected"),
            clue(SUGGESTS, r"Attempting to use hipBLASLt on (?:an )?unsupported architecture"),
            clue(0.55, r"\bgfx\d{3,4}\b"),
            clue(0.6, r"TensileLibrary"),
            clue(0.8, r"Could not initialize Tensile host"),
        ),
        separates="If the override is set in the shell, but not where the service runs, it is amd-override-not-inherited.",
        explains=("framework-build-lacks-gpu-arch",),
        mend=(
            step(
                "Give the service the nearest supported name (gfx1031 -> 10.3.0, gfx1103 -> 11.0.0)",
                "sudo systemctl edit ollama   # [Service] Environment=HSA_OVERRIDE_GFX_VERSION=10.3.0",
                "linux",
            ),
            step("Or use the Vulkan backend", "OLLAMA_VULKAN=1 ollama serve"),
        ),
        next_check="rocminfo | grep gfx; systemctl show ollama -p Environment",
        authority="https://github.com/ollama/ollama/blob/main/docs/gpu.mdx#overrides-on-linux",
    ),
    Rule(
        slug="amd-stale-gfx-override",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="A left-over HSA_OVERRIDE_GFX_VERSION, a trick for Linux, names a card that this one is not.",
        clues=(
            clue(0.93, on("windows"), r"HSA_OVERRIDE_GFX_VERSION[=:] ?['\"]?\d"),
            clue(
                0.93,
                r"HSA_OVERRIDE_GFX_VERSION[=:] ?['\"]?\d",
                seen(r"AppData", r"C:\\", r"\bwindows\b", r"amdhip64", r"\.dll\b"),
            ),
            clue(0.94, r"amdgpu is not supported \(supported types:\[\]"),
            clue(SHOWS, on("windows"), r"amdgpu is not supported"),
            clue(SHOWS, r"HSA_OVERRIDE_GFX_VERSION.{0,80}(?:stale|left-?over|remove|old|unset|forgotten|wrong)"),
            clue(
                SUGGESTS,
                r"HSA_OVERRIDE_GFX_VERSION[=:] ?['\"]?\d",
                seen(
                    r"illegal instruction",
                    r"segmentation fault",
                    r"Memory access fault by GPU",
                    r"invalid ISA",
                    r"HSA_STATUS_ERROR_INVALID_ISA",
                    r"invalid device function",
                ),
            ),
        ),
        explains=("amd-gfx-unsupported-needs-override", "amd-override-not-inherited"),
        mend=(
            step("Take it away, then start a new shell or service", 'setx HSA_OVERRIDE_GFX_VERSION ""', "windows"),
            step("Take it away", "unset HSA_OVERRIDE_GFX_VERSION", "linux"),
        ),
        next_check="set | findstr HSA_   # Linux: env | grep HSA_",
        authority="https://github.com/ollama/ollama/blob/main/docs/gpu.mdx#overrides-on-linux",
    ),
    Rule(
        slug="amd-kernel-driver-older-than-bundled-rocm",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="The bundled ROCm user space is newer than the kernel's AMD driver; initialisation hangs or fails.",
        clues=(
            clue(
                0.92,
                seen(
                    r"amdgpu (?:kernel )?(?:driver|module|version).{0,40}\b[56]\.\d",
                    r"amdgpu version file missing",
                    r"driver(?:_version)?[=: ]+\"?6\.\d+",
                    r"amdgpu\S*-dkms\S* .{0,10}[56]\.\d",
                    r"/sys/module/amdgpu/version",
                ),
                seen(
                    r"ROCm ?7",
                    r"rocm[_ -]?v?7",
                    r"rocm-7",
                    r"HIP ?7",
                    r"libdirs=\S*rocm\S*7",
                    r"timed? ?out",
                    r"\bhang",
                    r"failure during GPU discovery",
                ),
            ),
            clue(SHOWS, r"(?:amdgpu|kernel) driver.{0,60}(?:too old|older|older than|not new enough)"),
            clue(SHOWS, r"failure during GPU discovery", seen(r"rocm", r"ROCm", r"amdgpu")),
            clue(
                SUGGESTS,
                r"(?:bootstrap|discovery|initiali[sz]ation).{0,60}(?:timed out|timeout|hangs?)",
                seen(r"rocm", r"ROCm", r"amdgpu", r"hip"),
            ),
            clue(SUGGESTS, r"amdgpu version file missing"),
            clue(HINTS, r"(?:ROCm|rocm).{0,80}(?:hang|timeout|timed out|stuck)"),
            clue(0.75, r"failed to finish discovery before timeout"),
            clue(SUGGESTS, r"failure during GPU discovery"),
            clue(HINTS, r"bootstrap discovery took.{0,20}duration=[1-9]\d+\.?\d*s"),
        ),
        mend=(
            step("Install the AMD driver of the same major", "sudo amdgpu-install --usecase=dkms"),
            step("Or stay on the release that bundles ROCm 6"),
        ),
        next_check="cat /sys/module/amdgpu/version; uname -r; rocminfo | head",
        authority="https://github.com/ollama/ollama/blob/main/docs/gpu.mdx (ROCm v7 driver)",
    ),
    Rule(
        slug="intel-gpu-driver-too-old",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="The Intel graphics driver is older than this program needs (Windows below 31.0.101.5522 gives wrong results).",
        clues=(
            clue(0.9, Check(_old_intel_driver)),
            clue(SHOWS, r"(?:update|upgrade|old|outdated).{0,40}(?:Intel|iGPU|Arc|graphics).{0,20}driver"),
            clue(
                SHOWS, r"(?:Intel|iGPU|Arc|graphics|GPU).{0,20}driver.{0,40}(?:too old|outdated|older|update|upgrade)"
            ),
            clue(
                SUGGESTS,
                seen(r"\bSYCL\b", r"Level.?Zero", r"ipex-llm", r"Arc\(TM\)", r"Iris"),
                seen(r"garbage", r"GGGG", r"gibberish", r"nonsense", r"wrong (?:output|result)", r"garbled"),
            ),
            clue(HINTS, r"main_gpu_id ?< ?g_all_sycl_device_count"),
            clue(HINTS, r"(?:ZE_RESULT_ERROR_UNSUPPORTED_VERSION|Level.?Zero.{0,40}version.{0,20}unsupported)"),
            clue(HINTS, on("windows"), r"(?:Intel|Arc|Iris).{0,120}driver"),
            clue(HINTS, r"ipex-llm.{0,120}"),
        ),
        mend=(
            step("Install the current driver", "https://www.intel.com/content/www/us/en/download/785597/", "windows"),
            step("Install the current compute runtime", "sudo apt install intel-opencl-icd libze-intel-gpu1", "linux"),
        ),
        next_check="sycl-ls; Get-CimInstance Win32_VideoController | select Name, DriverVersion",
        authority="https://github.com/intel/ipex-llm/issues/11774",
    ),
    Rule(
        slug="sycl-device-hidden-by-compat-pack",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="Microsoft's OpenCL, OpenGL and Vulkan Compatibility Pack keeps the SYCL device from being listed.",
        clues=(
            clue(PROVES, r"Compatibility Pack"),
            clue(SHOWS, r"OpenCLOn12"),
            clue(SHOWS, r"D3DMappingLayers"),
            clue(SUGGESTS, r"main_gpu_id ?< ?g_all_sycl_device_count"),
            clue(SUGGESTS, on("windows"), r"(?:found|detected?|Found) 0 SYCL devices"),
            clue(SUGGESTS, on("windows"), r"sycl.{0,60}(?:No device of requested type|no devices?)"),
            clue(HINTS, on("windows"), r"(?:sycl|SYCL).{0,80}(?:no |not |0 |fail|ASSERT)"),
        ),
        mend=(step("Take the pack off", "Get-AppxPackage *D3DMappingLayers* | Remove-AppxPackage", "windows"),),
        next_check="sycl-ls; Get-AppxPackage *D3DMappingLayers*",
        authority="https://github.com/intel/ipex-llm (FAQ)",
    ),
)
