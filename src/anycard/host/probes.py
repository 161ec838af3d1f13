"""What ``anycard capture`` looks at. All of it only reads; what is missing or fails is an answer too."""

from __future__ import annotations

import re

from anycard.host import cgroup
from anycard.host.libraries import nvml
from anycard.host.recording import RecordingHost
from anycard.units import MIB

COMMAND_TIME_S = 15.0
_TEXT_LIMIT = 1 * MIB

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("uname", "-srvm"),
    ("lscpu",),
    ("lsmod",),
    ("lspci", "-nnk"),
    ("dmesg",),
    ("journalctl", "--dmesg", "--boot", "--no-pager", "--output=cat", "--lines=20000"),
    ("clinfo", "-l"),
    ("vulkaninfo", "--summary"),
    # NVIDIA
    ("nvidia-smi", "-L"),
    ("nvidia-smi", "-q"),
    ("nvidia-smi", "topo", "-m"),
    ("nvidia-smi", "--query-gpu=index,uuid,name,pci.bus_id,memory.total,memory.used,driver_version,compute_cap,utilization.gpu,"
     "temperature.gpu,power.draw,enforced.power.limit,clocks.sm,clocks.mem,fan.speed", "--format=csv,noheader,nounits"),
    ("nvidia-smi", "--query-gpu=index,mig.mode.current", "--format=csv,noheader"),
    ("nvcc", "--version"),
    # AMD, Hygon
    ("rocm-smi", "--json", "--showproductname", "--showdriverversion", "--showmeminfo", "vram", "--showbus", "--showuniqueid", "--showuse",
     "--showtemp", "--showpower"),
    ("amd-smi", "static", "--json"),
    ("amd-smi", "metric", "--json"),
    ("rocminfo",),
    ("hy-smi", "--json", "--showproductname", "--showdriverversion", "--showmeminfo", "vram", "--showbus", "--showuniqueid", "--showuse",
     "--showtemp", "--showpower"),
    # Intel; Kunlunxin's tool has the same name
    ("xpu-smi", "discovery", "-j"),
    ("xpu-smi",),
    ("sycl-ls",),
    # Ascend
    ("npu-smi", "info"),
    ("npu-smi", "info", "-m"),
    ("npu-smi", "info", "-t", "topo"),
    # Moore Threads, Cambricon, Iluvatar, MetaX, Enflame
    ("mthreads-gmi",),
    ("cnmon",),
    ("ixsmi",),
    ("mx-smi",),
    ("efsmi",),
    # Apple, Windows
    ("sw_vers",),
    ("sysctl", "-n", "machdep.cpu.brand_string"),
    ("system_profiler", "SPDisplaysDataType", "-json"),
)  # fmt: skip

FILES = (
    "/etc/os-release",
    "/proc/version",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/sys/module/nvidia/version",
    "/sys/module/amdgpu/version",
    "/sys/module/i915/version",
    "/sys/module/xe/version",
    "/sys/module/nouveau/refcnt",
    "/usr/local/cuda/version.json",
    "/opt/rocm/.info/version",
    "/usr/local/Ascend/driver/version.info",
)

ENVIRON = (
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LANG", "LC_ALL",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUDA_MODULE_LOADING", "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "CUDA_MPS_PIPE_DIRECTORY", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION", "ROCM_PATH", "HIP_PATH", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY",
    "ONEAPI_DEVICE_SELECTOR", "ONEAPI_ROOT", "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "ASCEND_HOME_PATH",
    "MUSA_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "NEUWARE_HOME", "TOPS_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES", "MACA_PATH",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_ENABLE_MPS_FALLBACK", "OMP_NUM_THREADS", "SLURM_JOB_GPUS", "WSL_DISTRO_NAME",
    "WSL_INTEROP", "container", "KUBERNETES_SERVICE_PORT", "PROCESSOR_IDENTIFIER",
)  # fmt: skip

# Of these only the lines about cards, and none about mounts, users or other programs.
KEEP_LINES = {
    program: re.compile(
        rb"(?i)nvrm|nvidia|nouveau|xid|amdgpu|kfd|radeon|i915|\bxe\b|drm|davinci|ascend|drv_|mtgpu|musa|cambricon|hygon|hydcu|iluvatar"
        rb"|metax|habana|accel|vfio|iommu|dmar|amd-vi|pcie?(?:port|hp)?\b|\baer\b|resizable|firmware|microcode|secure ?boot|lockdown"
        rb"|module verification|out of memory|oom|thermal|mce|hardware error|gpu|virtio|hypervisor|fallen off"
    )
    for program in ("dmesg", "journalctl")
} | {"/proc/self/mountinfo": re.compile(rb" - cgroup2? ")}

