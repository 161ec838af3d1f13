"""Trains a small network to read handwritten digits, on one CSV file: 64 pixels (0..16) and the digit a row.

Plain Python, so that the example runs on a machine with nothing installed. What it shows: input by an environment variable, outputs into
ANYCARD_OUTPUT_DIR, a checkpoint each epoch (stop it, or kill it, and the next attempt goes on), and saying when the input is at fault.

    python3 train.py data/part-1.csv    by hand; as an item of job.yaml it is told its file by ANYCARD_FILE
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

try:
    import anycard
except (
    ImportError
):  # this python3 is not the one that anycard was installed into; a checkout has it beside the examples
    sys.path.append(str(Path(__file__).resolve().parents[2] / "src"))
try:
    import anycard
    from anycard import checkpoint
except ImportError:
    print(f"train.py needs the anycard package, and {sys.executable} does not find it", file=sys.stderr)
    sys.exit(1)

PIXELS = 64
CLASSES = 10
HIDDEN = 24
EPOCHS = 30
LEARNING_RATE = 0.05
TEST_SHARE = 0.2
SEED = 1998

Row = tuple[list[float], int]
Weights = list[list[float]]


def read_rows(path: Path) -> list[Row]:
    """The file's images with pixels in 0..1. A file with any row that is not one is bad input: nothing is guessed."""
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="ascii", errors="replace").splitlines(), 1):
        fields = line.split(",")
        if len(fields) != PIXELS + 1:
            anycard.bad_input(f"{path}, row {number}: {len(fields)} numbers, {PIXELS + 1} expected")
        if not all(field.isdecimal() for field in fields):
            anycard.bad_input(f"{path}, row {number}: not a number: {next(f for f in fields if not f.isdecimal())!r}")
        *pixels, digit = map(int, fields)
        if max(pixels) > 16 or digit >= CLASSES:
            anycard.bad_input(f"{path}, row {number}: pixels are 0..16 and digits 0..9")
        rows.append(([pixel / 16 for pixel in pixels], digit))
    if len(rows) < CLASSES:
        anycard.bad_input(f"{path}: {len(rows)} rows are too few to learn from")
    return rows


def new_weights(rng: random.Random, inputs: int, outputs: int) -> Weights:
    """A row of weights for each output, its bias last."""
    spread = 1 / math.sqrt(inputs)
    return [[rng.uniform(-spread, spread) for _ in range(inputs)] + [0.0] for _ in range(outputs)]


def sums(weights: Weights, inputs: list[float]) -> list[float]:
    return [sum(map(float.__mul__, row, inputs)) + row[-1] for row in weights]


def read_digit(model: dict[str, Weights], pixels: list[float]) -> int:
    scores = sums(model["output"], [math.tanh(value) for value in sums(model["hidden"], pixels)])
    return scores.index(max(scores))


def learn(model: dict[str, Weights], pixels: list[float], digit: int) -> float:
    """One step of gradient descent on the cross-entropy of one image; its loss before the step."""
    hidden = [math.tanh(value) for value in sums(model["hidden"], pixels)]
    scores = sums(model["output"], hidden)
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    whole = sum(powers)
    errors = [power / whole - (number == digit) for number, power in enumerate(powers)]
    blame = [0.0] * len(hidden)
    for row, error in zip(model["output"], errors, strict=True):
        step = LEARNING_RATE * error
        for index, value in enumerate(hidden):
            blame[index] += error * row[index]
            row[index] -= step * value
        row[-1] -= step
    for row, value, share in zip(model["hidden"], hidden, blame, strict=True):
        step = LEARNING_RATE * share * (1 - value * value)
        row[:-1] = [weight - step * pixel for weight, pixel in zip(row, pixels, strict=False)]
        row[-1] -= step
    return math.log(whole) + highest - scores[digit]


def accuracy(model: dict[str, Weights], rows: list[Row]) -> float:
    return sum(read_digit(model, pixels) == digit for pixels, digit in rows) / len(rows)


def first_state(file: str) -> dict[str, Any]:
    rng = random.Random(SEED)
    model = {"hidden": new_weights(rng, PIXELS, HIDDEN), "output": new_weights(rng, HIDDEN, CLASSES)}
    return {"file": file, "epoch": 0, "model": model, "shuffle": rng.getstate()}


def main() -> int:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ANYCARD_FILE")
    if not given:
        print("usage: train.py FILE.csv (or set ANYCARD_FILE)", file=sys.stderr)
        return 2
    began = time.monotonic()
    path = Path(given)
    rows = read_rows(path)
    random.Random(SEED).shuffle(rows)
    held_back = round(len(rows) * TEST_SHARE)
    test, train = rows[:held_back], rows[held_back:]

    checkpoint.should_stop()  # from here on a stop is a request
    state = checkpoint.load(first_state(path.name))
    if state["file"] != path.name:  # by hand, in one folder: what another file taught is no start for this one
        state = first_state(path.name)
    if state["epoch"]:
        print(f"going on after epoch {state['epoch']} (attempt {os.environ.get('ANYCARD_ATTEMPT', '?')})", flush=True)
    model = state["model"]
    rng = random.Random()
    rng.setstate(state["shuffle"])
    loss = state.get("loss", math.inf)
    for epoch in range(state["epoch"] + 1, EPOCHS + 1):
        rng.shuffle(order := list(range(len(train))))
        loss = sum(learn(model, *train[index]) for index in order) / len(train)
        state = {"file": path.name, "epoch": epoch, "model": model, "shuffle": rng.getstate(), "loss": loss}
        checkpoint.save(state)
        checkpoint.progress(epoch, EPOCHS, f"loss {loss:.3f}")
        if epoch % 5 == 0 or epoch == 1:
            print(f"epoch {epoch:2d} of {EPOCHS}  loss {loss:.3f}  accuracy {accuracy(model, test):.0%}", flush=True)
        if checkpoint.should_stop():
            print(f"asked to stop: saved after epoch {epoch}", flush=True)
            return 143

    output = Path(os.environ.get("ANYCARD_OUTPUT_DIR") or ".")
    metrics = {
        "file": path.name,
        "train_rows": len(train),
        "test_rows": len(test),
        "epochs": EPOCHS,
        "loss": round(loss, 4),
        "accuracy": accuracy(model, test),
        "train_accuracy": accuracy(model, train),
        "attempt_s": round(time.monotonic() - began, 2),
    }
    (output / "model.json").write_text(json.dumps(model) + "\n")
    (output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    print(f"{path.name}: reads {metrics['accuracy']:.0%} of {len(test)} digits it never saw")
    return 0


if __name__ == "__main__":
    sys.exit(main())
