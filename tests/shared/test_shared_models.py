"""A job's model is read with its submitter's rights, and with no others."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path


def checkpoint(member, mode: int) -> Path:
    """A small safetensors file of the member's own, in a folder that everybody may enter."""
    header = json.dumps({"w": {"dtype": "F16", "shape": [512, 1024], "data_offsets": [0, 1 << 20]}}).encode()
    folder = member.folder / "model"
    folder.mkdir(exist_ok=True)
    file = folder / "m.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(1 << 20))
    for path in (folder, file):
        os.chown(path, member.uid, member.gid)
    file.chmod(mode)
    return file


def sizing(member, model: Path) -> dict:
    text = f"run: 'true'\nanycard: {{model: {model}}}\n"
    answer = member.json("submit", member.file("sized.yaml", text))
    return member.json("job", str(answer["jobs"][0]["id"]))["sizing"]


def test_ones_own_model_is_sized_and_another_users_is_not_looked_at(team):
    file = checkpoint(team.ben, 0o600)
    own = sizing(team.ben, file)
    assert own["exact"] and own["needs"][0]["parts"]["weights"] == 1 << 20
    others = sizing(team.ann, file)
    assert others["needs"] == [] and others["unsized"]
    assert sizing(team.ann, Path("Qwen3-0.6B"))["needs"]


def test_what_is_no_model_holds_nobody_up(team):
    fifo = team.ann.folder / "pipe.gguf"
    os.mkfifo(fifo)
    os.chown(fifo, team.ann.uid, team.ann.gid)
    for odd in (fifo, Path("/dev/zero"), Path("/proc/self/mem"), Path("/")):
        assert sizing(team.ann, odd)["unsized"]
    assert team.ben("run", "--", "true").returncode == 0
