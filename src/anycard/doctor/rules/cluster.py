"""Slurm, Kubernetes and control groups: does the scheduler know the cards, and does the job get them."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, on, said, seen, step
from anycard.doctor.shapes import Line, Verdict

_GRES = "https://slurm.schedmd.com/gres.html"
_NO_CARD = seen(
    r"No CUDA GPUs are available",
    r"no CUDA-capable device is detected",
    r"No devices were found",
    r"is_available\(\).{0,12}False",
    r"CUDA_VISIBLE_DEVICES[=:] ?(?:NoDevFiles|['\"]{2})",
    r"CUDA_ERROR_NO_DEVICE",
    r"device_count\(\).{0,12}\b0\b",
    r"device_count\(\) = 0\b",
    r"Found no NVIDIA driver",
    r"GPU available: False",
)


def _no_gres_asked(case: Case) -> tuple[Line, ...] | None:
    """A Slurm submission in the evidence names no card."""
    asked = [*case.facts("slurm_asks")]
    submitted = case.facts("slurm_submits")
    return (submitted[0].line,) if submitted and not asked else None


RULES = (
    Rule(
        slug="slurm-built-without-nvml",
        family="cluster",
        verdict=Verdict.FAULT,
        says="This build of Slurm has no NVML support, so AutoDetect=nvml cannot work.",
        clues=(
            clue(0.6, r"AutoDetect ?= ?nvml", r"gres/gpu.{0,60}\(0 < \d+\)"),
            clue(0.9, r"(?:autodetect|AutoDetect).{0,10}nvml.{0,80}(?:not (?:built|compiled)|was not|wasn.t|without)"),
            clue(PROVES, r"configured with (?:nvml|rsmi|oneapi)\w*(?: functionality)?, but that lib wasn.t found"),
            clue(PROVES, r"configured to autodetect nvml functionality, but we weren'?t able to find"),
            clue(PROVES, r"weren'?t able to find that lib when Slurm was configured"),
            clue(SHOWS, r"(?:built|compiled) without NVML"),
            clue(SHOWS, r"cannot (?:find|open|load) .{0,60}gpu[_/]nvml(?:\.so)?"),
            clue(SHOWS, r"Couldn'?t find (?:the specified )?plugin (?:name )?(?:for )?gpu[_/]nvml"),
            clue(SHOWS, r"gpu/nvml.{0,60}(?:not (?:be )?found|No such file|missing)"),
            clue(SHOWS, r"AutoDetect=nvml", r"gpu_generic\.so", unless=(r"gpu_nvml\.so",)),
            clue(SUGGESTS, r"AutoDetect=nvml", seen(r"HAVE_NVML", r"nvml\.h\.\.\. no")),
            clue(SUGGESTS, r"checking for nvml(?:\.h|Init in -lnvidia-ml)\.\.\. no"),
        ),
        explains=("slurm-gres-count-lower-than-configured", "slurm-gres-file-missing-in-conf"),
        mend=(
            step("Name the nodes instead", "echo 'Name=gpu File=/dev/nvidia[0-3]' # in gres.conf"),
            step("Or AutoDetect=nvidia (24.11 and later), which needs no NVML; or build Slurm with --with-nvml"),
        ),
        next_check="ls $(dirname $(readlink -f $(which slurmd)))/../lib*/slurm/gpu_nvml.so; slurmd -G",
        authority="https://slurm.schedmd.com/gres.conf.html#OPT_AutoDetect",
    ),
    Rule(
        slug="slurm-cgroup-devices-not-constrained",
        family="cluster",
        verdict=Verdict.FAULT,
        says="Slurm only sets CUDA_VISIBLE_DEVICES and does not confine the job to its cards, so numbers no longer match (or jobs meet on one card).",
        clues=(
            clue(PROVES, r"ConstrainDevices ?= ?no"),
            clue(SHOWS, r"ConstrainDevices"),
            clue(
                SHOWS,
                r"(?:srun|sbatch|slurm|SLURM)\w*",
                seen(
                    r"(?:singularity|apptainer|docker|enroot|pyxis|container).{0,80}(?:renumber|all (?:the )?GPUs|wrong|index|CUDA_VISIBLE)",
                    r"sees? all (?:the )?(?:GPUs|cards|\d)",
                    r"CUDA_VISIBLE_DEVICES.{0,60}(?:not match|wrong|renumber|out of range)",
                ),
            ),
            clue(0.5, r"SLURM_(?:JOB|STEP)_GPUS=\S+", r"CUDA_VISIBLE_DEVICES=\S+"),
            clue(
                0.7,
                on("slurm"),
                seen(r"invalid device ordinal", r"No CUDA GPUs are available", r"no CUDA-capable device"),
                r"CUDA_VISIBLE_DEVICES=[1-9]",
            ),
            clue(SUGGESTS, r"task/cgroup", r"(?:GPU|gpu|devices)\w*.{0,40}(?:not (?:constrained|restricted)|visible)"),
            clue(HINTS, on("slurm"), r"CUDA_VISIBLE_DEVICES"),
            clue(0.5, on("slurm"), seen(r"no CUDA-capable device is detected", r"No CUDA GPUs are available")),
            clue(
                0.75,
                seen(r"srun .*--gpus?\S*", r"srun .*--gres=gpu"),
                seen(r"No devices(?: were)? found", r"no CUDA-capable device", r"No CUDA GPUs are available"),
                seen(r"--container-image", r"singularity", r"apptainer", r"enroot", r"pyxis", r"docker run"),
            ),
        ),
        explains=("cuda-index-outside-visible-set", "slurm-job-without-gpu", "cuda-visible-devices-wrong"),
        mend=(
            step(
                "Confine jobs to their cards",
                "echo 'ConstrainDevices=yes' # in cgroup.conf, with TaskPlugin=task/cgroup,task/affinity",
            ),
            step("In a container use the UUIDs", "nvidia-smi -L"),
        ),
        next_check="scontrol show config | grep -E 'TaskPlugin|ProctrackType'; grep Constrain /etc/slurm/cgroup.conf",
        authority="https://slurm.schedmd.com/cgroup.conf.html",
    ),
    Rule(
        slug="slurm-gres-conf-differs-between-hosts",
        family="cluster",
        verdict=Verdict.FAULT,
        says="gres.conf is missing or different on the controller and the node.",
        clues=(
            clue(SHOWS, r"gres\.conf.{0,80}(?:differ|not (?:the )?same|missing|no such|not found|without NodeName)"),
            clue(SHOWS, r"(?:NodeName|controller|slurmctld).{0,60}gres\.conf"),
            clue(SHOWS, r"appears to have a different slurm\.conf than the slurmctld"),
            clue(SHOWS, r"gres/gpu: .{0,60}state for node \S+ has \d+ .{0,40}but"),
            clue(SUGGESTS, r"Invalid Trackable RESource \(TRES\) specification", r"gres"),
            clue(SUGGESTS, r"gres(?:/gpu)? (?:type|topology|plugin|data).{0,60}(?:mismatch|inconsistent|differ)"),
            clue(SUGGESTS, r"(?:WARNING|error): A line in gres\.conf for GRES gpu.{0,80}(?:has|does not)"),
            clue(HINTS, r"Requested node configuration is not available"),
            clue(HINTS, on("slurm"), r"gres\.conf"),
            clue(HINTS, r"gres/gpu.{0,120}(?:error|mismatch|invalid|count)"),
        ),
        mend=(
            step("Keep one gres.conf with NodeName on every line, and copy it to the controller and all nodes"),
            step("Load it", "sudo systemctl restart slurmctld; sudo scontrol reconfigure"),
        ),
        next_check="md5sum /etc/slurm/{slurm,gres}.conf  # on controller and node; slurmd -G",
        authority="https://slurm.schedmd.com/gres.conf.html",
    ),
    Rule(
        slug="slurm-gres-conf-duplicate",
        family="cluster",
        verdict=Verdict.FAULT,
        says="gres.conf names the cards twice: AutoDetect together with explicit lines, or two lines of one card.",
        clues=(
            clue(PROVES, r"gres\.conf duplicate records for"),
            clue(SHOWS, r"duplicate (?:GRES|gres|gpu|File|device).{0,40}(?:record|entr|line)"),
            clue(SHOWS, r"AutoDetect=(?:nvml|nvidia|rsmi)", r"^Name=gpu(?!.*File=)"),
            clue(SUGGESTS, r"gres/gpu.{0,60}duplicate"),
        ),
        explains=("slurm-gres-file-missing-in-conf",),
        mend=(
            step("Keep one of the two: AutoDetect alone, or lines with File="),
            step("Load it", "sudo systemctl restart slurmd"),
        ),
        next_check="cat /etc/slurm/gres.conf; slurmd -G",
        authority="https://slurm.schedmd.com/gres.conf.html",
    ),
    Rule(
        slug="slurm-gres-count-lower-than-configured",
        family="cluster",
        verdict=Verdict.FAULT,
        says="The node finds fewer cards than slurm.conf promises (or none), so it is drained.",
        clues=(
            clue(0.9, r"gres/gpu count (?:reported lower than configured|too low)"),
            clue(0.9, r"gres/gpu count repor(?!\w* higher)"),
            clue(0.9, r"count (?:reported )?(?:lower|too low) .{0,20}than configured"),
            clue(SHOWS, r"gres_(?:node_config_unpack|gpu_init).{0,80}(?:count|fewer|low)"),
            clue(SHOWS, r"gres/gpu.{0,40}\(\d+ < \d+\)"),
            clue(SHOWS, r"(?:INVAL|INVALID_REG|inval)\b.{0,80}gres"),
            clue(SUGGESTS, r"Setting node \S+ state to (?:DRAIN|INVAL)\w* with reason:? ?gres"),
        ),
        separates="Why it finds fewer: a lost card, a missing node file, or a Slurm without NVML.",
        explains=("k8s-resource-not-advertised",),
        mend=(
            step(
                "Compare what is there with what is promised",
                "nvidia-smi -L; slurmd -G; grep -i gres /etc/slurm/slurm.conf",
            ),
            step(
                "Mend the card or the number, then bring the node back",
                "sudo scontrol update nodename=NODE state=resume",
            ),
        ),
        next_check="slurmd -G; nvidia-smi -L; sudo dmesg | grep -i xid",
        authority=_GRES,
    ),
    Rule(
        slug="slurm-gres-device-file-missing",
        family="cluster",
        verdict=Verdict.FAULT,
        says="gres.conf names a device file that does not exist on this node: no card, or the driver is not loaded yet.",
        clues=(
            clue(PROVES, r"can'?t stat gres\.conf file"),
            clue(SHOWS, r"Waiting for gres\.conf file"),
            clue(SHOWS, r"gres\.conf.{0,60}/dev/\w+.{0,40}(?:No such file|not found|does not exist)"),
            clue(SUGGESTS, on("slurm"), r"/dev/nvidia\d.{0,40}No such file"),
        ),
        mend=(
            step("Load the driver before slurmd starts", "sudo nvidia-smi -L && sudo systemctl restart slurmd"),
            step("Give lines with NodeName= so that nodes without cards do not read them"),
        ),
        next_check="ls -l /dev/nvidia*; nvidia-smi -L",
        authority="https://slurm.schedmd.com/gres.conf.html#OPT_File",
    ),
    Rule(
        slug="slurm-gres-file-missing-in-conf",
        family="cluster",
        verdict=Verdict.FAULT,
        says="A gpu line without File= in gres.conf is discarded.",
        clues=(
            clue(PROVES, r"due to lack of File specification"),
            clue(PROVES, r"(?:Ignoring|Discarding|Removing).{0,60}(?:file-less|without File|config-only) ?GPU"),
            clue(SHOWS, r"following config-only GPU"),
            clue(SHOWS, r"gres/gpu.{0,60}(?:has no|missing|lacks|without) (?:a )?(?:\"?File\"?|device file)"),
            clue(
                SUGGESTS,
                r"^(?:NodeName=\S+ +)?Name=gpu(?!.*File=).*Count=\d",
                unless=(r"AutoDetect=(?:nvml|nvidia|rsmi|oneapi)",),
            ),
            clue(
                0.95,
                r"^(?:NodeName=\S+ +)?Name=gpu(?!.*File=).*Count=\d",
                r"gres/gpu count repor(?!\w* higher)",
                unless=(r"AutoDetect=(?:nvml|nvidia|rsmi|oneapi)",),
            ),
            clue(0.9, r"unable to set CUDA_VISIBLE_DEVICES, no device files configured"),
            clue(0.85, r"no device files? (?:are |is )?configured"),
        ),
        explains=("slurm-gres-count-lower-than-configured", "slurm-gres-conf-differs-between-hosts"),
        mend=(
            step("Name the device", "echo 'Name=gpu Type=a100 File=/dev/nvidia[0-7]' # in gres.conf"),
            step("Load it", "sudo systemctl restart slurmd"),
        ),
        next_check="cat /etc/slurm/gres.conf; slurmd -G",
        authority="https://slurm.schedmd.com/gres.conf.html#OPT_File",
    ),
    Rule(
        slug="slurm-grestypes-not-set",
        family="cluster",
        verdict=Verdict.FAULT,
        says="Slurm was not told of gpu at all: GresTypes, the node's Gres= and gres.conf must all say so.",
        clues=(
            clue(SHOWS, r"Invalid generic resource \(gres\) specification"),
            clue(SHOWS, r"GresTypes\s*= ?\(null\)"),
            clue(SHOWS, r"(?:Invalid|Unknown|unsupported) GRES (?:name|type|configured)"),
            clue(SHOWS, r"(?:no|without|missing|lacks?|not).{0,30}GresTypes"),
            clue(SHOWS, r"GresTypes.{0,40}(?:not set|missing|undefined|unset)"),
            clue(0.6, r"gres\.conf and slurm\.conf do not agree"),
            clue(SUGGESTS, r"Gres=\(null\)"),
            clue(SUGGESTS, r"GPUs? (?:are detected but ignored|cannot be allocated)"),
            clue(SUGGESTS, r"following autodetected GPUs are being ignored", unless=(r"lack of File",)),
            clue(HINTS, r"GresTypes"),
            clue(HINTS, on("slurm"), r"[Ii]nvalid (?:GRES|gres|generic resource)"),
        ),
        mend=(
            step("In slurm.conf", "GresTypes=gpu  and  NodeName=... Gres=gpu:4"),
            step("Load it", "sudo systemctl restart slurmctld slurmd"),
        ),
        next_check="scontrol show config | grep GresTypes; scontrol show node | grep Gres",
        authority=_GRES,
    ),
    Rule(
        slug="slurm-job-without-gpu",
        family="cluster",
        verdict=Verdict.FAULT,
        says="The job never asked for a card, so Slurm gave it none.",
        clues=(
            clue(
                0.87,
                on("slurm"),
                r"\b(?:srun|salloc|sbatch) (?!.*(?:--gres|--gpus|-G ?\d))",
                _NO_CARD,
                unless=(r"#SBATCH .*(?:--gres|--gpus|-G)", r"NoDevFiles"),
            ),
            clue(0.92, Check(_no_gres_asked), _NO_CARD),
            clue(
                SHOWS,
                on("slurm"),
                _NO_CARD,
                seen(
                    r"SLURM_JOB_GPUS=?$",
                    r"SLURM_JOB_GPUS.{0,20}(?:not set|unset|empty|unbound)",
                    r"TresPerNode=\(null\)",
                    r"AllocTRES=cpu=\d+,(?:mem=\w+,)?node=\d+(?:,billing=\d+)?$",
                ),
            ),
            clue(SHOWS, r"(?:TRES|AllocTRES|ReqTRES)=cpu=\d+,mem=\w+,node=\d+,billing=\d+ *$"),
            clue(
                SHOWS,
                said(
                    r"(?:no|without|missing|forgot|lacks?).{0,20}--(?:gres|gpus)",
                    r"--gres.{0,20}(?:missing|not given|forgotten)",
                ),
            ),
            clue(
                SUGGESTS, on("slurm"), _NO_CARD, unless=(r"--gres", r"--gpus", r" -G ?\d", r"CUDA_VISIBLE_DEVICES=\d")
            ),
            clue(HINTS, on("slurm"), Check(_no_gres_asked)),
            clue(PROVES, r"CUDA_VISIBLE_DEVICES[=:] ?NoDevFiles"),  # said by Slurm only
            clue(0.6, on("slurm"), r"Could not find cuda drivers on your machine"),
        ),
        explains=(
            "cuda-visible-devices-wrong",
            "kernel-module-missing-for-running-kernel",
            "container-started-without-gpus",
        ),
        mend=(step("Ask for one", "srun --gres=gpu:1 ..."),),
        next_check="scontrol show job $SLURM_JOB_ID | grep -i tres; echo $SLURM_JOB_GPUS",
        authority="https://slurm.schedmd.com/gres.html#Running_Jobs",
    ),
    Rule(
        slug="cgroup-device-filter-blocks-gpu",
        family="cluster",
        verdict=Verdict.FAULT,
        says="The process sits in a control group whose device rules refuse the card's nodes.",
        clues=(
            clue(PROVES, r"open\w*\(.?(?:AT_FDCWD, .)?/dev/(?:nvidia|kfd|dri|davinci)\S*.{0,40}= -1 EPERM"),
            clue(0.92, r"/dev/(?:nvidia\S*|kfd|dri/\S+|davinci\d*):? .{0,40}Operation not permitted"),
            clue(0.92, r"Operation not permitted.{0,60}/dev/(?:nvidia|kfd|dri|davinci)"),
            clue(
                SHOWS,
                r"(?:devices\.(?:allow|deny|list)|DeviceAllow|DevicePolicy|DeviceCgroupRule|cgroup_device|BPF_CGROUP_DEVICE).{0,80}",
            ),
            clue(SHOWS, r"cgroup.{0,60}device.{0,60}(?:den|block|refus|filter|not allow)"),
            clue(SHOWS, r"\bCUDA.{0,40}(?:error 800|operation not permitted)"),
            clue(SHOWS, r"(?:Error|error|code|failure:?) 800\b"),
            clue(SHOWS, r"CUDA_ERROR_NOT_PERMITTED"),
            clue(SHOWS, r"cudaErrorNotPermitted"),
            clue(SUGGESTS, r"PrivateDevices ?= ?(?:yes|true)"),
            clue(
                SUGGESTS,
                r"Failed to initialize NVML: (?:Unknown Error|No Permission)",
                seen(r"\blxc[ .-]", r"LXD container", r"pct (?:enter|exec|start)", r"Proxmox", r"systemd-run"),
            ),
        ),
        separates="A file mode gives EACCES (Permission denied); a device rule gives EPERM (Operation not permitted).",
        explains=("gpu-device-node-permission", "container-lost-gpu-cgroup-reload", "ascend-device-node-permission"),
        mend=(
            step("Allow the majors of the nodes (195 for nvidia; uvm has its own)", "ls -l /dev/nvidia*"),
            step("In a systemd unit", "DeviceAllow=char-nvidia rw  and  DeviceAllow=char-nvidia-uvm rw"),
            step("In LXC", "lxc.cgroup2.devices.allow: c 195:* rwm"),
        ),
        next_check="cat /proc/self/cgroup; ls -l /dev/nvidia*; strace -e openat nvidia-smi 2>&1 | grep /dev/nvidia",
        authority="man systemd.resource-control, DeviceAllow; Linux cgroup-v2 device controller",
    ),
    Rule(
        slug="k8s-nvidia-runtime-not-used",
        family="cluster",
        verdict=Verdict.FAULT,
        says="The pod was started by the plain runtime: nvidia is neither the default runtime nor named by runtimeClassName, so the pod sees no driver.",
        clues=(
            clue(0.9, r"Detected non-NVML platform"),
            clue(0.9, r"could not load NVML library"),
            clue(SHOWS, r"If this is a GPU node, did you configure the NVIDIA Container Toolkit"),
            clue(SHOWS, r"No valid resources detected, creating a null CDI handler"),
            clue(SHOWS, r"Incompatible (?:platform|strategy) detected"),
            clue(SHOWS, r"Failed to initialize NVML: could not load NVML library"),
            clue(SHOWS, r"RuntimeHandler .?nvidia.? not (?:supported|found)"),
            clue(SHOWS, r"no runtime for .?nvidia.? is configured"),
            clue(
                SUGGESTS,
                on("k8s"),
                seen(
                    r"libnvidia-ml\.so\.1: cannot open shared object",
                    r"nvidia-smi\W{1,3} executable file not found",
                    r"Found no NVIDIA driver",
                ),
            ),
            clue(SUGGESTS, r"runtimeClassName"),
            clue(HINTS, r"No devices found\. Waiting indefinitely"),
            clue(HINTS, r"nvidia-device-plugin"),
            clue(HINTS, r"NVML.{0,40}(?:not found|could not|fail)", on("k8s")),
        ),
        explains=("container-started-without-gpus", "k8s-resource-not-advertised", "docker-snap-cannot-see-driver"),
        mend=(
            step(
                "Make it the default",
                "sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default && sudo systemctl restart containerd",
            ),
            step("Or name it in the pod", "runtimeClassName: nvidia"),
        ),
        next_check="kubectl get runtimeclass; grep -A3 nvidia /etc/containerd/config.toml",
        authority="https://github.com/NVIDIA/k8s-device-plugin#quick-start",
    ),
    Rule(
        slug="k8s-resource-not-advertised",
        family="cluster",
        verdict=Verdict.FAULT,
        says="No node offers the card resource that the pod asks for: the device plugin does not run there, or everything is taken.",
        clues=(
            clue(0.9, r"Insufficient (?:nvidia\.com|amd\.com|gpu\.intel\.com|huawei\.com|habana\.ai)/\S+"),
            clue(SHOWS, r"(?:nvidia\.com|amd\.com|gpu\.intel\.com|huawei\.com)/\S+: +0\b"),
            clue(SUGGESTS, r"UnexpectedAdmissionError.{0,120}(?:nvidia|gpu)"),
            clue(SUGGESTS, r"Allocate failed due to .{0,80}(?:nvidia|gpu)", unless=(r"nvml",)),
            clue(0.6, r"FailedScheduling.{0,200}(?:gpu|nvidia|amd|npu)"),
            clue(HINTS, r"\b(?:allocatable|capacity)\b.{0,40}\b0\b"),
            clue(0.85, r"(?:nvidia\.com|amd\.com|gpu\.intel\.com|huawei\.com)/\S+: +.0.$"),
        ),
        mend=(
            step(
                "See what the node offers and who holds it",
                "kubectl describe node NODE | grep -A12 -E 'Capacity|Allocatable|Allocated'",
            ),
            step("Start the device plugin", "kubectl get pods -A | grep -i device-plugin"),
        ),
        next_check="kubectl get nodes -o custom-columns=N:.metadata.name,G:.status.allocatable.nvidia\\\\.com/gpu; kubectl get pods -A | grep device-plugin",
        authority="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
    ),
)
