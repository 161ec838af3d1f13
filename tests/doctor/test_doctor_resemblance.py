"""What the evidence as a whole resembles: it ranks, it never decides, and it calls nothing healthy a fault."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from noise import healthy_lines

from anycard.doctor.chips import GENERATIONS, generation, last_branch
from anycard.doctor.codes import cuda, nvml
from anycard.doctor.queries import spelled_out
from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.resemble import resemblances, words
from anycard.doctor.rule import HINTS
from anycard.doctor.rules import all_rules
from anycard.doctor.scan import compiled


def test_a_rule_resembles_itself_most():
    rules = all_rules()
    for rule in rules:
        alike = resemblances([rule.says, rule.slug.replace("-", " ")], rules)
        assert rule.slug in sorted(alike, key=lambda slug: -alike[slug])[:4], rule.slug


def test_words_are_stems_and_codes():
    assert words("CUDA_VISIBLE_DEVICES hidesThe cards: error 802 of 123456") == [
        "cuda", "visible", "device", "hide", "the", "card", "error", "802",
    ]  # fmt: skip


def test_a_cause_that_no_clue_fits_is_a_ranked_hint():
    said = "orchestrator: peer lost its fabricmanager handshake with the nvswitch, giving up with an error"
    found = diagnose([text_source("log", said)]).findings
    assert any("fabric" in finding.cause for finding in found[:3])
    assert all(finding.evidence for finding in found)


def test_nothing_healthy_sounds_like_a_fault():
    for seed in range(0, 4000, 1000):
        diagnosis = diagnose([text_source("log", "\n".join(healthy_lines(seed + 50)[-50:]))])
        assert diagnosis.verdict != "fault"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_any_text_has_hints_at_most(text):
    for finding in diagnose([text_source("log", text)]).findings:
        assert 0 < finding.certainty < 1
        assert finding.certainty < HINTS or finding.evidence


def test_cards_have_their_generation():
    named = {
        "GP104": "Pascal", "Tesla P40": "Pascal", "GK110BGL": "Kepler", "GeForce GT 710": "Kepler", "GV100GL": "Volta",
        "NVIDIA A100-SXM4-80GB": "Ampere", "TU104": "Turing", "NVIDIA L4": "Ada", "GB20B": "Blackwell", "GeForce RTX 5090": "Blackwell",
        "GeForce GTX 980 Ti": "Maxwell", "H100 80GB HBM3": "Hopper", "Tesla T4": "Turing",
    }  # fmt: skip
    assert {name: GENERATIONS[generation(name) or 0] for name in named} == named
    assert generation("Radeon RX 6800") is None
    assert last_branch(GENERATIONS.index("Kepler")) == 470
    assert last_branch(GENERATIONS.index("Turing")) is None


def test_an_error_code_in_every_spelling():
    def told(seen, line):
        return any(compiled(expression).search(line) for expression in seen.expressions)

    for line in (
        "CUDA error = 702 at main.cu:196",
        "cudaErrorLaunchTimeout",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "the launch timed out and was terminated",
        "cudaDeviceSynchronize returned error code 702",
    ):
        assert told(cuda(702), line), line
    assert not told(cuda(702), "step 702 of 10000, no error")
    assert told(cuda(999), "cudaGetDeviceCount returned 30")
    assert told(nvml(15), "pynvml.NVMLError_GpuIsLost")
    assert told(nvml(18), "Failed to initialize NVML: Driver/library version mismatch")


def test_csv_answers_are_spelled_out():
    csv = [
        "$ nvidia-smi --query-gpu=pstate,clocks_throttle_reasons.active,temperature.gpu --format=csv,noheader=false",
        "pstate, clocks_throttle_reasons.active, temperature.gpu",
        "P0, 0x0000000000000040, 91",
        "P0, broken",
    ]
    told = list(spelled_out(csv))
    assert (3, "HW Thermal Slowdown : Active") in told
    assert (3, "SW Power Cap : Not Active") in told
    assert (3, "GPU Current Temp : 91 C") in told
    assert {number for number, _ in told} == {3}
    assert not list(spelled_out(["a line of prose, with commas", "and, more"]))


def test_a_bare_answer_is_said_with_its_question():
    told = list(
        spelled_out(
            [
                "$ modinfo -F version nvidia",
                "470.223.02",
                "$ uname -r",
                "$ echo $CUDA_VISIBLE_DEVICES",
                "",
                ">>> torch.version.cuda",
                "'12.4'",
            ]
        )
    )
    assert told == [(2, "version: 470.223.02"), (7, "torch.version.cuda = 12.4")]


@given(st.lists(st.text(max_size=60), max_size=8))
def test_no_csv_breaks_it(lines):
    for number, text in spelled_out(lines):
        assert 1 <= number <= len(lines)
        assert text
