"""Root causes lead, people rank last, look-alikes are known, and what is not known is said."""

from __future__ import annotations

from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.shapes import Verdict


def _of(text: str, platform: str | None = "linux", said: str = ""):
    sources = [text_source("log", text)]
    if said:
        sources.append(text_source("question.txt", said, spoken=True))
    return diagnose(sources, platform)


def test_xid_45_after_an_nvlink_error_is_its_consequence():
    seen = _of(
        "NVRM: Xid (PCI:0000:97:00): 145, RLW_REMAP Nonfatal\n"
        "NVRM: Xid (PCI:0000:97:00): 45, pid=1818987, name=python3, Ch 00000003\n"
    )
    assert seen.findings[0].cause == "nvlink-error"
    assert "app-xid45-preemptive-cleanup" not in [finding.cause for finding in seen.findings[:1]]


def test_of_two_equal_faults_the_earlier_line_leads():
    first = "NVRM: Xid (PCI:0000:01:00): 62, 1 2 3\n"
    second = "NVRM: Xid (PCI:0000:02:00): 54, pid=1\n"
    assert _of(first + second).findings[0].cause == "pmu-halt"
    assert _of(second + first).findings[0].cause == "gpu-power-delivery"


def test_the_kernel_outranks_what_a_person_says():
    seen = _of("Linux box 4.4.0-19041-Microsoft #1 Microsoft", "wsl", said="I am sure that this is WSL 2.")
    assert seen.findings[0].cause == "wsl1-no-gpu"


def test_a_persons_words_weigh_less_than_a_programs():
    line = "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.1"
    printed = _of(line).findings[0].certainty
    said = _of("", said=line).findings[0].certainty
    assert printed > said


def test_the_hint_to_the_allocator_in_every_message_is_no_evidence():
    seen = _of(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 0.40 GiB"
        " is free. Including non-PyTorch memory, this process has 23.20 GiB memory in use. Of the allocated memory 22.90 GiB is allocated"
        " by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )
    assert seen.findings[0].cause == "oom-model-too-large"


def test_module_taint_is_no_secure_boot():
    seen = _of("nvidia: module verification failed: signature and/or required key missing - tainting kernel")
    assert seen.verdict is Verdict.HEALTHY


def test_a_harmless_line_does_not_lead_beside_a_fault():
    seen = _of(
        "nvidia: module license 'NVIDIA' taints kernel.\nNVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    )
    assert seen.findings[0].cause == "gpu-fallen-off-bus"
    assert seen.verdict is Verdict.FAULT


def test_nothing_is_undecided_and_names_a_next_step():
    for text in ("", "hello\n", "\x00\x01\x02" * 100):
        seen = _of(text)
        assert seen.verdict is Verdict.UNDECIDED
        assert seen.next_check


def test_one_headline_has_several_causes_and_a_check_that_splits_them():
    seen = _of("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    assert seen.findings[0].certainty < 0.6
    assert "modprobe nvidia" in seen.findings[0].next_check


def test_evidence_that_contradicts_itself_is_told():
    seen = _of("torch==2.6.0+cu124\nPyTorch version: 2.7.0+cpu\n")
    assert any("several builds of torch" in str(text) for text in seen.contradictions)


def test_facts_know_their_lines():
    seen = _of("a\nDriver Version: 535.54.03   CUDA Version: 12.2\n")
    facts = {fact.name: (fact.value, fact.line.number) for fact in seen.facts}
    assert facts["driver"] == ("535.54.03", 2)
    assert facts["smi_cuda"] == ("12.2", 2)
