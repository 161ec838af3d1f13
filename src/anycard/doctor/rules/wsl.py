"""Windows Subsystem for Linux, and Hyper-V's GPU partitioning."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Rule, clue, on, said, seen, step
from anycard.doctor.rules.driver import SMI_FAILED
from anycard.doctor.shapes import Verdict

_GUIDE = "https://docs.nvidia.com/cuda/wsl-user-guide/"
_BLOCKED = r"GPU access blocked by the operating system"

RULES = (
    Rule(
        slug="wsl1-no-gpu",
        family="wsl",
        verdict=Verdict.FAULT,
        says="This is WSL 1, which has no access to cards; a Linux driver has no place there.",
        clues=(
            clue(0.97, r"\b4\.4\.0-\d+-Microsoft"),
            clue(PROVES, r"^[* ]*\S+ +(?:Running|Stopped) +1 *$"),
            clue(PROVES, r"\bWSL ?1\b", unless=(r"Linux version 5\.", r"microsoft-standard-WSL2")),
        ),
        separates="A kernel named microsoft-standard-WSL2 is WSL 2.",
        explains=(
            "kernel-module-missing-for-running-kernel",
            "wsl-linux-driver-installed-inside",
            "driver-library-mismatch",
        ),
        mend=(
            step("In PowerShell: make it WSL 2", "wsl --set-version Ubuntu 2"),
            step(
                "Take the Linux driver off inside, and install NVIDIA's driver in Windows", "sudo apt purge 'nvidia-*'"
            ),
        ),
        next_check="uname -r; wsl -l -v",
        authority="https://learn.microsoft.com/windows/wsl/compare-versions",
    ),
    Rule(
        slug="wsl-linux-driver-installed-inside",
        family="wsl",
        verdict=Verdict.FAULT,
        says="NVIDIA packages inside the distribution shadow the libraries that Windows mounts in /usr/lib/wsl/lib.",
        clues=(
            clue(
                SHOWS,
                on("wsl"),
                seen(
                    r"^ii +(?:lib)?nvidia-(?:driver|compute|utils|dkms)\S*",
                    r"nvidia-(?:driver|utils|compute)-\d{3}",
                    r"apt(?:-get)? install \S*(?:nvidia-driver|cuda-drivers|nvidia-utils)",
                    r"/usr/lib/x86_64-linux-gnu/libcuda\.so",
                    r"/usr/lib/x86_64-linux-gnu/libnvidia-ml",
                ),
                unless=(r"\d-Microsoft\b",),
            ),
            clue(0.8, on("wsl"), SMI_FAILED, unless=(r"4\.4\.0-\d+-Microsoft",)),
            clue(SHOWS, on("wsl"), r"Driver/library version mismatch"),
            clue(
                SHOWS,
                on("wsl"),
                seen(r"Error 803", r"unsupported display driver / cuda driver combination", r"dkms"),
                unless=(r"\d-Microsoft\b",),
            ),
            clue(
                SUGGESTS,
                on("wsl"),
                seen(
                    r"No CUDA GPUs are available",
                    r"CUDA_ERROR_NO_DEVICE",
                    r"Found no NVIDIA driver",
                    r"CUDA driver version is insufficient",
                ),
                unless=(r"libcuda\.so: cannot open",),
            ),
            clue(
                SHOWS,
                seen(r"microsoft-standard-WSL2", r"/usr/lib/wsl"),
                r"(?:nvidia-driver|libnvidia-compute|nvidia-utils|cuda-drivers)-?\d{3}",
            ),
            clue(0.5, on("wsl"), r"nvidia-(?:driver|utils)-?\d{3}"),
        ),
        explains=(
            "kernel-module-missing-for-running-kernel",
            "driver-library-mismatch",
            "libcuda-driver-mismatch-803",
            "driver-packages-half-upgraded",
            "secure-boot-module-rejected",
        ),
        mend=(
            step(
                "Take them off inside; only the toolkit may stay",
                "sudo apt purge 'nvidia-*' 'libnvidia-*' 'cuda-drivers*' && sudo ldconfig",
            ),
            step("In PowerShell", "wsl --shutdown"),
        ),
        next_check="dpkg -l | grep -iE 'nvidia|cuda-drivers'; ldconfig -p | grep libcuda; /usr/lib/wsl/lib/nvidia-smi",
        authority=_GUIDE + "#cuda-support-for-wsl-2",
    ),
    Rule(
        slug="wsl-libcuda-not-on-loader-path",
        family="wsl",
        verdict=Verdict.FAULT,
        says="The loader does not look into /usr/lib/wsl/lib, where Windows mounts the driver's libraries.",
        clues=(
            clue(
                0.9,
                on("wsl"),
                seen(
                    r"libcuda\.so(?:\.1)?: cannot open shared object file",
                    r"libcuda\.so(?:\.1)? not found",
                    r"libcuda\.so cannot found",
                    r"cannot find -lcuda",
                    r"Could not (?:find|load|locate) .{0,30}libcuda",
                    r"Unable to (?:find|load|locate) .{0,30}libcuda",
                    r"Possible CUDA driver libraries are found but error occurred",
                    r"libcuda\.so.{0,60}(?:not in|missing from|no(?:t|) )",
                ),
            ),
            clue(SHOWS, on("wsl"), r"nvidia-smi: (?:command )?not found"),
            clue(SHOWS, r"/usr/lib/wsl/lib.{0,80}(?:not (?:in|on)|missing|LD_LIBRARY_PATH|ldconfig|ld\.so\.conf)"),
            clue(SUGGESTS, on("wsl"), seen(r"libcuda\.so", r"libnvidia-ml\.so"), said(r"not found|missing|cannot")),
            clue(0.55, on("wsl"), r"libcuda"),
            clue(0.75, on("wsl"), r"Could not find cuda drivers on your machine"),
        ),
        separates="'libcuda.so.1 is not a symbolic link' from ldconfig is cosmetic (healthy-wsl-ldconfig-notice).",
        explains=("container-started-without-gpus", "cudnn-not-on-loader-path"),
        mend=(
            step("Tell the loader", "echo /usr/lib/wsl/lib | sudo tee /etc/ld.so.conf.d/wsl.conf && sudo ldconfig"),
            step("Or for one shell", "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"),
        ),
        next_check="ls -l /usr/lib/wsl/lib; ldconfig -p | grep libcuda",
        authority=_GUIDE,
    ),
    Rule(
        slug="wsl-host-gpu-in-tcc-mode",
        family="wsl",
        verdict=Verdict.FAULT,
        says="Windows drives the card in TCC mode; WSL sees only cards in WDDM mode.",
        clues=(
            clue(PROVES, r"\|\s+\d+ +\S.*\bTCC\b"),
            clue(SHOWS, on("wsl", "windows"), r"\bTCC\b"),
            clue(
                0.93,
                on("wsl"),
                r"(?:Unable to determine the device handle|No devices were found|blocked by the operating system)",
                r"\bTCC\b",
            ),
            clue(SHOWS, r"Driver Model.{0,40}Current\s*: TCC"),
            clue(SHOWS, r"Current\s*: TCC"),
        ),
        separates="'GPU access blocked by the operating system' has several causes; the driver model in Windows' nvidia-smi decides.",
        explains=("gpu-pv-driver-files-incomplete", "wsl-container-no-cgroups", "gpu-fallen-off-bus"),
        mend=(
            step("In Windows, as administrator, then restart", "nvidia-smi -i 0 -dm 0"),
            step("A card without WDDM (no vGPU or RTX licence) cannot be used in WSL: run Linux itself"),
        ),
        next_check='nvidia-smi -q | findstr /C:"Driver Model" /C:Current',
        authority=_GUIDE + "#known-limitations-for-linux-cuda-applications",
    ),
    Rule(
        slug="gpu-pv-driver-files-incomplete",
        family="wsl",
        verdict=Verdict.FAULT,
        says="Not all driver files of the Windows host were copied into the guest, or they are of another version.",
        clues=(
            clue(
                0.9,
                _BLOCKED,
                seen(r"Hyper-?V", r"GPU.?(?:PV|partition|paravirt)", r"dxgkrnl", r"HostDriverStore", r"easy-?gpu-?pv"),
                unless=(r"\bTCC\b",),
            ),
            clue(0.72, _BLOCKED, on("vm"), unless=(r"\bTCC\b",)),
            clue(
                SHOWS,
                r"(?:HostDriverStore|GPU.?PV|GPU partition\w*).{0,100}(?:driver|file|copy|copied|missing|version|43)",
            ),
            clue(SUGGESTS, r"Add-VMGpuPartitionAdapter"),
            clue(HINTS, _BLOCKED, unless=(r"\bTCC\b",)),
        ),
        mend=(
            step(
                "Copy the whole driver folder of the host again, after each driver update",
                "C:\\Windows\\System32\\DriverStore\\FileRepository\\nv*",
            ),
            step(
                "In a Linux guest put the host's lib files into /usr/lib/wsl/lib and load dxgkrnl of a fitting version"
            ),
        ),
        next_check="ls -l /usr/lib/wsl/drivers /usr/lib/wsl/lib; dmesg | grep -i dxg",
        authority="https://learn.microsoft.com/windows-server/virtualization/hyper-v/gpu-partitioning",
    ),
    Rule(
        slug="wsl-container-no-cgroups",
        family="wsl",
        verdict=Verdict.FAULT,
        says="Under WSL the container toolkit's control-group setting is wrong (no-cgroups), so containers are refused the card.",
        clues=(
            clue(
                0.92, on("wsl"), r"(?:bpf_prog_query|device filters attached to the cgroup|failed to add device rules)"
            ),
            clue(0.92, seen(_BLOCKED, r"nvidia-container-cli", r"Failed to initialize NVML"), r"no-cgroups"),
            clue(SHOWS, on("wsl", "container"), r"no-cgroups ?="),
            clue(0.9, seen(r"microsoft-standard", r"\bWSL", r"/usr/lib/wsl"), r"nvidia-container-cli: .{0,120}cgroup"),
            clue(0.9, on("wsl"), r"nvidia-container-cli: .{0,80}cgroup"),
            clue(
                SHOWS,
                on("wsl"),
                _BLOCKED,
                seen(r"docker (?:run|exec|compose)", r"podman run"),
                unless=(r"\bTCC\b",),
            ),
            clue(SHOWS, r"docker (?:run|exec).{0,120}", _BLOCKED, unless=(r"\bTCC\b", r"dxgkrnl", r"Hyper-?V")),
            clue(SUGGESTS, on("wsl"), r"cgroup.{0,60}(?:not found|not mounted|subsystem|mount destination)"),
            clue(SUGGESTS, r"container error: (?:failed to get device )?cgroup"),
            clue(0.5, on("wsl"), _BLOCKED, unless=(r"\bTCC\b", r"dxgkrnl")),
            clue(0.5, on("container"), _BLOCKED, unless=(r"\bTCC\b", r"dxgkrnl")),
        ),
        explains=("gpu-pv-driver-files-incomplete",),
        mend=(
            step(
                "Turn the setting in /etc/nvidia-container-runtime/config.toml over",
                "sudo nvidia-ctk config --in-place --set nvidia-container-cli.no-cgroups=true",
            ),
            step("If it was true already, set it to false; then restart docker", "sudo systemctl restart docker"),
        ),
        next_check="grep no-cgroups /etc/nvidia-container-runtime/config.toml; nvidia-smi",
        authority="https://github.com/NVIDIA/nvidia-container-toolkit/issues/85",
    ),
)
