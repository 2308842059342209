"""Time the generated projects beside Keras, plain JAX, Flax and PyTorch."""

import argparse
import dataclasses
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, report
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import NOT_INSTALLED, Run, measure
from benchmarks.workloads import WORKLOADS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--workloads",
        nargs="+",
        choices=WORKLOADS,
        default=["Z", "S", "M"],
        metavar="NAME",
        help=f"of {', '.join(WORKLOADS)}; by default Z S M",
    )
    parser.add_argument(
        "--contenders",
        nargs="+",
        choices=CONTENDERS,
        default=list(CONTENDERS),
        metavar="NAME",
        help=f"of {', '.join(CONTENDERS)}; by default all",
    )
    add_epochs_flag(parser)
    add_common_flags(parser, rounds=5)
    arguments = parser.parse_args()
    output, epochs, contenders = arguments.output, arguments.epochs, arguments.contenders
    chosen = [WORKLOADS[name] for name in arguments.workloads]

    runs = measure(chosen, contenders, arguments.rounds, epochs, output)
    described = machine.describe()
    (output / "results.json").write_text(
        as_json(described, [dataclasses.asdict(workload) for workload in chosen], runs)
    )
    (output / "speed.md").write_text(
        report.speed_report(chosen, contenders, runs, described, epochs), encoding="utf-8"
    )
    draw(output / "speed.png", "draw_speed", chosen, contenders, runs)
    finish(runs, output, "results.json", "speed.md")


def add_epochs_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--epochs",
        type=at_least_one,
        default=3,
        metavar="N",
        help="epochs of a run that count, after one to warm up; by default %(default)s",
    )


def add_common_flags(parser: argparse.ArgumentParser, rounds: int) -> None:
    parser.add_argument(
        "--rounds",
        type=at_least_one,
        default=rounds,
        metavar="N",
        help="runs of each kind; by default %(default)s",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/benchmarks"),
        metavar="DIR",
        help="by default %(default)s",
    )


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def as_json(described: dict, workloads: object, runs: Sequence[Run]) -> str:
    values = {
        "machine": described,
        "workloads": workloads,
        "runs": [
            dataclasses.asdict(run) | {"epochs": [epoch._asdict() for epoch in run.epochs]}
            for run in runs
        ],
    }
    return json.dumps(values, indent=1) + "\n"


def draw(path: Path, figure: str, *arguments: object) -> None:
    """Draw one of the figures, if there is anything to draw it with."""
    if importlib.util.find_spec("matplotlib"):
        from benchmarks import figures

        getattr(figures, figure)(*arguments, path)
        print(f"wrote {path}")
    else:
        print("no picture: matplotlib is not installed")


def finish(runs: Sequence[Run], output: Path, *names: str) -> None:
    """Say what was written and what failed; exit with 1 if anything did."""
    print("wrote " + ", ".join(str(output / name) for name in names))
    failures = [run for run in runs if run.error not in (None, NOT_INSTALLED)]
    for run in failures:
        print(f"{run.contender} failed on {run.workload}: {run.error}", file=sys.stderr)
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
