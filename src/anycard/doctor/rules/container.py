"""Containers: were the cards asked for, is the toolkit there, does something between host and container keep them out."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Rule, clue, on, said, seen, step
from anycard.doctor.shapes import Verdict

_IN_CONTAINER = on("container", "k8s")
_NVML_UNKNOWN = r"Failed to initialize NVML: Unknown Error"
_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"
_NO_DRIVER = seen(
    r"Found no NVIDIA driver on your system",
    r"nvidia-smi: (?:command )?not found",
    r"nvidia-smi\W{1,3} executable file not found",
    r"libcuda\.so\.1: cannot open shared object file",
    r"libnvidia-ml\.so\.1: cannot open shared object file",
    r"The NVIDIA Driver was not detected",
    r"failed call to cuInit: (?:UNKNOWN ERROR \(303\)|CUDA_ERROR_NO_DEVICE)",
    r"no CUDA-capable device is detected",
    r"No (?:CUDA|HIP|XPU) GPUs are available",
    r"ROCk module is NOT loaded",
    r"(?:Cannot|Could not|Failed to) (?:dynamically )?load.{0,12}libcuda\.so",
    r"kernel driver does not appear to be running on this host",
    r"No (?:ROCm|HIP)-capable device",
    r"ggml_vulkan: No devices found",
    r"no compatible GPUs were discovered",
    r"could not select device driver",
)

RULES = (
    Rule(
        slug="container-toolkit-not-installed",
        family="container",
        verdict=Verdict.FAULT,
        says="The container engine has no NVIDIA runtime hook: the container toolkit is not installed or not configured.",
        clues=(
            clue(0.92, r"could not select device driver \S* ?with capabilities: \[\[.*gpu"),
            clue(0.92, r"could not select device driver .{0,4}nvidia"),
            clue(0.92, r"[Uu]nknown (?:or invalid )?runtime name:? .?nvidia"),
            clue(0.92, r"nvidia-container-runtime(?:-hook)?\W{0,3}:? ?(?:executable file not found|no such file)"),
            clue(SHOWS, r"exec: .nvidia-container-runtime(?:-hook)?.: executable file not found"),
            clue(SHOWS, r"unresolvable CDI devices? nvidia\.com/gpu"),
            clue(SHOWS, r"nvidia-ctk: (?:command )?not found"),
            clue(SHOWS, r"Package .?nvidia-container-toolkit.? (?:is not installed|has no installation candidate)"),
            clue(SUGGESTS, r"(?:nvidia-container-toolkit|nvidia-docker2?).{0,60}(?:not installed|missing|install)"),
            clue(HINTS, r"nvidia-container-cli: "),
        ),
        separates="With the toolkit there but no --gpus flag, docker says nothing: container-started-without-gpus.",
        explains=("container-started-without-gpus",),
        mend=(
            step("Install it", "sudo apt install nvidia-container-toolkit"),
            step(
                "Tell docker, and restart it",
                "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
            ),
            step("For podman and CDI", "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml", safe=True),
        ),
        next_check="docker info | grep -i runtime; nvidia-ctk --version; docker context show",
        authority=_TOOLKIT + "install-guide.html",
    ),
    Rule(
        slug="container-started-without-gpus",
        family="container",
        verdict=Verdict.FAULT,
        says="The container was started without asking for the cards.",
        clues=(
            clue(
                0.85,
                on("container"),
                seen(
                    r"kernel driver does not appear to be running on this host",
                    r"ROCk module is NOT loaded",
                    r"No HIP GPUs are available",
                ),
                unless=(r"--device[= ]/dev/kfd", r"--gpus"),
            ),
            clue(
                SUGGESTS,
                _IN_CONTAINER,
                seen(
                    r"Found no NVIDIA driver on your system",
                    r"nvidia-smi: (?:command )?not found",
                    r"nvidia-smi\W{1,3} executable file not found",
                    r"The NVIDIA Driver was not detected",
                    r"libcuda\.so\.1: cannot open shared object",
                ),
                unless=(
                    r"\+rocm",
                    r"\bamdgpu\b",
                    r"--gpus",
                    r"nvidia-container-cli",
                    r"factory\.go",
                    r"could not select device driver",
                    r"version\.hip",
                ),
            ),
            clue(0.92, r"The NVIDIA Driver was not detected\. +GPU functionality will not be available"),
            clue(SHOWS, r"Use .?'?(?:docker run|nvidia-docker run).{0,40}(?:--gpus|to start this container)"),
            clue(
                0.9,
                r"docker run (?:(?!--gpus|--device|--runtime|nvidia\.com/gpu).)*$",
                _NO_DRIVER,
                unless=(r"docker run .*--gpus", r"docker run .*--runtime", r"docker run .*--device"),
            ),
            clue(
                0.9,
                r"podman run (?:(?!--device|--gpus|--hooks).)*$",
                _NO_DRIVER,
                unless=(r"podman run .*(?:--device|--gpus)",),
            ),
            clue(SHOWS, r"DeviceRequests.{0,6}(?:null|\[\])"),
            clue(
                SHOWS,
                said(
                    r"without.{0,20}--gpus",
                    r"(?:no|missing|forgot).{0,20}--gpus",
                    r"--gpus.{0,20}(?:missing|not (?:given|passed|set))",
                    r"compose.{0,60}(?:no|without|lacks).{0,40}(?:deploy|devices|gpu)",
                ),
            ),
            clue(
                HINTS,
                _IN_CONTAINER,
                _NO_DRIVER,
                unless=(r"could not select device driver", r"nvidia-container-cli", r"\+rocm", r"factory\.go"),
            ),
            clue(
                0.5,
                _IN_CONTAINER,
                seen(
                    r"Found no (?:Cycles|CUDA|OptiX|GPU) device",
                    r"no (?:GPU|CUDA|OptiX) devices? (?:found|available|detected)",
                    r"(?:GPU|CUDA) device not found",
                ),
            ),
            clue(0.9, _IN_CONTAINER, r"/dev/(?:kfd|dri|nvidia0|nvidiactl|davinci0)\b.{0,40}No such file or directory"),
            clue(SUGGESTS, _IN_CONTAINER, r"Could not find cuda drivers on your machine"),
        ),
        separates="If --gpus was given and docker refuses it, the toolkit is missing; if it works on the host's root context only, it is Docker Desktop.",
        explains=("torch-cpu-only-build",),
        mend=(
            step("Ask for them", "docker run --gpus all ..."),
            step("In compose: deploy.resources.reservations.devices with driver nvidia and capabilities [gpu]"),
            step("AMD cards", "docker run --device /dev/kfd --device /dev/dri ..."),
        ),
        next_check="docker inspect CONTAINER --format '{{.HostConfig.DeviceRequests}} {{.HostConfig.Devices}}'",
        authority=_TOOLKIT + "docker-specialized.html",
    ),
    Rule(
        slug="container-lost-gpu-cgroup-reload",
        family="container",
        verdict=Verdict.FAULT,
        says="The container lost its cards while running: a daemon-reload rewrote its device rules.",
        clues=(
            clue(SHOWS, _NVML_UNKNOWN, unless=(r"Xid \(",)),
            clue(
                PROVES,
                _NVML_UNKNOWN,
                seen(
                    r"daemon-reload",
                    r"systemd\[1\]: Reload",
                    r"after (?:a |some |few )?(?:hours|minutes|while|days|time)",
                    r"(?:restart\w*|recreat\w*) (?:the )?container.{0,30}(?:help|fix|work)",
                ),
            ),
            clue(SHOWS, r"daemon-reload", seen(r"NVML", r"\bGPU\b", r"nvidia")),
            clue(
                SHOWS,
                _IN_CONTAINER,
                seen(
                    r"failed to get device context 800",
                    r"\b(?:CUDA|cuda).{0,60}\b800\b",
                    r"CUDA_ERROR_NOT_PERMITTED",
                    r"cuInit.{0,20}\b100\b.{0,60}(?:after|later)",
                ),
            ),
            clue(0.88, r"failed to get device context 800"),
            clue(SUGGESTS, r"systemd.cgroup.{0,60}(?:nvidia|GPU)"),
            clue(SUGGESTS, on("container"), r"(?:lost|loses|losing) (?:access|the GPU|its GPU|GPU)"),
        ),
        separates="'Insufficient Permissions' is a label or a mode on the node; 'Unknown Error' after a good start is the device rule.",
        explains=(
            "nvidia-uvm-needs-reload",
            "cuda-visible-devices-wrong",
            "gsp-rpc-timeout",
        ),
        mend=(
            step("Start the container again: it works until the next reload", "docker restart CONTAINER"),
            step(
                "For good: CDI, or let docker manage cgroups itself",
                'echo \'{"exec-opts": ["native.cgroupdriver=cgroupfs"]}\' # in /etc/docker/daemon.json',
            ),
            step(
                "Or make the nodes known to systemd",
                "sudo nvidia-ctk system create-dev-char-symlinks --create-all",
                safe=True,
            ),
        ),
        next_check="docker exec CONTAINER nvidia-smi; nvidia-smi; journalctl -u docker | grep -i reload",
        authority="https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
    ),
    Rule(
        slug="docker-desktop-vm-no-gpu",
        family="container",
        verdict=Verdict.FAULT,
        says="The user's docker context is Docker Desktop's virtual machine, which has no NVIDIA driver.",
        clues=(
            clue(
                PROVES,
                seen(
                    r"libnvidia-ml\.so\.1: cannot open shared object",
                    r"could not select device driver",
                    r"nvidia-container-cli",
                ),
                r"docker.desktop",
                unless=(on("windows"), on("wsl")),
            ),
            clue(SHOWS, r"desktop-linux \*"),
            clue(SHOWS, r"\.docker/desktop/docker\.sock"),
            clue(SHOWS, r"Operating System: Docker Desktop", unless=(on("windows"), on("wsl"))),
            clue(SUGGESTS, r"docker.desktop", unless=(on("windows"), on("wsl"))),
            clue(
                SUGGESTS,
                r"nvidia-container-cli.{0,80}libnvidia-ml\.so\.1: cannot open shared object",
                said(r"sudo docker.{0,60}works"),
            ),
        ),
        explains=("container-toolkit-not-installed", "docker-snap-cannot-see-driver"),
        mend=(
            step("Use the engine of the host", "docker context use default"),
            step("Or take Docker Desktop off and install docker-ce"),
        ),
        next_check="docker context ls; docker info | grep 'Operating System'",
        authority="https://docs.docker.com/desktop/setup/install/linux/ (GPU support)",
    ),
    Rule(
        slug="docker-snap-cannot-see-driver",
        family="container",
        verdict=Verdict.FAULT,
        says="Docker is the snap package, whose confinement hides the host's driver libraries.",
        clues=(
            clue(
                PROVES,
                seen(
                    r"/snap/docker",
                    r"snap.docker\.dockerd",
                    r"/var/snap/docker",
                    r"docker +\S+ +\d+ +\S+ +canonical",
                    r"snap install docker",
                    r"docker .{0,30}\bsnap\b",
                    r"\bsnap\b.{0,40}docker",
                ),
                seen(
                    r"nvidia-container-cli",
                    r"could not select device driver",
                    r"libnvidia-ml",
                    r"load library failed",
                    r"nvidia",
                ),
            ),
            clue(SUGGESTS, r"/var/snap/docker/"),
            clue(HINTS, r"nvidia-container-cli: initialization error: load library failed: libnvidia-ml\.so\.1"),
            clue(SUGGESTS, r"\bsnap(?:d|shot)?\b.{0,40}docker", unless=(r"snapshot",)),
        ),
        explains=("container-toolkit-not-installed",),
        mend=(
            step("Take the snap off and install docker-ce", "sudo snap remove docker && sudo apt install docker-ce"),
        ),
        next_check="which docker; snap list docker",
        authority="https://github.com/canonical/docker-snap (NVIDIA support)",
    ),
    Rule(
        slug="selinux-blocks-container-gpu",
        family="container",
        verdict=Verdict.FAULT,
        says="SELinux labels keep the container from the host's driver files and nodes.",
        clues=(
            clue(0.9, r"^Enforcing\s*$", seen(r"Insufficient Permissions", r"Permission denied")),
            clue(0.88, r"(?:podman|docker) run", r"Insufficient Permissions", unless=(on("wsl"), r"label=disable")),
            clue(SHOWS, _IN_CONTAINER, r"Failed to initialize NVML: Insufficient Permissions"),
            clue(HINTS, r"Failed to initialize NVML: Insufficient Permissions", unless=(on("wsl"),)),
            clue(PROVES, r"avc: +denied .{0,200}(?:nvidia|xserver_misc_device|/dev/dri|kfd|container_t)"),
            clue(
                SHOWS,
                r"SELinux.{0,80}(?:nvidia|GPU|container|enforcing)",
                seen(r"Permission denied", r"Insufficient Permissions", r"nvidia"),
            ),
            clue(SUGGESTS, r"label=disable"),
            clue(SUGGESTS, r"container_use_devices"),
            clue(0.55, r"SELinux"),
            clue(0.6, on("container"), r"NVML.{0,20}Insufficient Permissions"),
        ),
        separates="'Unknown Error' after a good start is the cgroup rule.",
        mend=(
            step("Let containers use devices", "sudo setsebool -P container_use_devices 1"),
            step("Or for one container", "podman run --security-opt label=disable ..."),
        ),
        next_check="getenforce; sudo ausearch -m avc -ts recent | grep -iE 'nvidia|dri|kfd'",
        authority=_TOOLKIT + "install-guide.html (SELinux)",
    ),
    Rule(
        slug="toolkit-apt-source-conflict",
        family="container",
        verdict=Verdict.FAULT,
        says="Two apt source files name the same repository, one with signed-by and one without.",
        clues=(
            clue(0.93, r"Conflicting values set for option Signed-By"),
            clue(SHOWS, r"The list of sources could not be read"),
            clue(SHOWS, r"NO_PUBKEY.{0,40}DDCAE044F796ECB0"),
            clue(
                SUGGESTS,
                r"(?:nvidia\.github\.io|libnvidia-container|nvidia-docker)\S*.{0,80}(?:NO_PUBKEY|not signed|configured multiple times)",
            ),
            clue(SHOWS, r"Signed-By"),
        ),
        mend=(
            step("Find the older file and take it away", "grep -l nvidia.github.io /etc/apt/sources.list.d/*"),
            step("Read the lists again", "sudo apt update"),
        ),
        next_check="grep -rn nvidia.github.io /etc/apt/sources.list.d/",
        authority=_TOOLKIT + "troubleshooting.html (conflicting values for Signed-By)",
    ),
    Rule(
        slug="nvidia-legacy-hook-ldconfig-killed",
        family="cluster",
        verdict=Verdict.FAULT,
        says="The legacy runtime hook's ldconfig step dies (after a system upgrade), so no container with a card starts.",
        clues=(
            clue(PROVES, r"nvidia-container-cli: ldcache error"),
            clue(
                PROVES,
                r"(?:/sbin/)?ldconfig(?:\.real)? (?:terminated with signal|failed with error code|process .*killed)",
            ),
            clue(SHOWS, r"nvidia-container-cli: .{0,60}ldconfig"),
            clue(SHOWS, r"process /sbin/ldconfig"),
            clue(0.55, r"ldconfig.{0,80}(?:killed|signal|fail|error)"),
            clue(HINTS, r"nvidia-container-runtime-hook.{0,120}(?:error|fail|exit)"),
        ),
        mend=(
            step(
                "Use CDI instead of the legacy mode",
                "sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=cdi && sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            ),
            step("Update the toolkit", "sudo apt install --only-upgrade nvidia-container-toolkit"),
        ),
        next_check="nvidia-ctk --version; grep ldconfig /etc/nvidia-container-runtime/config.toml",
        authority="https://github.com/NVIDIA/libnvidia-container (ldcache)",
    ),
    Rule(
        slug="container-missing-optix-libs",
        family="industry-software",
        verdict=Verdict.FAULT,
        says="The container was given CUDA only: the OptiX and ray-tracing libraries of the driver are not mounted (NVIDIA_DRIVER_CAPABILITIES lacks graphics).",
        clues=(
            clue(
                0.92,
                seen(
                    r"libnvoptix\.so\S*",
                    r"OPTIX_ERROR_LIBRARY_NOT_FOUND",
                    r"OptiX.{0,60}(?:library|init|not found|no GPU|finds no|failed)",
                ),
                seen(r"container", r"docker", r"NVIDIA_DRIVER_CAPABILITIES"),
            ),
            clue(
                0.92,
                seen(r"libnvoptix\.so\S*", r"OPTIX_ERROR_LIBRARY_NOT_FOUND", r"libnvidia-rtcore"),
                on("container", "k8s"),
            ),
            clue(SHOWS, r"libnvidia-rtcore\.so\S*.{0,40}(?:not found|cannot open)"),
            clue(SHOWS, r"libnvoptix\.so\S*.{0,60}(?:not found|cannot open|No such file)"),
            clue(SHOWS, r"OPTIX_ERROR_(?:LIBRARY_NOT_FOUND|ENTRY_SYMBOL_NOT_FOUND)"),
            clue(SUGGESTS, r"NVIDIA_DRIVER_CAPABILITIES[=:] ?['\"]?(?:compute,utility|utility,compute|compute)['\"]?$"),
            clue(0.6, r"\b(?:OptiX|OPTIX|optix)\b.{0,120}(?:[Ee]rror|fail|not|cannot|ERROR)"),
            clue(0.4, on("container", "k8s"), r"(?:Cycles|OptiX|Blender|render)\w*.{0,60}device"),
        ),
        explains=("container-started-without-gpus", "app-silent-cpu-fallback"),
        mend=(
            step(
                "Ask for them too", "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics ..."
            ),
        ),
        next_check="docker exec CONTAINER sh -c 'echo $NVIDIA_DRIVER_CAPABILITIES; ldconfig -p | grep -E \"optix|rtcore\"'",
        authority=_TOOLKIT + "docker-specialized.html#driver-capabilities",
    ),
)
