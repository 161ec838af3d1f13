"""The card itself: bus, heat, power and the program's own faults, as the kernel log and nvidia-smi -q tell them."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.codes import nvml
from anycard.doctor.rule import ALLOWS, HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, measured, said, seen, step
from anycard.doctor.shapes import Line, Verdict

_ACTIVE = r"\s*: Active"
XID_AUTHORITY = "NVIDIA Xid catalogue (doctor/tables/xid.tsv)"


def xid(*codes: int) -> Check:
    """The log holds an Xid of one of these numbers."""

    def judge(case: Case) -> tuple[Line, ...] | None:
        return tuple(fact.line for fact in case.facts("xid") if int(fact.value) in codes)[:3] or None

    return Check(judge)


def _too_hot(case: Case) -> tuple[Line, ...] | None:
    """At the slowdown temperature the card prints, or at 95 C where it prints none; newer cards print what is left of it."""
    gone = [fact.line for fact in case.facts("temperature_left") if int(fact.value) <= 0]
    if gone:
        return tuple(gone[:2])
    limit = case.fact("slowdown_temperature")
    bound = int(limit.value) if limit else 95
    hot = [fact.line for fact in case.facts("temperature") if int(fact.value) >= bound]
    return tuple(hot[:2]) or None


def _hot_without_fan(case: Case) -> tuple[Line, ...] | None:
    """A passive card (no fan speed) near its limit."""
    hot = [fact.line for fact in case.facts("temperature_passive") if int(fact.value) >= 87]
    return tuple(hot[:2]) or None


RESET = step("Drain the card, then reset it", "sudo nvidia-smi --gpu-reset -i N")
RMA = step(
    "If it comes back after a restart, run the vendor's field diagnostics and ask for a replacement with its log"
)

RULES = (
    Rule(
        slug="gpu-fallen-off-bus",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card no longer answers on PCIe: it fell off the bus.",
        clues=(
            clue(SHOWS, nvml(15)),
            clue(PROVES, xid(79)),
            clue(PROVES, r"has fallen off the bus"),
            # as anycard's readings say it
            clue(0.93, r"The driver lost this card: it fell off", unless=(r"The card answers again",)),
            clue(SUGGESTS, r"The driver lost this card: it fell off"),
            clue(0.92, r"The driver no longer lists this card", unless=(r"The card answers again",)),
            clue(SUGGESTS, r"The driver lists this card but does not find it"),
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
            clue(0.55, r"\b(?:GPU|card)s?\b.{0,40}(?:disappear|lost|missing|vanish|dropp?ed|not detected)"),
            clue(0.55, r"掉卡|显卡.{0,12}(?:消失|不见|丢失)"),
            clue(0.6, r"NVRM: No NVIDIA (?:GPU|graphics adapter|devices?) (?:found|probed)"),
            clue(HINTS, r"could not insert .?nvidia\w*.?: No such device"),
        ),
        separates="Why it fell (power, seat, heat, GSP) shows in the lines before: AER errors, Xid 54, temperatures, Xid 119.",
        mend=(
            step("Power the machine off and on; a restart alone may not bring it back"),
            step("If it returns: look at seat, riser, power cables and heat before blaming the card"),
            RMA,
        ),
        next_check="sudo dmesg -T | grep -iE 'xid|AER|pcieport|NVRM' | tail -40; lspci -vv -d 10de: | grep -E 'LnkSta|rev'",
        authority=XID_AUTHORITY,
    ),
    Rule(
        slug="gpu-poorly-seated",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card makes bad contact in its slot (or riser): lanes are missing or the link throws errors.",
        clues=(
            clue(SHOWS, r"LnkSta:.*Width x(?:1|2|4|8) \(downgraded\)"),
            clue(0.7, measured("link_narrower")),
            clue(HINTS, measured("link_slower")),
            clue(
                SHOWS,
                seen(r"fallen off the bus", r"Xid.{0,30}79", r"No devices were found", r"PCIe Bus Error"),
                said(r"re-?seat", r"seated", r"(?:bad|poor|loose) contact", r"riser", r"slot"),
            ),
            clue(SUGGESTS, r"PCIe Bus Error: severity=Corrected, type=Physical Layer"),
            clue(SUGGESTS, r"\[ *0\] RxErr"),
            clue(SUGGESTS, r"re-?seat(?:ing|ed)?\b"),
            clue(
                SUGGESTS,
                said(
                    r"(?:touch|mov|wiggl|jiggl|unplug|push|press)\w*.{0,60}(?:card|GPU|riser|cable)",
                    r"(?:card|GPU|riser|cable).{0,60}(?:touch|mov|wiggl|jiggl|unplug|push|press)\w*",
                ),
                said(
                    r"offline", r"\blost\b", r"disappear", r"stop(?:s|ped)\b", r"comes? back", r"fixed", r"works? again"
                ),
            ),
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
        authority=XID_AUTHORITY,
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
            clue(SHOWS, r"GPU over temperature range ?(?:\([SH]W CTF\) ?)?detected"),
            clue(PROVES, r"GPU Critical Temperature Fault"),
            clue(0.87, Check(_hot_without_fan)),
            clue(
                SUGGESTS,
                r"fallen off the bus",
                seen(
                    r"(?:hot|warm|temperature|temps?:|reached|degrees).{0,30}\b(?:9\d|1[01]\d) ?°? ?C\b",
                    r"\b(?:9\d|1[01]\d) ?°? ?C\b.{0,30}(?:hot|idle|load|temperature)",
                ),
            ),
            clue(SHOWS, r"[Tt]hermal.{0,80}[Vv]erify that the cooling"),
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
            clue(0.9, measured("throttled_heat")),
            clue(0.5, measured("throttled_hardware")),
            clue(0.9, r"[Tt]hermal violations? .{0,60}(?:detected|totaling|total)"),
            clue(
                SHOWS,
                r"thermal[ _]?(?:slowdown|throttl\w*|violation).{0,20}(?::|=|is)? ?(?:active|yes|true|detected|[1-9])",
                unless=(r"Thermal Slowdown\s*: Not Active",),
            ),
            clue(SHOWS, r"DCGM_FR_THERMAL\w*"),
            clue(SHOWS, r"GPU thermal throttling temperature reached"),
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
            clue(0.92, measured("throttled_brake")),
            clue(0.4, measured("throttled_hardware")),
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
