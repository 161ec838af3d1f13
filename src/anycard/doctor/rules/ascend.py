"""Huawei Ascend NPUs: CANN, NNAL, torch_npu, device nodes, streams."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.facts import numbers
from anycard.doctor.rule import ALLOWS, HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, seen, step
from anycard.doctor.shapes import Line, Verdict
from anycard.doctor.tables import torch_npu_pairs

_FAQ = "https://github.com/vllm-project/vllm-ascend/blob/main/docs/source/faqs.md"
_DRIVER_LIBS = r"lib(?:ascend_hal|drvdsmi_host|dcmi|c_sec|mmpa)\.so"


def _torch_npu_of_other_torch(case: Case) -> tuple[Line, ...] | None:
    npu, torch = case.fact("torch_npu"), case.fact("torch")
    if not npu or not torch:
        return None
    pair = torch_npu_pairs().get(npu.value)
    wanted = numbers(pair[0]) if pair else numbers(npu.value)[:3]
    return (npu.line, torch.line) if wanted != numbers(torch.value)[:3] else None


def _cann_of_other_torch_npu(case: Case) -> tuple[Line, ...] | None:
    npu, cann = case.fact("torch_npu"), case.fact("cann")
    pair = torch_npu_pairs().get(npu.value) if npu else None
    if not npu or not cann or not pair:
        return None
    return (npu.line, cann.line) if not cann.value.upper().startswith(pair[1].upper()) else None


RULES = (
    Rule(
        slug="ascend-cann-env-not-sourced",
        family="ascend",
        verdict=Verdict.FAULT,
        says="CANN is installed, but its environment was not loaded in this shell.",
        clues=(
            clue(
                0.92,
                r"lib(?:hccl|ascendcl|opapi|ge_runner|graph|register|acl_op_compiler|msprofiler|runtime|profapi|ascend_dump|nnopbase|tiling_api|platform|error_manager|unified_dlog|ascendalog)\.so\S*: cannot open shared object",
            ),
            clue(0.9, rf"{_DRIVER_LIBS}\S*: cannot open shared object"),
            clue(
                SHOWS,
                r"(?:ASCEND_(?:HOME\w*|TOOLKIT_HOME|OPP_PATH|AICPU_PATH)|NPU_HOST_LIB|DDK_PATH).{0,60}(?:not set|unset|undefined|is empty|not found|must be|please set|should be|no such)",
            ),
            clue(SHOWS, r"(?:set|please set|export).{0,40}(?:NPU_HOST_LIB|DDK_PATH|ASCEND_\w*HOME\w*|ASCEND_OPP_PATH)"),
            clue(SHOWS, r"No module named '(?:acl|tbe|te|hccl|op_gen)'"),
            clue(SHOWS, r"(?:source|run|execute).{0,60}ascend-toolkit/set_env\.sh"),
            clue(SHOWS, r"Please (?:source|run).{0,60}set_env\.sh", unless=(r"nnal",)),
            clue(SUGGESTS, r"ASCEND_OPP_PATH"),
            clue(SUGGESTS, r"NPU_HOST_LIB"),
            clue(SUGGESTS, r"acl/acl\.h: No such file"),
            clue(HINTS, r"Failed to infer device type", seen(r"[Aa]scend", r"\bNPU\b", r"torch_npu")),
            clue(
                HINTS,
                r"(?:[Aa]scend|\bCANN\b|torch_npu|\bacl\b).{0,120}(?:cannot open shared object|No such file|not found)",
            ),
            clue(HINTS, r"set_env\.sh", unless=(r"nnal",)),
        ),
        separates="libatb.so belongs to NNAL, which has a script of its own.",
        mend=(
            step("Load it", "source /usr/local/Ascend/ascend-toolkit/set_env.sh"),
            step("In a container mount the driver", "-v /usr/local/Ascend/driver:/usr/local/Ascend/driver"),
        ),
        next_check="env | grep ASCEND; ls /usr/local/Ascend; cat /usr/local/Ascend/ascend-toolkit/latest/*/ascend_toolkit_install.info",
        authority="https://www.hiascend.com/document (CANN installation, environment variables)",
    ),
    Rule(
        slug="ascend-nnal-env-not-sourced",
        family="ascend",
        verdict=Verdict.FAULT,
        says="The NNAL/ATB libraries are installed but their environment was not loaded.",
        clues=(
            clue(0.94, r"libatb\w*\.so\S*"),
            clue(0.94, r"ATB_HOME_PATH"),
            clue(
                0.9,
                r"(?:nnal|NNAL|\batb\b|ATB).{0,80}(?:set_env|not (?:found|set|sourced|installed|loaded)|missing|environment|no such)",
            ),
            clue(SHOWS, r"libasdops\w*\.so"),
            clue(SHOWS, r"liblcal\.so"),
            clue(SHOWS, r"op_plugin/atb/"),
            clue(
                SUGGESTS,
                r"_npu_(?:paged_attention|reshape_and_cache|flash_attention)\w*.{0,80}(?:not|no attribute|fail)",
            ),
        ),
        explains=("ascend-cann-env-not-sourced",),
        mend=(
            step("Load it, after CANN's", "source /usr/local/Ascend/nnal/atb/set_env.sh"),
            step("If the folder is not there, install the NNAL package of the CANN version"),
        ),
        next_check="ls /usr/local/Ascend/nnal; echo $ATB_HOME_PATH",
        authority="https://github.com/vllm-project/vllm-ascend/issues/152",
    ),
    Rule(
        slug="ascend-device-node-permission",
        family="ascend",
        verdict=Verdict.FAULT,
        says="The process may not open the NPU's device nodes (owner and mode).",
        clues=(
            clue(
                0.92,
                r"/dev/(?:davinci\w*|hisi_hdc|devmm_svm).{0,80}(?:Permission denied|Operation not permitted|EACCES)",
            ),
            clue(
                0.9,
                seen(
                    r"drvErr(?:or)?Code ?= ?87\b",
                    r"dcmi module initialize failed\. ret is -8005",
                    r"open device .{0,40}fail\w*.{0,40}(?:13|permission)",
                    r"drvRet ?= ?4\b",
                ),
                seen(r"davinci", r"HwHiAiUser", r"permission", r"\b0?660\b", r"crw-"),
            ),
            clue(SHOWS, r"^crw-rw----\S* +\d+ +\S+ +\S+ .*(?:davinci|hisi_hdc|devmm_svm)"),
            clue(SHOWS, r"HwHiAiUser.{0,80}(?:group|permission|not (?:in|a member)|usermod)"),
            clue(SHOWS, r"dcmi module initialize failed\. ret is -8005"),
            clue(SUGGESTS, r"(?:npu-smi|torch_npu|acl\w*|davinci).{0,80}[Pp]ermission denied"),
            clue(SUGGESTS, r"CAP_DAC_OVERRIDE"),
            clue(HINTS, r"/dev/davinci"),
        ),
        mend=(
            step(
                "Join the group that owns the nodes, then log in again", "sudo usermod -aG HwHiAiUser $USER", safe=True
            ),
            step(
                "In a container run as that owner or give it the group",
                "docker run --group-add $(stat -c %g /dev/davinci0) ...",
            ),
        ),
        next_check="ls -ln /dev/davinci* /dev/hisi_hdc /dev/devmm_svm; id",
        authority=_FAQ,
    ),
    Rule(
        slug="ascend-framework-cann-mismatch",
        family="ascend",
        verdict=Verdict.FAULT,
        says="This release of the framework expects another CANN than the one installed.",
        clues=(
            clue(0.94, r"undefined symbol: (?:Msprof|acl[A-Z]|aclnn|aclrt|Hccl|hccl|Adx|rt[A-Z]|ge[A-Z])\w*"),
            clue(0.92, Check(_cann_of_other_torch_npu)),
            clue(0.9, r"libcann_kb\.so\S*: cannot open"),
            clue(0.9, r"Load dynamic library: libmindspore_ascend\S* failed"),
            clue(
                0.9,
                r"(?:MindSpore|mindspore|torch_npu|PaddlePaddle|paddle)\S* .{0,120}(?:CANN|Ascend software|Ascend AI software).{0,80}(?:version|match|compatible|expected|require)",
            ),
            clue(
                SHOWS,
                r"(?:CANN|[Aa]scend).{0,40}(?:version|package).{0,60}(?:mismatch|not match|does not match|incompatible|not compatible|too (?:old|low)|expected|unsupported)",
            ),
            clue(SHOWS, r"version.{0,60}(?:does not match|mismatch|not match).{0,40}(?:CANN|[Aa]scend)"),
            clue(SHOWS, r"undefined symbol: (?:acl|aclnn|Hccl|rt|ge|_ZN2ge)\w+"),
            clue(SHOWS, r"(?:aclnn\w+|EZ9999|E40021|EE1001).{0,120}not (?:found|in) (?:libopapi|lib\w*opapi)"),
            clue(SUGGESTS, r"aclnn\w+.{0,80}not (?:in|found)"),
            clue(SUGGESTS, r"Ascend-cann-\S*=\S+", r"(?:mindspore|torch[_-]npu|tensorflow)=+\d"),
            clue(0.5, r"\bCANN\b.{0,60}(?:\d\.\d|version)"),
            clue(ALLOWS, r"(?:EZ9999|E19999|EE9999|EI000|EL000)"),
        ),
        explains=("ascend-cann-env-not-sourced",),
        mend=(
            step("Install the CANN that this release names (the number after .post chooses it for torch_npu)"),
            step(
                "Or the release of the framework that fits this CANN",
                "pip install 'torch_npu==2.7.1.post2'   # CANN 8.5.0",
            ),
        ),
        next_check="pip list | grep -iE 'torch|mindspore'; cat /usr/local/Ascend/ascend-toolkit/latest/*/ascend_toolkit_install.info",
        authority="https://github.com/Ascend/pytorch/blob/master/COMPATIBILITY.en.md",
    ),
    Rule(
        slug="ascend-torch-npu-torch-mismatch",
        family="ascend",
        verdict=Verdict.FAULT,
        says="torch_npu was built for another version of torch.",
        clues=(
            clue(0.95, Check(_torch_npu_of_other_torch)),
            clue(0.92, r"torch[_-]npu \S+ (?:requires|depends on|has requirement) torch==?"),
            clue(
                0.9,
                r"(?:torch_npu|libtorch_npu).{0,200}undefined symbol",
                unless=(r"undefined symbol: (?:Msprof|acl|Hccl|hccl|Adx|rt[A-Z]|ge[A-Z])\w*",),
            ),
            clue(SHOWS, r"undefined symbol: _ZN\d*(?:c10|at|torch)\w*", seen(r"torch_npu", r"[Aa]scend")),
            clue(SHOWS, r"Failed to load the backend extension: torch_npu", unless=(r"cannot open shared object",)),
            clue(
                SHOWS, r"torch_npu.{0,80}(?:not compatible|incompatible|mismatch|doesn't match|built for).{0,40}torch"
            ),
            clue(
                SUGGESTS, r"(?:cannot import name|has no attribute|No module named).{0,80}", r"site-packages/torch_npu"
            ),
            clue(HINTS, r"torch[_-]npu.{0,120}(?:[Ee]rror|undefined|fail|requires)"),
        ),
        explains=("ascend-framework-cann-mismatch",),
        mend=(step("Install the pair", "pip install torch==2.8.0 torch_npu==2.8.0.post2   # with CANN 8.5.0"),),
        next_check="pip list | grep -iE '^torch'",
        authority="https://github.com/Ascend/pytorch/blob/master/COMPATIBILITY.en.md",
    ),
    Rule(
        slug="ascend-operator-shape-unsupported",
        family="ascend",
        verdict=Verdict.FAULT,
        says="The operator does not take this shape or split (heads per card, graph mode, attention kind).",
        clues=(
            clue(0.92, r"numHeads / numKvHeads = \d+, MLA only support"),
            clue(
                SHOWS,
                r"(?:EZ9999|EZ1001|E[EZ]\d{4}).{0,160}(?:only supports?|not support|should be|must be|invalid shape|does not support)",
            ),
            clue(SHOWS, r"(?:CheckMlaAttrs|tiling_check\.cc|_tiling\w*\.(?:cc|cpp))"),
            clue(
                SHOWS,
                r"(?:numHeads|headDim|head_dim|blockSize|kvHeads|num_heads)\w*.{0,60}(?:only supports?|not support|should be|must be|unsupported)",
            ),
            clue(SUGGESTS, r"Tiling (?:failed|Failed|error)"),
            clue(SUGGESTS, r"tiling.{0,40}fail"),
            clue(HINTS, r"EZ9999"),
            clue(
                SUGGESTS,
                r"(?:[Ss]hape|dim|axis|dtype)\w*.{0,60}(?:not support|unsupported|only support|invalid).{0,80}",
                r"(?:[Aa]scend|\bNPU\b|aclnn|EZ9999)",
            ),
            clue(0.75, r"shape of .{0,40}(?:not supported|unsupported|invalid)"),
            clue(0.6, r"E[ZE189]\d{4}.{0,20}Inner Error"),
        ),
        explains=("ascend-framework-cann-mismatch",),
        mend=(
            step("Change the split so that the heads per card are a supported number (fewer cards per model)"),
            step("Or switch graph mode off", "--enforce-eager"),
        ),
        next_check='python -c \'import json; c = json.load(open("config.json")); print(c["num_attention_heads"], c.get("num_key_value_heads"))\'',
        authority=_FAQ,
    ),
    Rule(
        slug="ascend-stream-resources-exhausted",
        family="ascend",
        verdict=Verdict.FAULT,
        says="Graph capture asked for more hardware streams than the NPU has (2,048).",
        clues=(
            clue(PROVES, r"[Ss]tream resources are insufficient"),
            clue(PROVES, r"Insufficient_Stream_Resources"),
            clue(PROVES, r"no stream resource"),
            clue(0.92, r"(?:New|Create) capture stream failed"),
            clue(0.92, r"[Aa]lloc sq cq fail"),
            clue(0.92, r"(?:error code is|runtime result =) ?207008"),
            clue(SHOWS, r"AclmdlRICaptureBegin.{0,120}error code is 20700[58]"),
            clue(SHOWS, r"(?:graph|capture).{0,100}resource alloc fail"),
            clue(SHOWS, r"stream.{0,40}(?:exhausted|not enough|run out|不够|不足)"),
            clue(SUGGESTS, r"(?:error code is|runtime result =) ?207005"),
            clue(SUGGESTS, r"driver error:resource alloc fail"),
            clue(HINTS, r"[Cc]aptur\w+ (?:ACL|stream|graph).{0,80}fail"),
        ),
        explains=("ascend-operator-shape-unsupported", "oom-model-too-large"),
        mend=(
            step("Capture fewer sizes", "--compilation-config '{\"cudagraph_capture_sizes\": [1, 8, 32]}'"),
            step("Or capture none", "--enforce-eager"),
            step("If it says 'alloc sq cq fail', update the driver and firmware (HDK 25.5.1 or later)"),
        ),
        next_check="npu-smi info; grep -n 'capture' LOG | head",
        authority="https://github.com/vllm-project/vllm-ascend/issues/9691",
    ),
    Rule(
        slug="ascend-visible-devices-out-of-range",
        family="ascend",
        verdict=Verdict.FAULT,
        says="ASCEND_RT_VISIBLE_DEVICES names a card number that this process does not have: inside a container they count from 0.",
        clues=(
            clue(0.93, r"ASCEND_RT_VISIBLE_DEVICES", seen(r"\b107001\b", r"Invalid device ID")),
            clue(PROVES, r"ASCEND_RT_VISIBLE_DEVICES:\S* ?error"),
            clue(0.92, r"Set visible device failed"),
            clue(SHOWS, r"ASCEND_RT_VISIBLE_DEVICES.{0,80}(?:error|invalid|out of range|exceed|not exist|wrong)"),
            clue(SHOWS, r"input data rang\w* ?\[0-\d+\)"),
            clue(SUGGESTS, r"aclrtSetDevice.{0,100}(?:107001|invalid device)"),
            clue(SUGGESTS, r"error code is 107001"),
            clue(HINTS, r"ASCEND_RT_VISIBLE_DEVICES"),
            clue(HINTS, r"error code is 207004"),
        ),
        mend=(step("Count from 0 inside the container", "export ASCEND_RT_VISIBLE_DEVICES=0,1"),),
        next_check="echo $ASCEND_RT_VISIBLE_DEVICES; ls /dev/davinci*; npu-smi info -l",
        authority="https://www.hiascend.com/document (ASCEND_RT_VISIBLE_DEVICES)",
    ),
)
