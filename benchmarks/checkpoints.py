"""What checkpoints cost: how long one holds a run up, and what share of the time they take."""

import argparse
import csv
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine, projects, report
from benchmarks.__main__ import add_common_flags
from benchmarks.contenders import CONTENDERS, OURS
from benchmarks.measure import create
from benchmarks.processes import run_python
from benchmarks.workloads import Workload, write

# Trains, and prints how long each call of Checkpoints.save took.
PROGRAM = """
import time
from my_project import __main__, checkpoint

save = checkpoint.Checkpoints.save

def timed(checkpoints, state):
    checkpoints.wait()  # a save also waits for the one before it
    began = time.perf_counter()
    save(checkpoints, state)
    print("held up", time.perf_counter() - began)

if {timed}:
    checkpoint.Checkpoints.save = timed
__main__.main()
"""


class Case(NamedTuple):
    title: str
    workload: Workload | None  # or the project as it is rendered, on the digits
    epochs: int


CASES = [
    Case("digits, 29 thousand weights, 40 steps an epoch", None, 20),
    Case(
        "dense, 1 million weights, 1,000 steps an epoch",
        Workload("million", "mlp", (784,), (800, 400), 32, 1000),
        6,
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoints", description=__doc__)
    add_common_flags(parser, rounds=3)
    arguments = parser.parse_args()
    output = arguments.output
    create(output)
    projects.render(output / "as_rendered", model=None)
    projects.render(output / "projects")
    rows = []
    for case in CASES:
        for training_loop in OURS:
            rows.append(measure(case, training_loop, output, arguments.rounds))
            print(*rows[-1], sep="  ", flush=True)
    heads = ["", "", "an epoch without, ms", "with, ms", "share", "a save holds up, ms", "its step"]
    text = (
        f"# Checkpoints\n\n{machine.conditions(machine.describe())} A checkpoint after each epoch, "
        f"which is the default. {arguments.rounds} runs without and with take turns; medians of "
        "epochs, of the ratios of runs, and of saves.\n\n"
    )
    (output / "checkpoints.md").write_text(text + report.table(heads, rows) + "\n")
    print(f"wrote {output / 'checkpoints.md'}")


def measure(case: Case, training_loop: str, output: Path, rounds: int) -> list[str]:
    """Train with and without checkpoints, by turns, and return a row of the table."""
    without, with_, shares, held = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        if case.workload:
            project = output / "projects" / training_loop
            dataset = write(case.workload, Path(folder) / "data")
            steps = case.workload.steps
        else:
            project = output / "as_rendered" / training_loop
            dataset, steps = None, 40
        for number in range(rounds):
            run_dir = Path(folder) / str(number)
            arguments = (case, project, dataset)
            plain = statistics.median(epochs(*arguments, run_dir / "without", keep=0))
            saving = statistics.median(epochs(*arguments, run_dir / "with", keep=3))
            without.append(plain)
            with_.append(saving)
            shares.append(1 - plain / saving)
            held += saves(*arguments, run_dir / "timed")
    epoch = statistics.median(without)
    hold = statistics.median(held)
    return [
        case.title,
        CONTENDERS[training_loop].title,
        f"{1e3 * epoch:,.0f}",
        f"{1e3 * statistics.median(with_):,.0f}",
        f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})",
        f"{1e3 * hold:,.0f}",
        f"{1e3 * epoch / steps:,.2f} ms",
    ]


def command(case: Case, dataset: Path | None, run_dir: Path, keep: int) -> tuple[object, ...]:
    if case.workload is None:
        return (*("train", "--run-dir", run_dir), *("--keep-checkpoints", keep))
    arguments = projects.train_arguments(case.workload, dataset, case.epochs, run_dir)
    return (*arguments[1:], "--keep-checkpoints", keep)


def epochs(
    case: Case, project: Path, dataset: Path | None, run_dir: Path, keep: int
) -> list[float]:
    """The seconds of each epoch but the first, of a run in a process of its own."""
    train(case, project, dataset, run_dir, keep, timed=False)
    with (run_dir / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    batch_size = case.workload.batch_size if case.workload else 32
    examples = (int(rows[1]["step"]) - int(rows[0]["step"])) * batch_size
    return [examples / float(row["examples_per_second"]) for row in rows[1:]]


def saves(case: Case, project: Path, dataset: Path | None, run_dir: Path) -> list[float]:
    """The seconds that each save but the first holds a run up."""
    printed = train(case, project, dataset, run_dir, keep=3, timed=True)
    lines = [line for line in printed.splitlines() if line.startswith("held up ")]
    return [float(line.rpartition(" ")[2]) for line in lines[1:]]


def train(
    case: Case, project: Path, dataset: Path | None, run_dir: Path, keep: int, timed: bool
) -> str:
    program = PROGRAM.format(timed=timed)
    arguments = command(case, dataset, run_dir, keep)
    return run_python("-c", program, *arguments, cwd=project, path=(project / "src",))


if __name__ == "__main__":
    main()
