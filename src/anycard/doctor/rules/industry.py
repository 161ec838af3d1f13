"""Industry software: renderers, solvers, photogrammetry."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, SHOWS, SUGGESTS, Rule, clue, measured, on, seen, step
from anycard.doctor.shapes import Verdict

_APPS = seen(
    r"Lumerical",
    r"\bFDTD\b",
    r"\bAnsys\b",
    r"\bFluent\b",
    r"V-?Ray",
    r"\bOctane\b",
    r"Redshift",
    r"\bBlender\b",
    r"\bCycles\b",
    r"Pix4D",
    r"Metashape",
    r"RealityCapture",
    r"\bCOMSOL\b",
    r"\bAbaqus\b",
    r"\bMATLAB\b",
    r"\bArnold\b",
    r"\bKeyShot\b",
    r"\bGROMACS\b",
    r"DaVinci",
    r"\bsolver\b",
)

RULES = (
    Rule(
        slug="app-driver-requirement-not-met",
        family="industry-software",
        verdict=Verdict.FAULT,
        says="This release of the program asks for a newer driver (or CUDA generation, or memory model) than the machine has.",
        clues=(
            clue(
                0.9,
                _APPS,
                seen(
                    r"(?:requires?|needs?|minimum|at least|must be).{0,60}(?:driver|CUDA|compute capability|unified memory)",
                    r"driver.{0,60}(?:not meet|too old|outdated|older|insufficient|required|unsupported|update)",
                    r"CUDA driver version is insufficient",
                ),
            ),
            clue(
                SHOWS,
                r"(?:graphics|NVIDIA|GPU|display) driver.{0,60}(?:does not meet|do not meet|not meet|below) .{0,40}(?:requirement|minimum)",
            ),
            clue(SHOWS, r"unified memory.{0,60}(?:not supported|required|must|disabled|off)", _APPS),
            clue(SUGGESTS, r"(?:minimum|required|recommended) driver(?: version)?[: ]+\d{3}"),
            clue(HINTS, r"(?:minimum|required|recommended) (?:NVIDIA |graphics )?driver"),
        ),
        explains=(
            "driver-too-old-for-cuda-runtime",
            "driver-too-old-for-app",
            "gpu-compute-capability-below-app-minimum",
        ),
        mend=(
            step("Install the driver that the release notes name"),
            step("Or stay on the release that this driver knows"),
        ),
        next_check="nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv",
        authority="https://optics.ansys.com (FDTD on GPU: driver 525.60.13 / 527.41, capability 5.0, unified memory)",
    ),
    Rule(
        slug="app-licence-counts-sms",
        family="industry-software",
        verdict=Verdict.FAULT,
        says="The licence is counted in the card's multiprocessors (SMs): a large card needs more of it.",
        clues=(
            clue(0.93, seen(r"licen[cs]e", r"checkout"), seen(r"\bSMs\b", r"streaming multiprocessor")),
            clue(
                SHOWS,
                r"licen[cs]e\w*.{0,80}(?:per|number of|accelerator|GPU|engine|HPC)",
                seen(r"(?:fail|denied|not enough|insufficient|exceed|unavailable)"),
            ),
            clue(
                SUGGESTS, r"(?:Failed to|could not|unable to) (?:check ?out|checkout|obtain|acquire).{0,60}licen[cs]e"
            ),
            clue(SUGGESTS, r"[Ll]icensed number of users already reached"),
            clue(0.55, r"licen[cs]e.{0,80}(?:GPU|SM|accelerator|solver|feature)"),
        ),
        mend=(
            step("Count the SMs of the card and the licences they take"),
            step("Take a smaller card, or add licences: a part of a card cannot be licensed"),
        ),
        next_check="python -c 'import torch; print(torch.cuda.get_device_properties(0).multi_processor_count)'; lmutil lmstat -a",
        authority="https://optics.ansys.com (FDTD GPU licensing)",
    ),
    Rule(
        slug="app-needs-cuda-toolkit-at-runtime",
        family="industry-software",
        verdict=Verdict.FAULT,
        says="This build of the program needs a CUDA toolkit installed on the system; the driver alone is not enough.",
        clues=(
            clue(0.92, r"CUDA_HOME environment variable is not set"),
            clue(
                0.92,
                r"(?:nvcc|ptxas|nvlink)(?:\.exe)?\W{0,3}:? ?(?:command )?(?:not found|is not recognized|No such file|executable)",
            ),
            clue(
                0.9,
                r"(?:Could ?n[o']t|Cannot|Can't|Failed to|unable to) (?:find|locate|detect) .{0,40}(?:CUDA (?:toolkit|installation|compiler)|nvcc|cuda\.h|libdevice|CUDA_PATH|CUDAToolkit)",
            ),
            clue(SHOWS, r"libdevice(?: not found|\.10\.bc)"),
            clue(SHOWS, r"(?:cudart64_\d+|cublas64_\d+|cufft64_\d+|nvrtc64_\S+|curand64_\d+)\.dll"),
            clue(SHOWS, r"lib(?:cudart|cublas|cufft|curand|cusolver|nvrtc)\.so\.\d\S*: cannot open shared object"),
            clue(SHOWS, r"Could not load dynamic library '?lib(?:cudart|cublas|cufft|curand|cusolver|cusparse)"),
            clue(
                SUGGESTS,
                r"(?:CUDA[_ ](?:toolkit|PATH|HOME)).{0,60}(?:not (?:found|installed|set)|missing|required|install)",
            ),
            clue(0.6, r"CUDA_(?:HOME|PATH)\b.{0,60}(?:not|unset|missing|None|empty)"),
            clue(HINTS, r"\bnvcc\b.{0,60}(?:not|missing)"),
            clue(
                0.9,
                r"lib(?:cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink|cupti)\.so\S*: cannot open shared object",
            ),
            clue(
                0.8,
                r"lib(?:cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|nvrtc)\.so\S* (?:not found|is missing)",
            ),
            clue(0.85, r"lib(?:NVVM|nvvm)\S* (?:cannot|could not) be found"),
            clue(0.8, r"NvvmSupportError"),
            clue(0.6, r"conda install cudatoolkit"),
        ),
        mend=(
            step(
                "Install the toolkit of the version that the build names", "sudo apt install cuda-toolkit-12-4", "linux"
            ),
            step("Or take a build that brings its own runtime"),
        ),
        next_check="nvcc --version; echo $CUDA_HOME $CUDA_PATH",
        authority="https://docs.nvidia.com/cuda/cuda-installation-guide-linux/",
    ),
    Rule(
        slug="app-silent-cpu-fallback",
        family="industry-software",
        verdict=Verdict.FAULT,
        says="The program falls back to its CPU code without saying so: it found no supported device, or none is ticked.",
        clues=(
            clue(
                0.9,
                _APPS,
                seen(
                    r"(?:falls?|falling|fell) back to (?:the )?CPU",
                    r"GPU.{0,40}(?:idle|not used|unused|\b0 ?%)",
                    r"(?:no|0) (?:supported|compatible|CUDA|GPU|OptiX) devices?",
                    r"CPU (?:emulation|mode|code|fallback|engine|device)",
                    r"C\+\+/CPU",
                    r"slow",
                ),
            ),
            clue(
                SHOWS,
                r"(?:No|0) (?:supported|suitable|compatible|usable) (?:GPU|CUDA|OptiX|RTX|compute) devices?.{0,60}(?:found|CPU|fall|emul)",
            ),
            clue(
                SUGGESTS,
                r"(?:falls?|falling|fell) back to (?:the )?CPU",
                unless=(r"NPU backend", r"MPS", r"\baten::", r"CUDA GPU is too old", r"suitable rocm"),
            ),
            clue(SUGGESTS, r"[Ee]ngine set to GPU"),
            clue(0.48, measured("card_unused")),
            clue(HINTS, on("windows"), r"GPU (?:is )?idle"),
            clue(HINTS, r"(?:using|use|uses|running on|runs on|run on) (?:the )?CPU\b"),
            clue(HINTS, r"no (?:GPU|CUDA|OptiX|compute) devices? (?:found|available|detected)", _APPS),
        ),
        mend=(
            step("Tick the card in the program's device list, and look into its console for the driver it recommends"),
            step("Update the driver to that version"),
        ),
        next_check="nvidia-smi   # while it runs: is its process listed?",
        authority="https://docs.chaos.com (V-Ray GPU, supported hardware)",
    ),
)
