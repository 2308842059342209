"""Measure the peak of the memory of a run, as the data and the weights grow; Linux only."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import machine, projects, report
from benchmarks.contenders import CONTENDERS, OURS
from benchmarks.measure import create
from benchmarks.processes import run_python
from benchmarks.workloads import Workload, initial_weights, read_data, write

MEGABYTE = 2**20
FEATURES, BATCH_SIZE = 1024, 128


class Case(NamedTuple):
    data: int  # bytes of the inputs
    units: int  # of the one hidden layer
    source: str  # a dataset of this kind


BASE = Case(2 * MEGABYTE, 16, "folder of .npy files")
CASES = [
    *(Case(n * MEGABYTE, 16, ".npz file") for n in (64, 256, 1024)),
    *(Case(n * MEGABYTE, 16, "folder of .npy files") for n in (64, 256, 1024)),
    *(Case(8 * MEGABYTE, units, "folder of .npy files") for units in (4096, 16384, 65536)),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks"), metavar="DIR")
    output = parser.parse_args().output
    create(output)
    projects.render(output / "projects")
    rows = []
    for training_loop in OURS:
        base = measure(output / "projects" / training_loop, BASE)
        for case in CASES:
            peak = measure(output / "projects" / training_loop, case)
            rows.append(describe(training_loop, case, peak, base))
            print(*rows[-1], sep="  ", flush=True)
    heads = ["", "data", "MB of data", "MB of weights", "MB above the base", "multiple"]
    text = (
        "# Peak of the memory of a run\n\n"
        f"{machine.conditions(machine.describe())} One epoch with Adam. The base is a run with "
        "next to no data and weights. The multiple is that of data + 3 weights, "
        "or, where the data are memory-mapped, of 3 weights.\n\n"
    )
    (output / "memory.md").write_text(text + report.table(heads, rows) + "\n", encoding="utf-8")
    print(f"wrote {output / 'memory.md'}")


def measure(project: Path, case: Case) -> int:
    """Train in a process of its own, and return the peak of its anonymous memory in bytes."""
    workload = case_workload(case)
    with tempfile.TemporaryDirectory() as folder:
        dataset = write(workload, Path(folder) / "data")
        if case.source == ".npz file":
            data = read_data(dataset)
            np.savez(dataset / "data.npz", x_train=data.x, y_train=data.y)
            dataset = dataset / "data.npz"
        arguments = projects.train_arguments(workload, dataset, 1, Path(folder) / "run")
        printed = run_python(
            *("-m", "benchmarks.peak_memory", *arguments), cwd=project, path=(project / "src",)
        )
    return json.loads(printed.splitlines()[-1])["anonymous"]


def case_workload(case: Case) -> Workload:
    steps = case.data // (4 * FEATURES * BATCH_SIZE)
    return Workload("memory", "mlp", (FEATURES,), (case.units,), BATCH_SIZE, steps)


def describe(training_loop: str, case: Case, peak: int, base: int) -> list[str]:
    weights = sum(array.nbytes for array in initial_weights(case_workload(case)).values())
    expected = 3 * weights + (case.data if case.source == ".npz file" else 0)
    above = peak - base
    return [
        CONTENDERS[training_loop].title,
        case.source,
        f"{case.data / MEGABYTE:.0f}",
        f"{weights / MEGABYTE:.1f}",
        f"{above / MEGABYTE:.0f}",
        report.NONE
        if case.units == BASE.units and "folder" in case.source
        else f"{above / expected:.2f}",
    ]


if __name__ == "__main__":
    main()
