"""Windows: the watchdog that resets display drivers (TDR), remote desktops, driver regressions."""

from __future__ import annotations

from anycard.doctor.codes import cuda
from anycard.doctor.rule import ALLOWS, HINTS, SHOWS, SUGGESTS, Rule, clue, on, said, seen, step
from anycard.doctor.shapes import Verdict

_REMOVED = seen(
    r"0x887A0005",
    r"0x887A0006",
    r"0x887A0007",
    r"0x887A0020",
    r"DXGI_ERROR_DEVICE_(?:REMOVED|HUNG|RESET)",
    r"GPU device instance has been suspended",
    r"device removed reason",
    r"VK_ERROR_DEVICE_LOST",
    r"vk::Queue::submit: ErrorDeviceLost",
    r"ErrorDeviceLost",
)
_TDR_EVENT = seen(
    r"Display driver \S+ stopped responding and has (?:successfully )?recovered",
    r"stopped responding and has (?:successfully )?recovered",
    r"nvlddmkm.{0,60}(?:stopped responding|Event ID:? ?(?:4101|153|14|13)\b|\b153\b)",
    r"VIDEO_TDR_(?:FAILURE|TIMEOUT_DETECTED|ERROR)",
    r"Event ID:? 4101",
    r"LiveKernelEvent.{0,20}\b(?:141|117|1a1|1b8)\b",
    r"显示器?驱动程序.{0,30}(?:停止响应|已恢复)",
    r"Anzeigetreiber.{0,60}(?:reagiert nicht mehr|wiederhergestellt)",
    r"Le pilote d.affichage.{0,60}(?:ne répond(?:ait)? plus|récupéré)",
)

