"""What works as it was designed, though not as somebody expected."""

from __future__ import annotations

from anycard.doctor.rule import ALLOWS, HINTS, SHOWS, SUGGESTS, Rule, clue, printed, said, seen, step
from anycard.doctor.rules.harmless import FAMILY, NOTHING
from anycard.doctor.shapes import Verdict

RULES = (
    Rule(
        slug="ok-cpu-stage-of-pipeline",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="These stages of the program work on CPU and disk by design; the card has its turn in others.",
        clues=(
            clue(
                0.75,
                said(r"GPU.{0,20}(?:idle|unused|not (?:being )?used|0 ?%)|(?:only|all).{0,12}CPU"),
                seen(
                    r"(?:align|selecting pairs|calibrat|mesh|orthomosaic|pre-?process|densif|decod|export)\w*.{0,40}(?:stage|step|phase|photos|pairs|done)"
                ),
            ),
            clue(0.9, r"(?:Processing|Pipeline) (?:step|stage).{0,40}(?:CPU|GPU)"),
            clue(
                SHOWS,
                seen(
                    r"Pix4D",
                    r"Metashape",
                    r"RealityCapture",
                    r"photogrammetry",
                    r"Lumerical",
                    r"meshing",
                    r"[Cc]alibration",
                ),
                seen(
                    r"(?:step|stage|phase)\w*.{0,60}(?:CPU|GPU)", r"GPU.{0,40}(?:idle|not used|unused|\b0 ?%|low|only)"
                ),
                unless=(r"driver",),
            ),
            clue(
                SHOWS, said(r"(?:stage|step|phase|preprocess\w*|meshing|calibration)\w*.{0,60}(?:CPU|on the processor)")
            ),
        ),
        explains=("app-silent-cpu-fallback", "gpu-starved-by-dataloader", "gpu-starved-by-storage-io"),
        mend=(step("Give those stages cores and fast disks; hold a card only for the stages that use it"),),
        next_check="nvidia-smi dmon -s u   # through all stages",
        authority="https://support.pix4d.com (hardware usage by processing step)",
    ),
    Rule(
        slug="ok-keep-alive-unload",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="Ollama unloads a model that was not asked for some minutes (keep_alive, 5 by default).",
        clues=(
            clue(
                0.8,
                said(
                    r"after (?:some|a few|several|five|\d+) min\w*.{0,80}(?:empty|unload|gone|no memory|released|disappear|not loaded)"
                ),
                seen(r"ollama", r"keep_alive", r"PROCESSOR +"),
            ),
            clue(
                0.85,
                r"OLLAMA_KEEP_ALIVE[:=]",
                said(
                    r"unload",
                    r"after (?:a )?(?:few|some|5|five) minutes",
                    r"VRAM.{0,30}(?:empty|free)",
                    r"delay",
                    r"reload",
                ),
            ),
            clue(
                0.6,
                r"OLLAMA_KEEP_ALIVE[:=]5m0s",
                unless=(
                    r"offloaded",
                    r"inference compute",
                    r"level=ERROR",
                    r"level=WARN",
                    r"no compatible GPUs",
                    r"cuda",
                ),
            ),
            clue(SHOWS, said(r"keep_alive", r"(?:model|VRAM).{0,40}(?:unload\w*|freed|emptied).{0,60}minutes")),
            clue(SUGGESTS, r"(?:runner expired event received|timer expired, expiring to unload)"),
        ),
        mend=(step("Keep it loaded", "OLLAMA_KEEP_ALIVE=-1 ollama serve"),),
        next_check="ollama ps   # column UNTIL",
        authority="https://github.com/ollama/ollama/blob/main/docs/faq.md (keep a model loaded)",
    ),
    Rule(
        slug="ok-npu-operator-fallback-warning",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="One operator is not there for the NPU (or this backend) and runs on the CPU; everything else stays on the card.",
        clues=(
            clue(0.9, r"is not currently supported on the (?:NPU|XPU) backend and will fall back"),
            clue(0.9, r"npu_cpu_fallback"),
            clue(
                SHOWS,
                r"will fall ?back to (?:run on )?(?:the )?CPU\. This may have performance implications",
                unless=(r"MPS",),
            ),
            clue(SHOWS, r"Aten Op fallback from XPU to CPU"),
        ),
        explains=("app-silent-cpu-fallback", "mps-operator-needs-fallback", "torch-torchvision-cuda-mismatch"),
        mend=(step("Nothing is broken; if it is slow, update torch_npu and CANN"),),
        next_check="npu-smi info   # while it runs",
        authority="https://github.com/opendatalab/MinerU/issues/1941",
    ),
    Rule(
        slug="ok-one-mig-instance-per-process",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="A CUDA process can use a single MIG instance, however many are named.",
        clues=(
            clue(
                0.9,
                r"\bMIG[- ]",
                seen(r"device_count\(\)", r"\b1\b.{0,20}device", r"only (?:one|1|sees)", r"single"),
                unless=(r"Error", r"No CUDA GPUs", r"invalid", r"ASSERT", r"\bOut\[\d+\]: 0\b"),
            ),
            clue(SHOWS, r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?MIG-\S+,MIG-"),
            clue(
                HINTS,
                printed(r"device_count\(\)"),
                unless=(r"Error", r"CUDA_VISIBLE_DEVICES", r"PyTorch version", r"os\.environ"),
            ),
            clue(HINTS, r"\bMIG \d\w+\.\d+gb"),
        ),
        explains=("mig-instance-not-selected", "cuda-visible-devices-wrong"),
        mend=(step("Start one process for each instance", "CUDA_VISIBLE_DEVICES=MIG-... python worker.py"),),
        next_check="nvidia-smi -L; nvidia-smi -q | grep -A2 'MIG Mode'",
        authority="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (device enumeration)",
    ),
    Rule(
        slug="ok-rocm-uses-cuda-names",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="ROCm builds keep the torch.cuda interface and the device name 'cuda': that is the AMD card.",
        clues=(
            clue(
                0.9,
                seen(r"\+rocm\d", r"version\.hip.{0,12}\d", r"\bROCm\b", r"ROCM used to build PyTorch: \d", r"\bHIP\b"),
                seen(
                    r"device ?=? ?\(?['\"]?cuda",
                    r"torch\.cuda\.(?:is_available|get_device_name|device_count)",
                    r"['\"]cuda(?::\d)?['\"]",
                ),
                unless=(
                    r"Error",
                    r"error:",
                    r"Traceback",
                    r"\+cu\d",
                    r"HSA_OVERRIDE",
                    r"hipErrorNoBinary",
                    r"Permission denied",
                    r"False\b",
                ),
            ),
            clue(
                0.9,
                r"Found GPU\d .*(?:AMD|Radeon|Vega|Ellesmere|Navi|Instinct|\bMI\d{2,3}|gfx\d).{0,60}cuda capability",
                unless=(r"hipErrorNoBinary", r"invalid device function", r"Traceback"),
            ),
            clue(SUGGESTS, r"torch\.cuda.{0,60}(?:AMD|Radeon|ROCm|gfx)"),
            clue(HINTS, r"(?:ROCm|rocm|HIP).{0,120}\bcuda\b"),
            clue(
                HINTS,
                printed(r"device ?= ?[\x27\"]cuda"),
                unless=(r"[Ee]rror", r"Traceback", r"False\b", r"[Ww]arning"),
            ),
        ),
        explains=("gpu-too-old-for-framework", "framework-build-lacks-gpu-arch"),
        mend=NOTHING,
        next_check="python -c 'import torch; print(torch.version.hip, torch.cuda.get_device_name(0))'",
        authority="https://docs.pytorch.org/docs/stable/notes/hip.html",
    ),
    Rule(
        slug="ok-slurm-excess-gres",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="The node has more cards than its configuration names: the rest is left alone, which is a note, not a fault.",
        clues=(
            clue(0.9, r"Ignoring excess (?:count|GRES|gres|gpu)"),
            clue(
                0.9,
                r"(?:gres|GRES)\S*.{0,60}(?:excess|(?:more|higher|greater) (?:\S+ )?than configured|reported higher than configured|count too high|greater than configured)",
            ),
            clue(SHOWS, r"excess.{0,40}(?:gres|GRES|gpu)"),
            clue(
                0.8,
                r"following autodetected GPUs are being ignored",
                unless=(r"lack of File", r"Discarding the following", r"Gres=\(null\)", r"GresTypes"),
            ),
        ),
        separates="Fewer than configured drains the node (slurm-gres-count-lower-than-configured).",
        explains=("slurm-grestypes-not-set", "slurm-gres-conf-differs-between-hosts"),
        mend=(step("To use them, raise the number", "NodeName=... Gres=gpu:8   # in slurm.conf"),),
        next_check="slurmd -G; scontrol show node $(hostname -s) | grep Gres",
        authority="https://slurm.schedmd.com/gres.html",
    ),
    Rule(
        slug="ok-task-manager-graphics-only",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="Task Manager's default graphs show the graphics engines; compute work is drawn under 'Cuda' (or 'Compute').",
        clues=(
            clue(0.92, r"[Tt]ask [Mm]anager", unless=(r"\bTDR\b", r"CPU/GPU", r"fail")),
            clue(0.92, r"任务管理器"),
        ),
        explains=("ok-utilisation-below-100", "app-silent-cpu-fallback", "gpu-starved-by-dataloader"),
        mend=(step("Choose the graph 'Cuda', or look with", "nvidia-smi dmon -s u"),),
        next_check="nvidia-smi",
        authority="https://devblogs.microsoft.com/directx/gpus-in-the-task-manager/",
    ),
    Rule(
        slug="ok-utilisation-below-100",
        family=FAMILY,
        verdict=Verdict.EXPECTED,
        says="All of the model is on the card; generating is bound by memory bandwidth, so utilisation stays below 100 %.",
        clues=(
            clue(
                0.85,
                seen(r"--n-gpu-layers \d+", r"runners/(?:cuda|rocm)\w*", r"offloaded (\d+)/\1 layers", r"100% GPU"),
                said(r"utili[sz]ation", r"GPU usage"),
            ),
            clue(
                0.6,
                r"offloaded (\d+)/\1 layers to GPU",
                unless=(
                    r"out of memory",
                    r"ERROR",
                    r"timed out",
                    r"level=WARN",
                    r"cudaMalloc failed",
                    r"failed to allocate",
                ),
            ),
            clue(0.6, r"\b100% GPU\b", unless=(r"out of memory", r"ERROR", r"failed to allocate")),
            clue(SHOWS, r"runners/(?:cuda|rocm)\w*/\S+ .*--n-gpu-layers"),
            clue(SUGGESTS, said(r"utili[sz]ation.{0,30}\b(?:[4-9]\d) ?%")),
            clue(ALLOWS, r"MiB \|\s+(?:[4-9]\d)%"),
        ),
        mend=NOTHING,
        next_check="nvidia-smi dmon -s um",
        authority="https://github.com/ollama/ollama/blob/main/docs/faq.md",
    ),
)
