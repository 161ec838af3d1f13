"""Rented cards: what providers do when an instance stops, and what does not survive."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, SHOWS, SUGGESTS, Rule, clue, on, seen, step
from anycard.doctor.shapes import Verdict

_CLOUD = seen(
    r"\brunpod\b",
    r"\bvast\.?ai\b",
    r"\binstance\b",
    r"\bpod\b",
    r"\bcolab\b",
    r"\bkaggle\b",
    r"\blambda ?labs?\b",
    r"\bpaperspace\b",
    r"AutoDL",
    r"\bEC2\b",
    r"\bprovider\b",
)

RULES = (
    Rule(
        slug="cloud-credit-exhausted",
        family="rental",
        verdict=Verdict.APPLICATION,
        says="The provider stopped the instance for lack of credit.",
        clues=(
            clue(
                0.92,
                r"(?:insufficient|not enough|no|zero|low|negative|out of|exhausted|depleted) (?:account )?(?:credit|balance|funds)",
            ),
            clue(
                0.92,
                r"(?:credit|balance|funds)s? ?(?:is |are |has |was |have |too |been |fully )*(?:insufficient|exhausted|depleted|run out|ran out|zero|negative|low|used up|empty|below)",
            ),
            clue(0.92, r"(?:credit|balance)[\"': =$]+-?0(?:\.0\d?)?\b"),
            clue(
                0.92,
                r"(?:account|credit|wallet)s? balance.{0,12}(?:reached|hit|at|to|below|under) ?[$€¥]?-?0(?:\.0\d?)?\b",
            ),
            clue(0.92, r"(?:insufficient|lacks?|low)_?[ -]?(?:credit|balance|funds)\b"),
            clue(0.92, r"\b(?:zero|no|0) compute units (?:available|left|remaining)"),
            clue(SHOWS, r"\b(?:zero|no|0) compute units\b", r"Resources offered free of charge"),
            clue(SUGGESTS, r"^ *Balance\b", r"\b(?:stopped|exited|inactive|offline)\b", _CLOUD),
            clue(SHOWS, r"402 Payment Required"),
            clue(SHOWS, r"(?:billing|payment).{0,40}(?:failed|declined|past due|suspended|required)"),
            clue(
                SHOWS,
                r"(?:account|instance|pod).{0,60}(?:suspended|stopped|paused|terminated).{0,60}(?:credit|balance|billing|payment|funds)",
            ),
            clue(SHOWS, r"(?:余额不足|欠费|账户余额)\w*"),
            clue(SUGGESTS, r"(?:add|buy|top up|purchase|reload) (?:more )?(?:credit|funds|balance)"),
        ),
        separates="With credit left, an instance that does not come back lost its card to another tenant (cloud-stopped-instance-lost-gpu).",
        explains=("cloud-stopped-instance-lost-gpu", "cloud-data-on-ephemeral-disk"),
        mend=(
            step("Add credit soon: storage of a stopped instance is billed, and deleted when the balance ends"),
            step("Switch automatic payment on, and keep checkpoints outside the instance"),
        ),
        next_check="vastai show user   # or the provider's billing page",
        authority="https://docs.runpod.io/accounts-billing/billing",
    ),
    Rule(
        slug="cloud-data-on-ephemeral-disk",
        family="rental",
        verdict=Verdict.APPLICATION,
        says="The files were on a disk that does not survive a stop of the instance.",
        clues=(
            clue(
                0.92,
                seen(
                    r"(?:files?|data|model\w*|checkpoints?|everything|weights|dataset|folder|directory|packages?|environment|\w*work\w*).{0,60}(?:gone|lost|missing|disappear\w*|wiped|vanish\w*|deleted|empty|not there|reset)",
                    r"(?:lost|lose|losing|wiped|reset).{0,40}(?:files?|data|model|everything|work|disk)",
                ),
                seen(
                    r"\b(?:after|when|on|upon|since)\b.{0,40}\b(?:stop\w*|restart\w*|terminat\w*|preempt\w*|shut ?down|resum\w*|reset|reboot\w*)",
                    r"\b(?:stopp(?:ed|ing)|restart\w*|terminat\w+|resum(?:e|ed|ing))\b",
                ),
            ),
            clue(
                0.9,
                r"(?:files?|data|work|checkpoints?|models?).{0,60}(?:gone|disappear\w*|vanish\w*|wiped|deleted|lost)",
                r"(?:re-?open\w*|re-?connect\w*|clos(?:ed|ing)|next day|over ?night|new session|disconnect\w*)",
                seen(
                    r"\bcolab\b",
                    r"\bkaggle\b",
                    r"/content\b",
                    r"sample_data",
                    r"[Nn]otebook",
                    r"[Ww]orkspace",
                    *_CLOUD.expressions,
                ),
            ),
            clue(
                SHOWS,
                r"(?:[Ll]ocal|[Ee]phemeral|[Tt]emporary) (?:volume|disk|storage) (?:was |is |has been )?(?:deleted|removed|wiped|released)",
            ),
            clue(SHOWS, r"emptyDir.{0,60}(?:deleted|removed|lost)"),
            clue(
                0.9,
                r"(?:ephemeral|instance store|temporary|local ssd|scratch).{0,60}(?:disk|storage|volume|data|device)",
                seen(
                    r"lost",
                    r"gone",
                    r"not persist",
                    r"wiped",
                    r"empty",
                    r"No such file",
                    r"erased",
                    r"\bstop(?:s|ped|ping)?\b",
                ),
            ),
            clue(
                SHOWS,
                r"(?:container disk|ephemeral (?:disk|storage)|overlay).{0,80}(?:not persist|erased|wiped|cleared|lost|reset|temporary)",
            ),
            clue(
                SHOWS,
                r"(?:only|files (?:outside|not in)).{0,20}/workspace.{0,60}(?:persist|kept|saved|survive|preserved)",
            ),
            clue(SHOWS, r"not (?:be )?persist\w*.{0,60}(?:restart|stop|session)"),
            clue(SUGGESTS, r"^overlay +\S+ +\S+ +\S+ +\S+ +/$", r"No such file or directory"),
            clue(
                SUGGESTS,
                r"No such file or directory.{0,20}",
                seen(
                    r"/workspace",
                    r"/root/\w+",
                    r"/mnt/(?:local|nvme|ephemeral|resource)",
                    r"/content/",
                    r"/kaggle/working",
                ),
                seen(r"runpod", r"vast", r"instance", r"colab", r"restart"),
            ),
        ),
        explains=("cloud-runtime-without-gpu", "cloud-stopped-instance-lost-gpu"),
        mend=(
            step(
                "Keep what must survive on a volume of the provider or in object storage",
                "anycard.checkpoint writes to ANYCARD_CHECKPOINT_DIR",
            ),
            step("See which disk is which", "df -h; mount | grep -E 'overlay|workspace'"),
        ),
        next_check="df -h; mount",
        authority="https://docs.runpod.io/pods/storage/types",
    ),
    Rule(
        slug="cloud-runtime-without-gpu",
        family="rental",
        verdict=Verdict.APPLICATION,
        says="The notebook runs on a CPU runtime: no accelerator was chosen, or the usage limit is reached.",
        clues=(
            clue(
                0.88,
                seen(r"^/content\b", r"sample_data", r"^!nvidia-smi", r"%tensorflow_version", r"/kaggle/working"),
                seen(r"nvidia-smi: (?:command )?not found", r"No CUDA GPUs are available", r"Found no NVIDIA driver"),
            ),
            clue(0.93, r"(?:Cannot|can't|unable to|could not) connect to (?:a )?GPU backend"),
            clue(0.93, r"You cannot currently connect to a GPU due to usage limits"),
            clue(
                0.9,
                seen(
                    r"\bcolab\b",
                    r"\bkaggle\b",
                    r"/content/",
                    r"[Nn]otebook",
                    r"\bruntime type\b",
                    r"/kaggle/",
                    r"SageMaker Studio",
                    r"Paperspace",
                ),
                seen(
                    r"Found no NVIDIA driver",
                    r"No CUDA GPUs are available",
                    r"nvidia-smi: (?:command )?not found",
                    r"couldn'?t communicate with the NVIDIA driver",
                    r"is_available\(\).{0,12}False",
                    r"no CUDA-capable device",
                    r"No GPU",
                    r"GPU device not found",
                    r"Torch not compiled with CUDA",
                ),
            ),
            clue(SHOWS, r"Change runtime type"),
            clue(SHOWS, r"(?:Hardware accelerator|runtime)(?: is|:| =| set to)? (?:None|CPU)\b"),
            clue(SHOWS, r"COLAB_GPU=?['\": ]*0?$"),
            clue(SUGGESTS, r"GPU (?:quota|usage limit)"),
            clue(SUGGESTS, r"/usr/local/lib/python3\.\d+/dist-packages/torch.{0,160}Found no NVIDIA driver"),
            clue(0.55, r"\b[Cc]olab\b"),
            clue(0.55, r"\b[Kk]aggle\b"),
            clue(
                HINTS,
                on("container"),
                seen(
                    r"Found no (?:Cycles|CUDA|OptiX|GPU) device", r"no (?:GPU|CUDA|OptiX) devices? (?:found|available)"
                ),
            ),
        ),
        explains=(
            "torch-cpu-only-build",
            "kernel-module-missing-for-running-kernel",
            "container-started-without-gpus",
            "cuda-visible-devices-wrong",
        ),
        mend=(
            step("Runtime, Change runtime type: choose a GPU, then run everything again"),
            step("If the limit is reached: wait, or take a paid unit"),
        ),
        next_check="!nvidia-smi -L",
        authority="https://research.google.com/colaboratory/faq.html",
    ),
    Rule(
        slug="cloud-stopped-instance-lost-gpu",
        family="rental",
        verdict=Verdict.APPLICATION,
        says="Stopping released the card on that physical host; another tenant has it now, and the instance is tied to the host.",
        clues=(
            clue(0.93, r"(?:zero|0) GPUs? (?:Pods?|available|on|remaining)\b"),
            clue(0.93, r"not enough free GPUs? on the host machine"),
            clue(0.9, r"(?:status|instance|stays?|stuck).{0,40}['\"]?scheduling['\"]?"),
            clue(SHOWS, r"no longer (?:has )?(?:any )?(?:GPU|instance)s? available"),
            clue(
                SHOWS,
                r"(?:start|resume)\w* .{0,60}(?:GPU|card)s?.{0,60}(?:unavailable|not available|taken|rented|in use by)",
            ),
            clue(SHOWS, r"InsufficientInstanceCapacity"),
            clue(SHOWS, r"ZONE_RESOURCE_POOL_EXHAUSTED"),
            clue(SHOWS, r"does not have enough resources available to fulfill the request"),
            clue(SUGGESTS, r"(?:no|insufficient) (?:GPU )?capacity", _CLOUD),
            clue(HINTS, r"(?:stopped|restarted|resumed)", _CLOUD, r"(?:no GPU|0 GPU|without (?:a )?GPU)"),
            clue(HINTS, r"(?:runpod|vast\.ai|vastai|RunPod)"),
        ),
        mend=(
            step("Copy the data from the stopped instance (start it without a card) and rent another host"),
            step("Keep data on a network volume, which is not tied to a host"),
        ),
        next_check="vastai show instances   # or the provider's page",
        authority="https://docs.runpod.io/references/troubleshooting/zero-gpus",
    ),
)
