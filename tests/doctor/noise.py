"""Healthy logs to bury evidence in: what a machine that works prints all day. Seeded, so a failure can be repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence

_LINES = (
    "kernel: usb 1-{a}: new high-speed USB device number {b} using xhci_hcd",
    'kernel: audit: type=1400 audit({n}.{b}:{a}): apparmor="STATUS" operation="profile_load" name="snap.lxd.daemon" pid={n}',
    "kernel: EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
    "kernel: e1000e 0000:00:1f.6 eno1: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx",
    "kernel: nvidia-uvm: Loaded the UVM driver, major device number 511.",
    "kernel: [drm] Initialized nvidia-drm 0.0.0 20160202 for 0000:{b}:00.0 on minor {a}",
    "kernel: pcieport 0000:00:01.1: PME: Signaling with IRQ {b}",
    "systemd[1]: Started Session {n} of User alice.",
    "systemd[1]: Starting Daily apt download activities...",
    "systemd[1]: logrotate.service: Deactivated successfully.",
    "CRON[{n}]: (root) CMD (command -v debian-sa1 > /dev/null && debian-sa1 1 1)",
    "sshd[{n}]: Accepted publickey for alice from 10.0.{a}.{b} port {n} ssh2: ED25519 SHA256:xyz",
    'dockerd[{a}]: time="2026-01-0{c}T10:{b}:00Z" level=info msg="ignoring event" container={n} module=libcontainerd topic=/tasks/delete',
    'kubelet[{a}]: I0101 10:{b}:00.{n} {a} kubelet_volumes.go:161] "Cleaned up orphaned pod volumes dir" podUID="{n}"',
    "slurmd[{a}]: launch task StepId={n}.0 request from UID:1000 GID:1000 HOST:10.0.0.{b} PORT:{n}",
    "slurmctld[{a}]: sched: Allocate JobId={n} NodeList=gpu0{c} #CPUs={b} Partition=gpu",
    'ollama[{a}]: [GIN] 2026/01/0{c} - 10:{b}:00 | 200 |  1.{n}s |       127.0.0.1 | POST     "/api/generate"',
    "ollama[{a}]: llama_model_loader: - kv  {b}: llama.attention.head_count u32 = 32",
    "train.py: epoch {c} step {n} loss 2.{a} lr 3.0e-04 tokens/s {n} mem 21.{c}GiB",
    "train.py: saving checkpoint to /data/run{c}/step-{n}.pt",
    "vllm[{a}]: INFO 01-0{c} 10:{b}:00 [loggers.py:116] Engine 000: Avg prompt throughput: {a}.0 tokens/s, Running: {c} reqs",
    'dcgm-exporter[{a}]: time="2026-01-0{c}" level=info msg="Pipeline starting"',
    "nvidia-persistenced[{a}]: device 0000:{b}:00.0 - persistence mode enabled.",
    "nvidia-smi: GPU {c}, NVIDIA A100-SXM4-80GB, {b} %, 3{c} C, P0, 6{c} W",
    "postfix/smtpd[{n}]: connect from localhost[127.0.0.1]",
    "chronyd[{a}]: Selected source 192.0.2.{b}",
    "NetworkManager[{a}]: <info>  [{n}.{a}] dhcp4 (eno1): state changed new lease, address=10.0.{a}.{b}",
    'rsyslogd: [origin software="rsyslogd" swVersion="8.2302.0" x-pid="{a}"] rsyslogd was HUPed',
    'containerd[{a}]: time="2026-01-0{c}T10:{b}:00Z" level=info msg="StopPodSandbox for \\"{n}\\" returns successfully"',
    "nccl-test: #  {n}  float  sum  -1  {a}.{b}  {c}.7{a}  {c}.6{b}  0",
)


def healthy_lines(count: int, seed: int = 7) -> list[str]:
    """``count`` lines of a machine on which everything works."""
    dice = random.Random(seed)
    lines = []
    for second in range(count):
        text = dice.choice(_LINES).format(
            a=dice.randrange(1, 99), b=dice.randrange(10, 60), c=dice.randrange(1, 9), n=dice.randrange(10**4, 10**6)
        )
        lines.append(
            f"Jan 0{1 + second // 40000} 0{second // 3600 % 10}:{second // 60 % 60:02d}:{second % 60:02d} node7 {text}"
        )
    return lines


def bury(evidence: Sequence[str], count: int = 5000, seed: int = 7) -> list[str]:
    """The evidence as one block somewhere inside ``count`` healthy lines."""
    noise = healthy_lines(count, seed)
    at = random.Random(seed + 1).randrange(count // 4, 3 * count // 4)
    return [*noise[:at], *evidence, *noise[at:]]


def scatter(evidence: Sequence[str], count: int = 5000, seed: int = 7) -> list[str]:
    """The evidence line by line, in order, among ``count`` healthy lines."""
    noise = healthy_lines(count, seed)
    places = sorted(random.Random(seed + 2).sample(range(count), min(len(evidence), count)))
    for offset, (place, line) in enumerate(zip(places, evidence, strict=False)):
        noise.insert(place + offset, line)
    return noise