RULES = (
    Rule(
        slug="windows-tdr-timeout",
        family="windows",
        verdict=Verdict.FAULT,
        says="Windows reset the display driver because one kernel ran longer than its watchdog (TDR, two seconds) allows.",
        clues=(
            clue(
                0.75,
                on("windows"),
                said(
                    r"(?:display|graphics|video) driver.{0,40}(?:stopped responding|recovered|reset)",
                    r"screen (?:goes|went|turns|turned|flickers?|flashes).{0,20}(?:black|for a)",
                ),
            ),
            clue(SHOWS, on("windows"), cuda(702)),
            clue(0.9, r"(?:BugCheck|bugcheck was:?|Bug ?Check ?Code:?) ?0x0*(?:116|117|141|119)\b"),
            clue(0.92, r"\bTdr(?:Delay|Level|DdiDelay)\b"),
            clue(0.9, _TDR_EVENT),
            clue(
                SHOWS,
                on("windows"),
                seen(
                    r"cudaErrorLaunchTimeout", r"the launch timed out and was terminated", r"CUDA_ERROR_LAUNCH_TIMEOUT"
                ),
            ),
            clue(SHOWS, r"\bTDR\b", seen(r"(?:timeout|reset|recover|watchdog|kernel|driver)")),
            clue(HINTS, _REMOVED, on("windows")),
            clue(0.6, r"nvlddmkm"),
            clue(0.6, on("windows", "wsl"), r"device not ready"),
            clue(0.8, r"Reset TDR occurred"),
        ),
        separates="A driver branch that hangs where others do not is a regression; the program's own missing fence is app-caused-device-removed.",
        explains=("display-watchdog-timeout",),
        mend=(
            step("Make the kernels shorter (smaller tiles or batches)"),
            step(
                "Or give the watchdog more time, as administrator, then restart",
                "reg add HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers /v TdrDelay /t REG_DWORD /d 60",
            ),
        ),
        next_check="Get-WinEvent -FilterHashtable @{LogName='System'; ProviderName='Display','nvlddmkm'} -MaxEvents 20",
        authority="https://learn.microsoft.com/windows-hardware/drivers/display/timeout-detection-and-recovery",
    ),
    Rule(
        slug="app-caused-device-removed",
        family="windows",
        verdict=Verdict.APPLICATION,
        says="The program's own work (a missing fence, an endless shader) let the device hang until Windows removed it.",
        clues=(
            clue(SHOWS, r"RemoveDevice.{0,80}DXGI_ERROR_(?:INVALID_CALL|ACCESS_DENIED)|DXGI_ERROR_INVALID_CALL"),
            clue(SUGGESTS, _REMOVED, unless=(_TDR_EVENT, r"driver \d{3}\.\d\d", on("linux"))),
            clue(SHOWS, r"D3D12 (?:ERROR|DRED).{0,200}"),
            clue(
                SHOWS,
                _REMOVED,
                seen(r"(?:fence|synchroni[sz]ation|barrier|semaphore|breadcrumb|page fault allocation)"),
            ),
            clue(HINTS, r"DEVICE_(?:REMOVED|HUNG|LOST|RESET)"),
        ),
        mend=(
            step("Look what it did last: DRED or Aftermath show the command", "set D3D12 debug layer and DRED on"),
            step("Try another driver branch and a longer TdrDelay, to tell the three causes apart"),
        ),
        next_check="Get-WinEvent -FilterHashtable @{LogName='System'; ProviderName='Display','nvlddmkm'} -MaxEvents 20",
        authority="https://learn.microsoft.com/windows/win32/direct3d12/use-dred",
    ),
    Rule(
        slug="windows-tdr-driver-regression",
        family="windows",
        verdict=Verdict.FAULT,
        says="A branch of the display driver hangs on this work; the same card is well on other branches.",
        clues=(
            clue(
                0.9,
                seen(*_REMOVED.expressions, *_TDR_EVENT.expressions),
                said(
                    r"(?:since|after|from|with) .{0,24}\b[2-6]\d{2}\.\d{2}\b.{0,80}(?:crash|hang|freez|fail|black|every|fine|stable)"
                ),
            ),
            clue(
                0.9,
                seen(*_REMOVED.expressions, *_TDR_EVENT.expressions),
                seen(
                    r"(?:older|previous|earlier|other|rolled? ?back|downgrad\w*|revert\w*|since|after|on|with) .{0,50}driver.{0,60}(?:works?|fine|fix\w*|stable|no crash|well|hang|crash|start)",
                    r"driver.{0,30}\b\d{3}\.\d\d\b.{0,60}(?:works?|fine|stable|crash|hang|fail)",
                    r"(?:roll|downgrad|revert)\w* .{0,30}(?:to|driver).{0,20}\d{3}\.\d\d",
                ),
            ),
            clue(0.9, r"\d{3}\.\d\d: (?:hang|crash|fail|TDR|freez)", r"\d{3}\.\d\d:(?: OK$| fine| works| good| pass)"),
            clue(
                0.9,
                r"\d{3}\.\d\d\b.{0,20}\b(?:hangs?|crash\w*|fails?|TDR|freez\w*)\b",
                r"\d{3}\.\d\d\b.{0,20}(?: fine|works|good|stable)\b",
            ),
            clue(ALLOWS, _REMOVED),
            clue(ALLOWS, _TDR_EVENT),
            clue(ALLOWS, r"nvlddmkm"),
        ),
        explains=("windows-tdr-timeout", "app-caused-device-removed"),
        mend=(
            step("Install another branch (Studio, or the last that worked), with a clean installation"),
            step("Report it with the event log and the dump"),
        ),
        next_check="nvidia-smi; Get-WinEvent -LogName System | ? ProviderName -match 'nvlddmkm|Display' | select -First 10",
        authority="NVIDIA driver release notes, open issues",
    ),
    Rule(
        slug="display-watchdog-timeout",
        family="windows",
        verdict=Verdict.FAULT,
        says="The card also drives a desktop, so a kernel that runs for more than some seconds is ended.",
        clues=(
            clue(0.88, cuda(702), unless=(on("windows"),)),
            clue(0.9, r"the launch timed out and was terminated", unless=(on("windows"),)),
            clue(0.9, r"cudaErrorLaunchTimeout", unless=(on("windows"),)),
            clue(0.9, r"CUDA_ERROR_LAUNCH_TIMEOUT", unless=(on("windows"),)),
            clue(SUGGESTS, r"the launch timed out and was terminated"),
            clue(SHOWS, r"Run time limit on kernels: +Yes"),
            clue(SHOWS, r"kernelExecTimeoutEnabled.{0,10}(?:1|true)"),
            clue(SUGGESTS, r"\bXid\b.{0,40}: 8\b"),
            clue(0.6, r"launch timed out"),
        ),
        mend=(
            step(
                "Run it on a card without a screen, or stop the desktop",
                "sudo systemctl isolate multi-user.target",
                "linux",
            ),
            step("Or make the kernels shorter"),
        ),
        next_check="nvidia-smi --query-gpu=display_active,display_mode --format=csv",
        authority="CUDA programming guide, kernel execution timeout",
    ),
    Rule(
        slug="rdp-session-no-opengl",
        family="windows",
        verdict=Verdict.FAULT,
        says="A remote-desktop session has no hardware OpenGL, so the program finds no usable card.",
        clues=(
            clue(
                0.92,
                seen(r"OpenGL", r"GLFW", r"\bWGL\b"),
                seen(r"\bRDP\b", r"[Rr]emote [Dd]esktop", r"mstsc", r"RDPUDD", r"Remote Display Adapter"),
            ),
            clue(SHOWS, r"GDI Generic"),
            clue(SHOWS, r"Microsoft Remote Display Adapter"),
            clue(
                SUGGESTS,
                on("windows"),
                seen(
                    r"OpenGL (?:version )?1\.1",
                    r"WGL: The driver does not appear to support OpenGL",
                    r"(?:requires?|needs?) OpenGL \d.{0,60}(?:found|but|only|not)",
                    r"OpenGL.{0,60}not (?:supported|available)",
                    r"Could not create (?:an )?OpenGL context",
                    r"Failed to create OpenGL context",
                ),
            ),
            clue(0.6, r"(?:[Rr]emote [Dd]esktop|\bRDP\b).{0,120}"),
            clue(HINTS, r"OpenGL.{0,80}(?:not|fail|version|error)"),
            clue(
                0.75,
                on("windows"),
                r"(?:[Uu]nable to|[Ff]ailed to|[Cc]ould not|[Cc]annot|[Cc]an.t) create .{0,20}OpenGL",
            ),
            clue(0.92, r"OpenGL", r"physical session"),
        ),
        mend=(
            step(
                "Let the session have the card: group policy 'Use hardware graphics adapters for all Remote Desktop Services sessions'"
            ),
            step(
                "On a GeForce run NVIDIA's OpenGL RDP accelerator once, or use another remote tool (Parsec, VNC, NICE DCV)"
            ),
        ),
        next_check='query session; dxdiag /t dx.txt & findstr /i "card name" dx.txt',
        authority="https://learn.microsoft.com/azure/virtual-desktop/configure-vm-gpu",
    ),
)
