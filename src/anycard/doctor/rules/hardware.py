"""The card itself: what the kernel log, the Xid numbers and nvidia-smi -q say of memory, bus, heat, power and firmware."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.rule import ALLOWS, HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, said, seen, step
from anycard.doctor.shapes import Line, Verdict

_ACTIVE = r"\s*: Active"
_XID_AUTHORITY = "NVIDIA Xid catalogue (doctor/tables/xid.tsv)"


def xid(*codes: int) -> Check:
    """The log holds an Xid of one of these numbers."""

    def judge(case: Case) -> tuple[Line, ...] | None:
        return tuple(fact.line for fact in case.facts("xid") if int(fact.value) in codes)[:3] or None

    return Check(judge)


def _too_hot(case: Case) -> tuple[Line, ...] | None:
    """At the slowdown temperature the card prints, or at 95 C where it prints none."""
    limit = case.fact("slowdown_temperature")
    bound = int(limit.value) if limit else 95
    hot = [fact.line for fact in case.facts("temperature") if int(fact.value) >= bound]
    return tuple(hot[:2]) or None


def _hot_without_fan(case: Case) -> tuple[Line, ...] | None:
    """A passive card (no fan speed) near its limit."""
    hot = [fact.line for fact in case.facts("temperature_passive") if int(fact.value) >= 87]
    return tuple(hot[:2]) or None


def _retired_pages_at_limit(case: Case) -> tuple[Line, ...] | None:
    """64 retired pages is the limit for replacement; a card's two counters add up."""
    lines: list[Line] = []
    total = 0
    for fact in case.facts("retired_pages"):
        if "single" in fact.line.text.lower():
            lines, total = [], 0
        lines.append(fact.line)
        total += int(fact.value)
        if total >= 60:
            return tuple(lines)
    return None


_RESET = step("Drain the card, then reset it", "sudo nvidia-smi --gpu-reset -i N")
_REBOOT = step("If the reset is refused, restart the machine (power it off and on for a card that is gone)")
_RMA = step(
    "If it comes back after a restart, run the vendor's field diagnostics and ask for a replacement with its log"
)

