"""Run contenders on workloads, in rounds, each run in a process of its own."""

import dataclasses
import importlib.util
import itertools
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import projects, workloads
from benchmarks.contenders import CONTENDERS, OURS, Epoch
from benchmarks.processes import ProcessFailed, run_python
from benchmarks.workloads import Workload

NOT_INSTALLED = "not installed"


@dataclasses.dataclass(frozen=True)
class Run:
    workload: str
    contender: str
    round: int
    epochs: tuple[Epoch, ...] = ()  # the first of them warms up and is not counted
    microseconds: float | None = None  # a step, the median of the counted epochs
    error: str | None = None


def measure(
    chosen: Sequence[Workload], contenders: Sequence[str], rounds: int, epochs: int, output: Path
) -> list[Run]:
    """Time the contenders on the workloads, print how it goes, and return the runs.

    A contender that fails on a workload does not run there again. Control-C ends it early.
    """
    create(output)
    runs: list[Run] = []
    try:
        prepare(chosen, contenders, output)
        for run in take_turns(chosen, contenders, rounds, epochs, output):
            runs.append(run)
            print(describe(run, rounds), flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {len(runs)} runs")
    return runs


def create(output: Path) -> None:
    """Make a folder that git ignores, so that rendering the work tree leaves it out as well."""
    if not output.exists():
        output.mkdir(parents=True)
        (output / ".gitignore").write_text("*\n")


def prepare(chosen: Sequence[Workload], contenders: Sequence[str], output: Path) -> None:
    """Write the data of the workloads, and render our projects."""
    for workload in chosen:
        workloads.write(workload, output / "workloads" / workload.name)
    if any(name in OURS and is_installed(name) for name in contenders):
        projects.render(output / "projects")


def take_turns(
    chosen: Sequence[Workload], contenders: Sequence[str], rounds: int, epochs: int, output: Path
) -> Iterator[Run]:
    """Each contender on each workload, again and again; every other round backwards.

    So what drifts while a round goes on, such as the clock of the CPU, favours nobody.
    """
    turns = list(itertools.product(chosen, contenders))
    failed = set()
    for number in range(1, rounds + 1):
        for workload, contender in turns if number % 2 else reversed(turns):
            if (workload.name, contender) in failed:
                continue
            run = take_turn(workload, contender, number, epochs, output)
            if run.error:
                failed.add((workload.name, contender))
            yield run


def take_turn(workload: Workload, contender: str, number: int, epochs: int, output: Path) -> Run:
    run = Run(workload.name, contender, number)
    if not is_installed(contender):
        return dataclasses.replace(run, error=NOT_INSTALLED)
    folder = output / "workloads" / workload.name
    try:
        ended = run_contender(contender, folder, epochs + 1, output / "projects")
    except ProcessFailed as error:
        log = output / f"failed-{workload.name}-{contender}.txt"
        log.write_text(error.output)
        return dataclasses.replace(run, error=str(error))
    seconds = statistics.median(epoch.seconds for epoch in ended[1:])
    return dataclasses.replace(
        run, epochs=tuple(ended), microseconds=1e6 * seconds / workload.steps
    )


def run_contender(contender: str, folder: Path, epochs: int, rendered: Path) -> list[Epoch]:
    """Train the workload in `folder` in a process of its own; `rendered` holds our projects."""
    if contender in OURS:
        return projects.train(rendered / contender, folder, epochs)
    printed = run_python("-m", "benchmarks.train_contender", contender, folder.resolve(), epochs)
    return [Epoch(*values) for values in json.loads(printed.splitlines()[-1])]


def is_installed(contender: str) -> bool:
    return all(importlib.util.find_spec(name) for name in CONTENDERS[contender].packages)


def describe(run: Run, rounds: int) -> str:
    line = f"round {run.round}/{rounds}  {run.workload:<8}  {run.contender:<16}  "
    if run.microseconds is None:
        return line + str(run.error)
    return line + f"{run.microseconds:>12,.1f} µs/step  loss {run.epochs[-1].loss:.4f}"
