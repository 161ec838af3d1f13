"""What attempts leave: outputs only of those that succeeded, checkpoints of all, a stop with time to save."""

from __future__ import annotations

import sys
from pathlib import Path

from called import until

STEPS = """
import os, sys, time
from anycard import checkpoint
checkpoint.should_stop()
step = checkpoint.load(0)
print("from", step, "attempt", os.environ["ANYCARD_ATTEMPT"], flush=True)
while step < 1000:
    step += 1
    checkpoint.save(step)
    checkpoint.progress(step, 1000)
    if checkpoint.should_stop():
        print("saved", step, flush=True)
        sys.exit(0 if step >= 1000 else 3)
    time.sleep(0.01)
    if os.path.exists("finish"):
        break
open(os.environ["ANYCARD_OUTPUT_DIR"] + "/step", "w").write(str(step))
"""


def test_a_stopped_program_saves_and_its_retry_goes_on_from_there(cli):
    (cli.folder / "steps.py").write_text(STEPS)
    (cli.folder / "finish").unlink(missing_ok=True)
    job = cli.submit(f"name: steps\nrun: exec {sys.executable} steps.py\nanycard: {{resumable: true}}\n")
    until(lambda: b"from 0 attempt 1" in cli.log(job) if cli.json("job", str(job))["items"][0]["attempts"] else False)
    assert cli("cancel", str(job)).returncode == 0
    done = cli.over(job)
    assert (done["state"], done["items"][0]["end_reason"], done["items"][0]["output"]) == (
        "cancelled",
        "cancelled",
        None,
    )
    saved = int(cli.log(job, attempt=1).split(b"saved ")[1])
    assert saved >= 1
    (cli.folder / "finish").touch()
    assert cli("retry", str(job), "--failed").returncode == 0
    done = cli.over(job)
    assert (done["state"], done["items"][0]["attempts"]) == ("succeeded", 2)
    assert cli.log(job, attempt=2).startswith(b"from %d attempt 2" % saved)
    assert (Path(done["items"][0]["output"]) / "step").read_text() == str(saved + 1)


def test_what_failed_attempts_wrote_is_never_an_output(cli):
    done = cli.ran(
        "run: |\n  echo $ANYCARD_ATTEMPT >$ANYCARD_OUTPUT_DIR/attempt.$ANYCARD_ATTEMPT\n  echo x >>$ANYCARD_CHECKPOINT_DIR/tries\n"
        "  [ $ANYCARD_ATTEMPT = 3 ] || exit 1\n  cp $ANYCARD_CHECKPOINT_DIR/tries $ANYCARD_OUTPUT_DIR/\n"
        "anycard: {foreach: {count: 2}, retry: {times: 2}}\n"
    )
    assert done["state"] == "succeeded"
    for item in done["items"]:
        output = Path(item["output"])
        assert output == cli.home / "outputs" / str(done["id"]) / str(item["item"])
        assert sorted(path.name for path in output.iterdir()) == ["attempt.3", "tries"]
        assert (output / "tries").read_text() == "x\nx\nx\n"


def test_outputs_of_a_batch_never_collide_and_odd_ones_do_no_harm(cli):
    done = cli.ran(
        "run: |\n  cd $ANYCARD_OUTPUT_DIR\n  case $ANYCARD_ITEM in\n"
        "  0) echo same >name;;\n  1) echo other >name;;\n  2) ln -s /etc/passwd name; ln -s ../../.. up; mkfifo pipe;;\n"
        "  3) rmdir $ANYCARD_OUTPUT_DIR;;\n  4) rmdir $ANYCARD_OUTPUT_DIR; ln -s /etc $ANYCARD_OUTPUT_DIR;;\n"
        "  5) mkdir -m 0 closed;;\n  esac\nanycard: {foreach: {count: 6}}\n"
    )
    assert done["state"] == "succeeded"
    outputs = [item["output"] for item in done["items"]]
    assert (Path(outputs[0]) / "name").read_text() + (Path(outputs[1]) / "name").read_text() == "same\nother\n"
    assert Path(outputs[2], "name").is_symlink()
    assert outputs[3] is None
    assert Path("/etc/passwd").exists()
    with cli.client() as client:
        freed = client.prune(older_than_s=0)
    assert freed["failed"] == []
    assert Path("/etc/passwd").exists()


def test_a_program_that_removes_its_own_folder_is_still_recorded(cli):
    done = cli.ran('run: |\n  rm -rf "$(dirname "$ANYCARD_OUTPUT_DIR")"\n  exit 4\n')
    assert (done["state"], done["items"][0]["exit_code"]) == ("failed", 4)
    assert cli("job", str(done["id"])).returncode == 0
    assert cli("logs", str(done["id"])).returncode in (0, 3)