# Unused in programs' device folders otherwise: display and processing controllers, by the first two digits of the PCI class.
_CARD_CLASSES = ("0x03", "0x12", "0x0b", "0x0780")  # the last: Kunlunxin's
_PCI_FILES = (
    "vendor", "device", "subsystem_vendor", "subsystem_device", "class", "numa_node", "enable", "power_state", "driver_override",
    "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "mem_info_vram_total", "mem_info_vram_used",
    "mem_info_gtt_total", "gpu_busy_percent", "product_name", "local_cpulist", "resource", "reset_method", "boot_vga", "d3cold_allowed",
    "unique_id", "lmem_total_bytes",
)  # fmt: skip
_SENSOR_FILES = (
    "name", "temp1_input", "temp2_input", "power1_average", "power1_input", "power1_cap", "power1_max", "freq1_input", "freq2_input",
    "pwm1", "fan1_input",
)  # fmt: skip
_KFD = "/sys/class/kfd/kfd/topology/nodes"
_KFD_PROGRAMS = "/sys/class/kfd/kfd/proc"
_CARD_NODES = re.compile(
    r"nvidia|dri$|kfd$|accel|davinci|devmm_svm|hisi_hdc|mtgpu|cambricon|iluvatar|mxcd|dxg$|vfio$|hl\d|gcu|xpu|biren|dcu|mkfd"
)


def look_at_everything(host: RecordingHost) -> None:
    """Every probe, one after the other; each command has COMMAND_TIME_S seconds."""
    host.keep_environ(ENVIRON)
    for argv in COMMANDS:
        host.run(argv, COMMAND_TIME_S)
    for path in FILES:
        host.read(path, _TEXT_LIMIT)
    cgroup.limits(host)
    _look_at_numa(host)
    _look_at_nvidia_proc(host)
    _look_at_drm(host)
    _look_at_pci(host)
    _look_at_kfd(host)
    _look_at_software_devices(host)
    _look_at_nodes(host)
    for library in ("system", "python", "nvml", "nvml_links"):
        host.ask(library)
    for pid in nvml.pids(host.bundle.libraries["nvml"]):
        host.process(pid)


def _look_at_numa(host: RecordingHost) -> None:
    for name in host.list_folder("/sys/devices/system/node") or ():
        if re.fullmatch(r"node\d+", name):
            host.read(f"/sys/devices/system/node/{name}/cpulist")


def _look_at_nvidia_proc(host: RecordingHost) -> None:
    for address in host.list_folder("/proc/driver/nvidia/gpus") or ():
        host.read(f"/proc/driver/nvidia/gpus/{address}/information")
    capabilities = "/proc/driver/nvidia/capabilities"
    for card in host.list_folder(capabilities) or ():
        for gpu_instance in host.list_folder(f"{capabilities}/{card}/mig") or ():
            folder = f"{capabilities}/{card}/mig/{gpu_instance}"
            host.read(f"{folder}/access")
            for compute_instance in host.list_folder(folder) or ():
                if compute_instance.startswith("ci"):
                    host.read(f"{folder}/{compute_instance}/access")


def _look_at_drm(host: RecordingHost) -> None:
    for name in host.list_folder("/sys/class/drm") or ():
        if re.fullmatch(r"(card|renderD)\d+", name):
            host.readlink(f"/sys/class/drm/{name}/device")
            host.readlink(f"/sys/class/drm/{name}/device/driver")


def _look_at_pci(host: RecordingHost) -> None:
    for address in host.list_folder("/sys/bus/pci/devices") or ():
        folder = f"/sys/bus/pci/devices/{address}"
        if not (host.read(f"{folder}/class").text or "").startswith(_CARD_CLASSES):
            continue
        for name in _PCI_FILES:
            host.read(f"{folder}/{name}")
        for name in ("driver", "iommu_group", "physfn"):
            host.readlink(f"{folder}/{name}")
        host.readlink(folder)  # the bridges above it
        host.list_folder(f"{folder}/drm")
        for monitor in host.list_folder(f"{folder}/hwmon") or ():
            for name in _SENSOR_FILES:
                host.read(f"{folder}/hwmon/{monitor}/{name}")


def _look_at_kfd(host: RecordingHost) -> None:
    for node in host.list_folder(_KFD) or ():
        host.read(f"{_KFD}/{node}/properties")
        host.read(f"{_KFD}/{node}/gpu_id")
        for link in host.list_folder(f"{_KFD}/{node}/io_links") or ():
            host.read(f"{_KFD}/{node}/io_links/{link}/properties")
    for pid in host.list_folder(_KFD_PROGRAMS) or ():
        for name in host.list_folder(f"{_KFD_PROGRAMS}/{pid}") or ():
            if name.startswith("vram_"):
                host.read(f"{_KFD_PROGRAMS}/{pid}/{name}")
        if pid.isdigit():
            host.process(int(pid))


def _look_at_software_devices(host: RecordingHost) -> None:
    for folder in ("/etc/OpenCL/vendors", "/usr/share/vulkan/icd.d"):
        host.list_folder(folder)


def _look_at_nodes(host: RecordingHost) -> None:
    for name in host.list_matching("/dev", _CARD_NODES):
        host.node(f"/dev/{name}")
        if name in ("dri", "accel", "vfio", "nvidia-caps"):
            for child in host.list_matching(f"/dev/{name}", re.compile(r"[\w-]+$")):
                host.node(f"/dev/{name}/{child}")
