"""Intel cards: oneAPI and MKL, Level Zero, torch xpu and IPEX."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.facts import numbers
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, said, seen, step
from anycard.doctor.shapes import Line, Verdict

_INTEL = seen(
    r"\bxpu\b",
    r"\bArc\b",
    r"oneAPI",
    r"SYCL\b",
    r"Level.?Zero",
    r"intel[-_]extension",
    r"\bipex\b",
    r"intel-\w+-icd",
    r"/opt/intel/",
)


def _ipex_of_other_torch(case: Case) -> tuple[Line, ...] | None:
    """IPEX x.y needs torch x.y. Source: intel-extension-for-pytorch release notes."""
    ipex, torch = case.fact("ipex"), case.fact("torch")
    if ipex and torch and numbers(ipex.value)[:2] != numbers(torch.value)[:2]:
        return (ipex.line, torch.line)
    return None


RULES = (
    Rule(
        slug="conda-libstdcxx-shadows-system",
        family="intel",
        verdict=Verdict.FAULT,
        says="The environment brings an older C++ runtime (libstdc++) that the vendor's library cannot use.",
        clues=(
            clue(
                PROVES,
                r"LD_PRELOAD=\S*libstdc\+\+",
                seen(r"torch\.xpu", r"sycl-ls", r"level_zero", r"ipex|intel_extension"),
            ),
            clue(0.85, r"conda deactivate", seen(r"sycl-ls", r"torch\.xpu", r"level_zero:gpu")),
            clue(0.93, r"version `?'?(?:GLIBCXX|CXXABI)_[\d.]+'? not found"),
            clue(SHOWS, r"libstdc\+\+\.so\.6.{0,60}(?:version|too old|older|shadow|conda|GLIBCXX|CXXABI)"),
            clue(SHOWS, r"LD_PRELOAD=\S*libstdc\+\+"),
            clue(SUGGESTS, r"(?:GLIBCXX|CXXABI)_\d[\d.]+"),
            clue(SUGGESTS, r"(?:conda|envs)\S*/libstdc\+\+\.so"),
            clue(SUGGESTS, r"libstdc\+\+\.so\.6\.0\.(?:[12]\d)\b"),
            clue(HINTS, r"PI_ERROR_UNINITIALIZED"),
            clue(0.7, r"libstdcxx-ng"),
        ),
        explains=("intel-oneapi-runtime-not-on-path", "vulkan-icd-dependency-missing", "intel-mixed-mkl"),
        mend=(
            step("Bring a newer one into the environment", "conda install -c conda-forge 'libstdcxx-ng>=13'"),
            step("Or take the system's", "export LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libstdc++.so.6"),
        ),
        next_check="strings $CONDA_PREFIX/lib/libstdc++.so.6 | grep -c GLIBCXX_3.4.30; ldd LIBRARY | grep stdc",
        authority="https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html",
    ),
    Rule(
        slug="intel-arc-no-fp64",
        family="intel",
        verdict=Verdict.FAULT,
        says="Arc A-series cards have no 64-bit floating point; the program asks for it.",
        clues=(
            clue(PROVES, r"Required aspect fp64 is not supported"),
            clue(
                SHOWS,
                r"(?:fp64|double(?: type|-precision| precision)?|64-bit float\w*).{0,60}(?:not supported|unsupported|is required|no native)",
                _INTEL,
            ),
            clue(
                0.9,
                r"(?:fp64|FP64|double).{0,40}(?:data type |math )?(?:is )?(?:unsupported|not supported) on (?:the )?current platform",
            ),
            clue(0.9, r"uses-fp64-math"),
            clue(SHOWS, r"aspect::fp64"),
            clue(SHOWS, r"OverrideDefaultFP64Settings"),
            clue(SHOWS, r"IGC_EnableDPEmulation"),
            clue(SHOWS, r"double type is not supported on this platform"),
            clue(SUGGESTS, r"\bfp64\b", _INTEL),
            clue(0.6, r"\b(?:fp64|FP64)\b"),
        ),
        mend=(
            step("Compute in float32 (torch.set_default_dtype, .float())"),
            step("Or emulate, slowly", "export OverrideDefaultFP64Settings=1 IGC_EnableDPEmulation=1"),
        ),
        next_check="clinfo | grep -i 'double-precision'",
        authority="https://github.com/intel/compute-runtime/blob/master/opencl/doc/FAQ.md#feature-double-precision-emulation-fp64",
    ),
    Rule(
        slug="intel-mixed-mkl",
        family="intel",
        verdict=Verdict.FAULT,
        says="Several versions of oneMKL meet in one process (conda, wheels, a sourced oneAPI).",
        clues=(
            clue(0.92, r"libmkl\S+: undefined symbol"),
            clue(0.92, r"undefined symbol: mkl_\w+"),
            clue(SHOWS, r"libmkl_\w+\.so\S*: cannot open shared object file"),
            clue(SHOWS, r"Intel MKL FATAL ERROR: Cannot load"),
            clue(SHOWS, r"INTEL oneMKL ERROR"),
            clue(SHOWS, r"mkl-service \+ Intel"),
            clue(SUGGESTS, r"libmkl_sycl\w*\.so\S*"),
            clue(0.55, r"\blibmkl_\w+"),
            clue(0.6, r"\bMKL\b.{0,80}(?:ERROR|error|fail|version|cannot)"),
        ),
        mend=(
            step("Start a shell without setvars.sh, in a fresh environment"),
            step("Keep the one that the wheel was built with", "pip install 'mkl==2024.0'"),
        ),
        next_check="pip list | grep -i mkl; env | grep -E 'MKLROOT|LD_LIBRARY_PATH'; conda list mkl",
        authority="https://github.com/intel/intel-extension-for-pytorch (known issues)",
    ),
    Rule(
        slug="intel-oneapi-runtime-not-on-path",
        family="intel",
        verdict=Verdict.FAULT,
        says="The SYCL and oneAPI runtime libraries are not found: the environment scripts were not run, or the runtime wheels are missing.",
        clues=(
            clue(0.92, r"Error loading .{0,200}(?:c10_xpu|torch_xpu|intel-ext-pt|esimd_kernels|xpu)\S*\.dll"),
            clue(
                0.92,
                r"lib(?:sycl|svml|imf|intlc|irng|ur_loader|pi_level_zero|OpenCL_intel|iomp5|tcm|umf|hwloc)\.so\S*: cannot open shared object",
            ),
            clue(SHOWS, r"(?:sycl\d|svml_dispmd|mkl_sycl\S*|ur_loader|pi_win_proxy_loader|libmmd)\.dll"),
            clue(SHOWS, r"setvars\.(?:sh|bat).{0,60}(?:not|source|run|forgot|missing)"),
            clue(SHOWS, r"(?:sycl-ls|icpx|dpcpp|icx): (?:command )?not found"),
            clue(SHOWS, r"IntelLLVM.{0,40}(?:not found|could not)"),
            clue(SUGGESTS, r"libmkl_\w+\.so\S*: cannot open shared object file"),
            clue(HINTS, r"main_gpu_id ?< ?g_all_sycl_device_count"),
            clue(HINTS, r"WinError 126.{0,120}", _INTEL),
            clue(HINTS, r"libze_loader\.so\S*: cannot open"),
            clue(0.55, r"(?:c10_xpu|torch_xpu|libsycl|sycl\d|libur_)\w*"),
            clue(0.55, r"\boneAPI\b.{0,80}(?:not|source|missing|setvars)"),
        ),
        mend=(
            step(
                "Run the script in the same shell",
                'call "C:\\Program Files (x86)\\Intel\\oneAPI\\setvars.bat"',
                "windows",
            ),
            step("Run the script in the same shell", "source /opt/intel/oneapi/setvars.sh", "linux wsl"),
            step(
                "Or take torch 2.6 or later, whose +xpu wheels bring their runtime",
                "pip install torch --index-url https://download.pytorch.org/whl/xpu",
            ),
        ),
        next_check="sycl-ls",
        authority="https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html",
    ),
    Rule(
        slug="intel-oom-reported-as-997",
        family="intel",
        verdict=Verdict.FAULT,
        says="The Intel runtime ran out of memory and reports it under an unrelated code (-997, 'command failed to enqueue').",
        clues=(
            clue(0.92, r"Native API (?:failed|returns)\b.{0,60}-997"),
            clue(0.92, r"-997 \((?:Command failed to enqueue|The plugin has emitted)"),
            clue(0.9, r"\b997\b.{0,60}(?:enqueue|plugin|PI_ERROR|UR_RESULT)"),
            clue(
                SHOWS,
                r"Native API returns: ?(?:-5|-6|-4|39|40|45) \((?:PI|UR|CL|ZE|UR_RESULT)_\w*(?:OUT_OF|RESOURCES|MEM_OBJECT)\w*\)",
            ),
            clue(SHOWS, r"UR_RESULT_ERROR_(?:OUT_OF_RESOURCES|OUT_OF_(?:DEVICE|HOST)_MEMORY)"),
            clue(SHOWS, r"(?:PI|UR)_ERROR_(?:OUT_OF_RESOURCES|OUT_OF_HOST_MEMORY|MEM_OBJECT_ALLOCATION_FAILURE)"),
            clue(SUGGESTS, r"UR error.{0,40}", seen(r"out of memory", r"allocat")),
            clue(0.75, r"-999 \(Unknown PI error\)"),
            clue(SHOWS, r"Allocation is out of device memory on current platform"),
            clue(HINTS, r"(?:UR_RESULT_ERROR_DEVICE_LOST|UR_RESULT_ERROR_UNKNOWN)"),
        ),
        explains=("oom-model-too-large",),
        mend=(
            step("Take less: smaller batch, context or model"),
            step("Watch the card's memory while it runs", "xpu-smi dump -d 0 -m 18"),
        ),
        next_check="xpu-smi stats -d 0; python -c 'import torch; print(torch.xpu.mem_get_info())'",
        authority="https://github.com/intel/intel-extension-for-pytorch/issues (error -997)",
    ),
    Rule(
        slug="intel-small-bar-rejected",
        family="intel",
        verdict=Verdict.FAULT,
        says="The board exposes a memory window of 256 MiB only; with the xe driver Level Zero refuses such a device (Resizable BAR is off).",
        clues=(
            clue(0.9, r"[Ss]mall.?BAR"),
            clue(
                SHOWS,
                r"[Rr]e-?[Ss]iz(?:e)?able BAR.{0,60}(?:off|disabled|not (?:enabled|supported)|required|enable|256)",
            ),
            clue(SHOWS, r"(?:BAR ?\d?|LMEMBAR|prefetchable).{0,60}(?:256 ?M\b|256 ?MiB|size=256M)", _INTEL),
            clue(SHOWS, r"\[xe\].{0,120}(?:io_size|visible).{0,60}(?:256|0x0000000010000000)"),
            clue(SHOWS, r"xe \S+:.{0,80}VRAM.{0,120}(?:CPU visible|io size|is_small|visible).{0,60}"),
            clue(SUGGESTS, r"\[size=256M\]"),
            clue(SUGGESTS, r"re-?bar\b", _INTEL),
            clue(0.55, r"(?:Resizable BAR|ReBAR|resizable bar|small BAR)"),
            clue(SUGGESTS, r"\bxe\b.{0,80}\b256 ?Mi?B?\b"),
            clue(HINTS, r"\bLMEM\w*\b.{0,80}256"),
        ),
        mend=(
            step("In the firmware: Above 4G Decoding and Resizable BAR on, CSM off"),
            step(
                "If the board cannot, use the i915 driver",
                "xe.force_probe=!56a0 i915.force_probe=56a0  # on the kernel line",
            ),
        ),
        next_check="sudo lspci -vv -d 8086: | grep -A12 -i vga | grep -i 'size='; dmesg | grep -iE 'xe .*VRAM'",
        authority="https://github.com/intel/compute-runtime (small BAR)",
    ),
    Rule(
        slug="ipex-torch-version-mismatch",
        family="intel",
        verdict=Verdict.FAULT,
        says="intel_extension_for_pytorch and torch are of different minor versions.",
        clues=(
            clue(0.93, r"Intel.{0,3} ?Extension for PyTorch\S* \S* ?needs to work with PyTorch"),
            clue(0.93, r"needs to work with PyTorch \d.{0,40}but PyTorch"),
            clue(0.92, Check(_ipex_of_other_torch)),
            clue(0.9, r"(?:intel_extension_for_pytorch|libintel-ext-pt\S*|intel-ext-pt\S*).{0,160}undefined symbol"),
            clue(
                SHOWS,
                r"undefined symbol: _ZN.{0,60}(?:c10|at|torch)",
                seen(r"intel_extension_for_pytorch", r"\bipex\b"),
            ),
            clue(SHOWS, r"intel[-_]extension[-_]for[-_]pytorch \S* (?:requires|depends on) torch"),
        ),
        separates="An undefined mkl_ symbol is intel-mixed-mkl.",
        explains=("torch-wheel-replaced-by-dependency", "cuda-libraries-mixed", "torch-cpu-only-build"),
        mend=(
            step(
                "IPEX is no longer maintained: take torch's own +xpu wheel instead",
                "pip uninstall -y intel-extension-for-pytorch && pip install torch --index-url https://download.pytorch.org/whl/xpu",
            ),
            step("If you must keep it, match the minors (IPEX 2.8.x with torch 2.8.0+xpu)"),
        ),
        next_check="pip list | grep -iE 'torch|ipex|intel.extension'",
        authority="https://github.com/intel/intel-extension-for-pytorch (archived; dependency_version files)",
    ),
    Rule(
        slug="level-zero-npu-provider-conflict",
        family="intel",
        verdict=Verdict.FAULT,
        says="The NPU's Level Zero driver (intel-level-zero-npu) is enumerated too and lacks what torch asks for.",
        clues=(
            clue(0.92, r"intel-level-zero-npu"),
            clue(0.9, r"libze_intel_(?:vpu|npu)"),
            clue(
                SHOWS,
                seen(r"intel_vpu", r"\bNPU\b"),
                seen(
                    r"zeDriverGetExtension\w*",
                    r"Level.?Zero.{0,80}(?:extension|driver|fail)",
                    r"ZE_RESULT_ERROR\w*",
                    r"UR_RESULT_ERROR_UNSUPPORTED\w*",
                ),
            ),
            clue(0.9, r"NPU_LOG.{0,80}(?:ERROR|unknown|not supported)"),
            clue(SHOWS, r"name of extension is unknown"),
            clue(SUGGESTS, r"ZE_INTEL_NPU_LOGLEVEL"),
            clue(SUGGESTS, r"zex?Driver(?:Import|GetExtension)\w+"),
            clue(SUGGESTS, r"ZE_ENABLE_ALT_DRIVERS"),
            clue(HINTS, r"\bintel_vpu\b"),
        ),
        mend=(
            step("Take it off where the NPU is not used", "sudo apt remove intel-level-zero-npu"),
            step("Or name the GPU's driver only", "export ZE_ENABLE_ALT_DRIVERS=libze_intel_gpu.so.1"),
        ),
        next_check="dpkg -l | grep level-zero; sycl-ls --verbose | head -20",
        authority="https://github.com/pytorch/pytorch/issues (xpu, level-zero-npu)",
    ),
    Rule(
        slug="torch-wheel-replaced-by-dependency",
        family="intel",
        verdict=Verdict.FAULT,
        says="Installing another package replaced the vendor's torch build (+xpu, +rocm, +cu) by the plain one of the default index.",
        clues=(
            clue(
                0.92,
                seen(r"Uninstalling torch-\S+\+(?:xpu|rocm|cu)\S*", r"- torch==\S+\+(?:xpu|rocm|cu)"),
            ),
            clue(
                0.9,
                seen(r"torch[-= ]+\d\S*\+(?:xpu|rocm)\S*", r"\btorch\.xpu\b", r"\bArc\b.{0,20}\d{3}"),
                seen(
                    r"torch[-= ]+\d\S*\+(?:cpu|cu\d+)",
                    r"torch is a CPU build",
                    r"no attribute 'xpu'",
                    r"Torch not compiled with XPU enabled",
                    r"overw(?:rote|ritten)",
                ),
                unless=(r"version\.hip",),
            ),
            clue(
                0.6,
                r"torch\.xpu(?:\.is_available\(\))? (?:is |returns )?(?:unavailable|False)",
                unless=(r"libstdc\+\+", r"GLIBCXX"),
            ),
            clue(SHOWS, r"Torch not compiled with XPU enabled"),
            clue(SHOWS, r"PyTorch (?:was|is) not (?:compiled|built) with (?:support for )?(?:XPU|SYCL)"),
            clue(SHOWS, r"torch\.xpu\.is_available\(\).{0,30}False", r"(?:\+cpu|\+cu\d+)"),
            clue(
                SHOWS,
                said(
                    r"after (?:installing|pip install|uv sync|updating).{0,80}torch.{0,40}(?:CPU|replaced|overw|other|default)"
                ),
            ),
            clue(SUGGESTS, _INTEL, r"\btorch\S* ?\d\.\d+\.\d+\+(?:cpu|cu\d+)"),
            clue(HINTS, r"(?:uninstall|Uninstalling|Attempting uninstall):? ?torch"),
        ),
        explains=("torch-cpu-only-build",),
        mend=(
            step(
                "Install the vendor's build again, last",
                "pip install --force-reinstall --no-deps torch --index-url https://download.pytorch.org/whl/xpu",
            ),
            step(
                "Pin it in the project: an explicit index for torch (tool.uv.sources), or a constraint file",
                "pip install -c constraints.txt ...",
            ),
        ),
        next_check="pip list | grep -i torch; pip show torch | head -3",
        authority="https://docs.astral.sh/uv/guides/integration/pytorch/",
    ),
)