RULES = (
    Rule(
        slug="gpu-fallen-off-bus",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card no longer answers on PCIe: it fell off the bus.",
        clues=(
            clue(PROVES, xid(79)),
            clue(PROVES, r"has fallen off the bus"),
            clue(PROVES, r"fallen off the bus and is not responding"),
            clue(0.9, r"GPU is lost\.? +Reboot the system"),
            clue(
                0.9,
                r"Unable to determine the device handle for (?:GPU|gpu)\S* ?\S*: *(?:GPU is lost|Unknown Error|Not Found)",
            ),
            clue(SHOWS, r"NVML_ERROR_GPU_IS_LOST"),
            clue(SHOWS, r"\bGPU is lost\b"),
            clue(SHOWS, r"\(rev ff\)"),
            clue(SHOWS, r"nvidia.*Surprise (?:Down|Link Down|removal)"),
            clue(SUGGESTS, r"Unable to determine the device handle for"),
            clue(SUGGESTS, r"NVRM: GPU \S+: (?:PCI|GPU) .*(?:not accessible|lost)"),
            clue(SUGGESTS, r"nvidia \S+: (?:can't|unable to) change power state from D3(?:cold|hot) to D0"),
            clue(0.55, r"(?:GPU|card).{0,40}(?:disappear|lost|missing|vanish|dropp?ed|not detected)"),
            clue(0.6, r"NVRM: No NVIDIA (?:GPU|graphics adapter|devices?) (?:found|probed)"),
            clue(HINTS, r"could not insert .?nvidia\w*.?: No such device"),
        ),
        separates="Why it fell (power, seat, heat, GSP) shows in the lines before: AER errors, Xid 54, temperatures, Xid 119.",
        mend=(
            step("Power the machine off and on; a restart alone may not bring it back"),
            step("If it returns: look at seat, riser, power cables and heat before blaming the card"),
            _RMA,
        ),
        next_check="sudo dmesg -T | grep -iE 'xid|AER|pcieport|NVRM' | tail -40; lspci -vv -d 10de: | grep -E 'LnkSta|rev'",
        authority=_XID_AUTHORITY,
    ),
    Rule(
        slug="gpu-poorly-seated",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card makes bad contact in its slot (or riser): lanes are missing or the link throws errors.",
        clues=(
            clue(SHOWS, r"LnkSta:.*Width x(?:1|2|4|8) \(downgraded\)"),
            clue(
                SHOWS,
                seen(r"fallen off the bus", r"Xid.{0,30}79", r"No devices were found", r"PCIe Bus Error"),
                said(r"re-?seat", r"seated", r"(?:bad|poor|loose) contact", r"riser", r"slot"),
            ),
            clue(SUGGESTS, r"PCIe Bus Error: severity=Corrected, type=Physical Layer"),
            clue(SUGGESTS, r"\[ *0\] RxErr"),
            clue(SUGGESTS, r"re-?seat(?:ing|ed)?\b"),
            clue(SUGGESTS, r"link width.{0,20}(?:degraded|reduced|x1\b)"),
            clue(SUGGESTS, r"RmInitAdapter failed! \(0x2[2-6]:0x(?:ffff|65|56|40)"),
            clue(HINTS, r"RmInitAdapter failed"),
            clue(HINTS, r"Unknown header type 7f"),
            clue(ALLOWS, xid(79)),
            clue(HINTS, r"\bAER\b.{0,80}(?:Corrected|error)"),
            clue(0.6, xid(143, 167)),
        ),
        mend=(
            step(
                "Power off, take the card out and put it back until it clicks; clean the contacts; try without a riser"
            ),
            step("Look at the link again", "sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'"),
        ),
        next_check="sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'; sudo dmesg | grep -i AER",
        authority="NVIDIA GPU debug guidelines, PCIe section",
    ),
    Rule(
        slug="gpu-power-delivery",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card does not get the power it asks for: supply, cable or connector.",
        clues=(
            clue(PROVES, r"does not have the necessary power cables connected"),
            clue(PROVES, r"power cables? .{0,40}(?:not (?:properly )?(?:connected|attached|plugged)|disconnected)"),
            clue(PROVES, xid(54)),
            clue(PROVES, r"Auxiliary power is not connected"),
            clue(
                PROVES,
                r"(?:power cable|power connector|PCIe power|auxiliary power)s?.{0,60}(?:not (?:properly )?connected|missing|insufficient)",
            ),
            clue(
                0.96,
                seen(r"fallen off the bus", r"Xid[^0-9]{0,12}79", r"GPU is lost"),
                said(
                    r"\bPSU\b",
                    r"power supply",
                    r"\b\d{3,4} ?W\b.{0,20}(?:supply|psu)",
                    r"(?:8|12|16|6)-pin",
                    r"12VHPWR",
                    r"(?:power )?(?:cable|adapter|lead)s?\b",
                    r"transient",
                    r"power limit.{0,40}(?:help|stable|stop)",
                ),
            ),
            clue(SUGGESTS, said(r"(?:PSU|power supply).{0,80}(?:W\b|watt|old|weak|insufficient)")),
            clue(SUGGESTS, r"nvidia-smi -pl \d+.{0,80}(?:stable|helps|no crash|survive)"),
            clue(0.6, r"(?:insufficient|not enough|lack of) (?:PCIe |auxiliary |external )?power"),
        ),
        separates="hw-power-brake-slowdown: the chassis asks the card to slow down, nothing falls off.",
        explains=("gpu-fallen-off-bus", "gpu-poorly-seated"),
        mend=(
            step("Give every connector of the card its own cable from a supply that carries the transients"),
            step("To test, lower the limit: if it holds then, it is the supply", "sudo nvidia-smi -pl 250"),
        ),
        next_check="sudo nvidia-smi -q -d POWER; sudo dmesg | grep -i xid",
        authority=_XID_AUTHORITY,
    ),
    Rule(
        slug="gsp-heartbeat-timeout",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's GSP firmware stopped beating; the driver asks for a reset.",
        clues=(
            clue(PROVES, r"GSP RM heartbeat timed out"),
            clue(PROVES, r"_kgspIsHeartbeatTimedOut"),
            clue(PROVES, r"LibOS heartbeat timed out"),
            clue(SHOWS, r"GSP.{0,40}heartbeat"),
        ),
        explains=("gsp-rpc-timeout", "gpu-fallen-off-bus"),
        mend=(_RESET, _REBOOT, step("Update the driver: firmware comes with it")),
        next_check="sudo dmesg | grep -E 'GSP|Xid'",
        authority="NVIDIA/open-gpu-kernel-modules, kernel_gsp.c",
    ),
    Rule(
        slug="gsp-rpc-timeout",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's GSP firmware no longer answers the driver's calls.",
        clues=(
            clue(PROVES, xid(119, 120)),
            clue(PROVES, r"waiting for RPC (?:response )?from (?:GPU\d+ )?GSP"),
            clue(SHOWS, r"_(?:issueRpc|kgspRpc|kgspLog)\w*.{0,120}(?:timeout|timed out|GSP)"),
            clue(SHOWS, r"GSP (?:task|firmware) .{0,30}(?:exception|crash|halt)"),
            clue(
                0.55,
                r"(?:Current|Pending|Persistence Mode|Clocks|Temp).*: Unknown Error",
                unless=(r"Insufficient Permissions",),
            ),
            clue(HINTS, r"nvml: Unknown Error"),
            clue(0.6, r"\bGSP\b.{0,80}(?:timeout|timed out|error|fail|crash)"),
            clue(HINTS, r"GPU requires reset"),
            clue(HINTS, xid(109, 158)),
        ),
        mend=(
            _RESET,
            _REBOOT,
            step(
                "If it repeats, take a newer driver; on the proprietary modules GSP can be switched off",
                "echo 'options nvidia NVreg_EnableGpuFirmware=0' | sudo tee /etc/modprobe.d/nvidia-gsp.conf",
            ),
        ),
        next_check="sudo dmesg | grep -E 'NVRM: (Xid|.*GSP)' | head",
        authority=_XID_AUTHORITY,
    ),
    Rule(
        slug="gsp-required-by-open-modules",
        family="hardware",
        verdict=Verdict.EXPECTED,
        says="GSP firmware cannot be switched off under the open kernel modules: the option is ignored by design.",
        clues=(
            clue(
                PROVES,
                r"EnableGpuFirmware ?[=:] ?0",
                seen(
                    r"open kernel module",
                    r"Open Kernel Module",
                    r"nvidia-open",
                    r"nvidia-driver-\d+(?:-server)?-open",
                    r"Dual MIT/GPL",
                    r"RTX 50\d\d",
                    r"Blackwell",
                    r"GSP Firmware Version\s*: \d",
                ),
            ),
            clue(SHOWS, seen(r"GSP Firmware Version\s*: \d{3}"), seen(r"EnableGpuFirmware")),
            clue(SHOWS, r"(?:open|nvidia-open).{0,80}(?:require|need|always|only).{0,40}GSP"),
            clue(SHOWS, r"GSP.{0,60}(?:cannot|can't|can not).{0,20}(?:be )?(?:disabled|turned off|switched off)"),
            clue(SUGGESTS, r"NVreg_EnableGpuFirmware"),
            clue(0.55, r"EnableGpuFirmware"),
        ),
        explains=("gsp-rpc-timeout",),
        mend=(step("Leave it on; where the card allows, only the proprietary modules run without GSP"),),
        next_check="cat /proc/driver/nvidia/version; nvidia-smi -q | grep GSP",
        authority="https://github.com/NVIDIA/open-gpu-kernel-modules (README)",
    ),
    Rule(
        slug="pmu-halt",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's internal micro-controller (PMU) halted; it needs a reset.",
        clues=(
            clue(PROVES, xid(62)),
            clue(PROVES, r"PMU_HALT"),
            clue(SHOWS, r"PMU.{0,20}(?:halt|breakpoint)"),
            clue(SHOWS, r"Internal micro-?controller (?:halt|breakpoint)"),
            clue(SUGGESTS, xid(61)),
        ),
        explains=("app-xid45-preemptive-cleanup", "gpu-fallen-off-bus"),
        mend=(_RESET, _REBOOT, _RMA),
        next_check="sudo dmesg | grep Xid",
        authority=_XID_AUTHORITY,
    ),
    Rule(
        slug="ecc-uncorrectable-error",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's memory had an error that ECC could not correct.",
        clues=(
            clue(0.93, xid(48, 140, 171, 172)),
            clue(0.93, xid(95)),
            clue(SHOWS, r"uncorrectable ECC error encountered"),
            clue(SHOWS, r"(?:CUDA_ERROR|cudaError)_?ECC_?UNCORRECTABLE"),
            clue(SHOWS, r"Double Bit ECC Error"),
            clue(SHOWS, r"Uncorrectable ECC error"),
            clue(
                SUGGESTS,
                r"(?:DRAM|SRAM|Double Bit|Device Memory|Total).{0,20}Uncorrectable\w*(?: Parity| SEC-DED)?\s*: [1-9]",
            ),
            clue(0.55, r"[Uu]ncorrect\w+.{0,40}(?:ECC|error)"),
            clue(HINTS, r"\bDBE\b"),
            clue(0.55, xid(92)),
        ),
        separates="94 is contained in one process; 63 and 64 tell whether a spare row took its place.",
        explains=("app-xid45-preemptive-cleanup", "app-illegal-memory-access"),
        mend=(
            _RESET,
            step(
                "Look whether a row is to be remapped or the limit is reached",
                "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
            ),
            _RMA,
        ),
        next_check="nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
        authority="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    ),
    Rule(
        slug="ecc-contained-error",
        family="hardware",
        verdict=Verdict.FAULT,
        says="A memory error was contained: it ended one process, the others go on.",
        clues=(
            clue(PROVES, xid(94)),
            clue(PROVES, r"Contained(?:: SM|: CE|: LTC| memory| error| ECC)", unless=(r"Uncontained",)),
        ),
        separates="95 (uncontained) touches every process and needs a reset at once.",
        explains=("app-xid45-preemptive-cleanup", "app-illegal-memory-access", "ecc-uncorrectable-error"),
        mend=(
            step("Start the ended program again"),
            step("When convenient, reset the card so that the row is remapped", "sudo nvidia-smi --gpu-reset -i N"),
        ),
        next_check="nvidia-smi -q -d ROW_REMAPPER",
        authority=_XID_AUTHORITY,
    ),
    Rule(
        slug="ecc-row-remap-pending",
        family="hardware",
        verdict=Verdict.FAULT,
        says="A weak memory row waits to be replaced by a spare: a reset makes it so.",
        clues=(
            clue(0.94, r"New row marked for remapping"),
            clue(0.93, xid(63), unless=(r"All reserved rows",)),
            clue(SHOWS, r"Pending\s*: Yes", seen(r"Remapped Rows", r"Row Remap", r"Remapping Failure")),
            clue(SHOWS, r"row.remap\w*.{0,20}pending.{0,12}(?:yes|true|1)"),
            clue(SHOWS, r"Row remapping is required"),
            clue(0.55, r"[Rr]ow [Rr]emap\w*"),
            clue(HINTS, r"GPU requires reset"),
        ),
        explains=("app-xid45-preemptive-cleanup",),
        mend=(_RESET,),
        next_check="nvidia-smi -q -d ROW_REMAPPER",
        authority="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    ),
    Rule(
        slug="ecc-row-remap-failed",
        family="hardware",
        verdict=Verdict.FAULT,
        says="A memory row could not be replaced: its bank has no spare rows left. The card is to be replaced.",
        clues=(
            clue(0.93, r"row remap(?:ping)? fail", unless=(r"row remap(?:ping)? fail\w*[^:]{0,20}: ?(?:no|0|none)",)),
            clue(PROVES, r"All reserved rows for bank are remapped"),
            clue(PROVES, xid(64)),
            clue(PROVES, r"Row Remapper Error"),
            clue(PROVES, r"Remapping Failure Occurred\s*: Yes"),
            clue(SHOWS, r"Row remapping failure"),
            clue(SHOWS, r"\bNone\s*: [1-9]\d* bank\(s\)"),
        ),
        explains=(
            "ecc-row-remap-pending",
            "ecc-uncorrectable-error",
            "ecc-contained-error",
            "app-xid45-preemptive-cleanup",
        ),
        mend=(step("Take the card out of service", "sudo nvidia-smi drain -p BUS:DEV.0 -m 1"), _RMA),
        next_check="nvidia-smi -q -d ROW_REMAPPER",
        authority="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ (RMA criteria)",
    ),
    Rule(
        slug="ecc-page-retirement-limit",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card has retired as many memory pages as it may (64), or is about to: it qualifies for replacement.",
        clues=(
            clue(PROVES, Check(_retired_pages_at_limit)),
            clue(SHOWS, r"page retirement.{0,40}(?:limit|exceed|full)"),
            clue(SHOWS, r"number of retired pages.{0,30}(?:6\d|limit)"),
            clue(HINTS, r"Pending (?:Page Blacklist|Retirement)\s*: Yes"),
            clue(0.55, r"[Rr]etired [Pp]ages"),
        ),
        explains=("ecc-uncorrectable-error",),
        mend=(_RESET, step("Ask for a replacement with this output", "nvidia-smi -q -d PAGE_RETIREMENT")),
        next_check="nvidia-smi -q -d PAGE_RETIREMENT",
        authority="https://docs.nvidia.com/deploy/dynamic-page-retirement/",
    ),
    Rule(
        slug="gpu-overheat-no-airflow",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card reaches its slowdown or shutdown temperature: it is not cooled (a passive card without a ducted fan, a stopped fan, a full filter).",
        clues=(
            clue(0.93, Check(_too_hot)),
            clue(PROVES, r"GPU.{0,40}(?:has )?overheated"),
            clue(
                0.96,
                seen(
                    r"HW Thermal Slowdown" + _ACTIVE,
                    r"fallen off the bus",
                    r"Slowdown Temp",
                    r"Thermal (?:Slowdown|Shutdown)",
                    r"thermal",
                ),
                seen(
                    r"passive",
                    r"air ?flow",
                    r"no fans?\b",
                    r"fan ?less",
                    r"(?:without|no) (?:active )?cool",
                    r"(?:desktop|tower|consumer|workstation) (?:case|chassis)",
                    r"fan (?:shroud|duct|stopped|failed)",
                    r"blower",
                ),
            ),
            clue(SHOWS, r"reached (?:its |the )?(?:slowdown|shutdown|maximum|critical|max)\w* (?:operating )?temp"),
            clue(SHOWS, r"temperature.{0,40}(?:above|exceed|over|beyond).{0,30}(?:threshold|limit|slowdown|shutdown)"),
            clue(SHOWS, r"(?:thermal|temperature).{0,20}(?:shutdown|trip|critical)", seen(r"NVRM", r"nvidia", r"nvml")),
            clue(SUGGESTS, r"(?:Tesla|P40|P100|K80|M40|V100|A40|L40|MI50|MI25).{0,80}(?:passive|airflow|no fan)"),
            clue(SUGGESTS, r"ERR!\s+(?:9\d|1[01]\d)C"),
            clue(0.87, Check(_hot_without_fan)),
            clue(0.6, r"over-?heat\w*"),
        ),
        separates="thermal-throttling: slows down under load yet stays below the limit.",
        explains=("thermal-throttling", "gpu-fallen-off-bus"),
        mend=(
            step("Stop the load; give a passive card a duct and a fan, or put it into a server chassis"),
            step("Until then lower the limit", "sudo nvidia-smi -pl 150"),
        ),
        next_check="nvidia-smi -q -d TEMPERATURE,PERFORMANCE; nvidia-smi dmon -s pct -c 20",
        authority="NVIDIA data-centre card product briefs, thermal specifications",
    ),
    Rule(
        slug="thermal-throttling",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card slows down because it gets too warm under load.",
        clues=(
            clue(0.9, r"(?:HW|SW) Thermal Slowdown" + _ACTIVE),
            clue(0.9, r"[Tt]hermal violations? .{0,60}(?:detected|totaling|total)"),
            clue(
                SHOWS,
                r"thermal[ _]?(?:slowdown|throttl\w*|violation).{0,20}(?::|=|is)? ?(?:active|yes|true|detected|[1-9])",
                unless=(r"Thermal Slowdown\s*: Not Active",),
            ),
            clue(SHOWS, r"DCGM_FR_THERMAL\w*"),
            clue(SUGGESTS, r"thermal(?:ly)? throttl"),
            clue(SUGGESTS, r"(?:Package|Core) temperature (?:is )?above threshold"),
            clue(
                0.55,
                r"[Tt]hermal.{0,40}(?:throttl|slowdown|violation|limit)",
                unless=(r"Thermal Slowdown\s*: Not Active",),
            ),
        ),
        mend=(
            step("Compare with its neighbours: one warm card of many has its own fan, paste or slot to look at"),
            step("Watch it", "nvidia-smi dmon -s pct"),
        ),
        next_check="nvidia-smi -q -d TEMPERATURE,PERFORMANCE",
        authority="DCGM diagnostics, thermal violation",
    ),
    Rule(
        slug="hw-power-brake-slowdown",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The server asserts the card's power-brake pin, so the card runs at a crawl: a missing or failed supply, or a BMC that does not know the card.",
        clues=(
            clue(PROVES, r"HW Power Brake(?: Slowdown)?" + _ACTIVE),
            clue(
                SHOWS,
                r"power[ _]brake.{0,30}(?:active|asserted|engaged|: ?1)",
                unless=(r"Brake Slowdown\s*: Not Active",),
            ),
            clue(SHOWS, r"hw_power_brake_slowdown.{0,12}Active$"),
        ),
        explains=("thermal-throttling", "healthy-idle-clocks"),
        mend=(
            step("Look at the supplies and the BMC's event log", "sudo ipmitool sel elist | tail"),
            step("Update the BMC's firmware, or ask the maker for its power table of this card"),
        ),
        next_check="nvidia-smi -q -d PERFORMANCE; sudo ipmitool sdr type 'Power Supply'",
        authority="man nvidia-smi, clocks event reasons",
    ),
    Rule(
        slug="pcie-link-limited-upstream",
        family="hardware",
        verdict=Verdict.EXPECTED,
        says="The port above the card is of an older PCIe generation (or has fewer lanes): half the host bandwidth, by design of that machine.",
        clues=(
            clue(SHOWS, r"available PCIe bandwidth, limited by"),
            clue(0.6, r"limited by [\d.]+ GT/s PCIe x\d+ link at"),
            clue(HINTS, r"Link Gen.{0,20}(?:Max|Host Max)"),
            clue(HINTS, r"limited by .{0,40}PCIe"),
        ),
        separates="A link that lowers its speed at idle rises under load (healthy-pcie-idle-downshift).",
        mend=(step("Put the card into a slot of its own generation, if the board has one"),),
        next_check="sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'",
        authority="Linux drivers/pci/pci.c, pcie_print_link_status",
    ),
    Rule(
        slug="xid31-software-fault",
        family="hardware",
        verdict=Verdict.APPLICATION,
        says="The program read or wrote an address that is not its own (Xid 31 or 13); the card is sound.",
        clues=(
            clue(0.9, xid(31)),
            clue(SHOWS, r"MMU Fault: ENGINE"),
            clue(SHOWS, r"Fault is of type FAULT_\w+ ACCESS_TYPE"),
            clue(SUGGESTS, xid(13)),
            clue(SUGGESTS, r"Graphics (?:SM |)(?:Warp |Engine )?Exception"),
            clue(0.6, xid(32, 43, 44, 69)),
        ),
        separates="If it moves with the card and not with the program, suspect the memory (Xid 48, 63, 94, 95).",
        explains=("app-illegal-memory-access", "app-xid45-preemptive-cleanup"),
        mend=(
            step("Find the fault in the program", "compute-sanitizer --tool memcheck ./program"),
            step("Run it on another card: if it fails there too, the card is cleared"),
        ),
        next_check="compute-sanitizer --tool memcheck ./program",
        authority="NVIDIA Xid catalogue: WORKFLOW_XID_31, RESTART_APP",
    ),
)
