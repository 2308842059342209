"""Time how the step of a dense network grows with batch size, width and depth."""

import argparse
import dataclasses

from benchmarks import machine, report
from benchmarks.__main__ import add_common_flags, add_epochs_flag, as_json, draw, finish
from benchmarks.measure import measure
from benchmarks.workloads import Workload

CONTENDERS = ("jax_optax", "scratch", "fit", "keras_fit")
FACTORS = {
    "batch size": (1, 8, 64, 512, 4096),
    "width": (16, 64, 256, 1024),
    "depth": (1, 4, 16, 64),
}
BASE = {"batch size": 64, "width": 64, "depth": 2}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    add_epochs_flag(parser)
    add_common_flags(parser, rounds=3)
    arguments = parser.parse_args()
    output, epochs = arguments.output, arguments.epochs
    factors = {
        factor: {value: mlp(**sizes(factor, value)) for value in values}
        for factor, values in FACTORS.items()
    }
    chosen = list(dict.fromkeys(mlp for values in factors.values() for mlp in values.values()))

    runs = measure(chosen, CONTENDERS, arguments.rounds, epochs, output)
    described = machine.describe()
    (output / "growth.json").write_text(
        as_json(described, [dataclasses.asdict(workload) for workload in chosen], runs)
    )
    base = ", ".join(f"{factor} {value}" for factor, value in BASE.items())
    (output / "growth.md").write_text(
        report.growth_report(factors, CONTENDERS, runs, described, epochs, base), encoding="utf-8"
    )
    draw(output / "growth.png", "draw_growth", factors, CONTENDERS, runs)
    finish(runs, output, "growth.json", "growth.md")


def sizes(factor: str, value: int) -> dict[str, int]:
    return {name.replace(" ", "_"): size for name, size in (BASE | {factor: value}).items()}


def mlp(batch_size: int, width: int, depth: int) -> Workload:
    """A network of `depth` hidden layers; fewer steps an epoch where each takes long."""
    return Workload(
        f"batch{batch_size}-width{width}-depth{depth}",
        kind="mlp",
        input_shape=(64,),
        hidden=(width,) * depth,
        batch_size=batch_size,
        steps=max(64, min(4096, 2**19 // (max(batch_size, width) * depth))),
    )


if __name__ == "__main__":
    main()
