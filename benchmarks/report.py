"""The runs in figures and in Markdown."""

import statistics
from collections.abc import Sequence

from benchmarks import machine
from benchmarks.contenders import CONTENDERS
from benchmarks.goals import GOALS
from benchmarks.measure import Run
from benchmarks.workloads import Workload

REFERENCE = "jax_optax"
NONE = "–"  # noqa: RUF001


def times(runs: Sequence[Run], workload: str, contender: str) -> dict[int, float]:
    """The microseconds per step of a contender, by round."""
    return {
        run.round: run.microseconds
        for run in runs
        if (run.workload, run.contender) == (workload, contender) and run.microseconds
    }


def advantage(runs: Sequence[Run], workload: str, contender: str, *rivals: str) -> float | None:
    """How many times faster than the fastest of its rivals; the median over common rounds."""
    own = times(runs, workload, contender)
    others = [found for rival in rivals if (found := times(runs, workload, rival))]
    ratios = [
        min(other[number] for other in others if number in other) / own[number]
        for number in own
        if any(number in other for other in others)
    ]
    return statistics.median(ratios) if ratios else None


def slowdown(runs: Sequence[Run], workload: str, contender: str) -> float | None:
    """The time of a step over that of plain JAX."""
    share = advantage(runs, workload, contender, REFERENCE)
    return None if share is None else 1 / share


def error(runs: Sequence[Run], workload: str, contender: str) -> str | None:
    errors = (run.error for run in runs if (run.workload, run.contender) == (workload, contender))
    return next(filter(None, errors), None)


def last_loss(runs: Sequence[Run], workload: str, contender: str) -> float | None:
    losses = [
        run.epochs[-1].loss
        for run in runs
        if (run.workload, run.contender) == (workload, contender) and run.epochs
    ]
    return losses[-1] if losses else None


def is_far(loss: float, reference: float | None) -> bool:
    """Whether a loss cannot be of the same training."""
    return reference is not None and not abs(loss - reference) <= max(0.1 * reference, 0.01)


# Markdown


def speed_report(
    chosen: Sequence[Workload],
    contenders: Sequence[str],
    runs: Sequence[Run],
    described: dict,
    epochs: int,
) -> str:
    parts = [
        "# Speed of training loops",
        f"{machine.conditions(described)} {repeats(runs, epochs)}",
        "The spread is that between the rounds; ratios are medians of those within each round. "
        "Losses are means over the last epoch.",
    ]
    for workload in chosen:
        parts += [f"## {workload.name}", remarks(workload)]
        parts.append(workload_table(workload, contenders, runs))
    if goals := goals_table(runs):
        parts += ["## Goals", goals]
    return "\n\n".join(parts) + "\n"


def repeats(runs: Sequence[Run], epochs: int) -> str:
    rounds = max((run.round for run in runs), default=0)
    return (
        f"Rounds: {rounds}, of one process for each contender, with one epoch to warm up and "
        f"{epochs} that count."
    )


def remarks(workload: Workload) -> str:
    description = workload.description or workload.kind
    text = f"{description[0].upper()}{description[1:]}. "
    text += f"{workload.steps:,} steps an epoch; k = {workload.steps_per_execution}, "
    text += "unrolled" if workload.unroll else "rolled"
    if workload.torch_threads:
        text += f"; threads of PyTorch: {workload.torch_threads}"
    return text + "."


def workload_table(workload: Workload, contenders: Sequence[str], runs: Sequence[Run]) -> str:
    rows = []
    for contender in contenders:
        title, found = CONTENDERS[contender].title, times(runs, workload.name, contender)
        loss = last_loss(runs, workload.name, contender)
        if not found:
            reason = error(runs, workload.name, contender) or "not run"
            rows.append([title, reason.replace("|", "\\|"), NONE, NONE, NONE])
            continue
        reference = last_loss(runs, workload.name, REFERENCE)
        rows.append(
            [
                title,
                spread(found.values()),
                ratio(slowdown(runs, workload.name, contender)),
                ratio(advantage(runs, workload.name, contender, "keras_fit")),
                f"{loss:.4f}" + (" **differs**" if is_far(loss, reference) else ""),
            ]
        )
    heads = ["", "µs/step", "× plain JAX", "× faster than Keras' fit", "last loss"]  # noqa: RUF001
    return table(heads, rows)


def goals_table(runs: Sequence[Run]) -> str | None:
    """Each goal that was run for."""
    rows = []
    for goal in GOALS:
        reached = advantage(runs, goal.workload, goal.contender, *goal.rivals)
        if reached is None:
            continue
        rivals = " or ".join(CONTENDERS[rival].title for rival in goal.rivals)
        verdict = "reached" if reached >= goal.factor else "**missed**"
        title = CONTENDERS[goal.contender].title
        rows.append([goal.workload, title, rivals, f"{goal.factor:g}", f"{reached:.2f}", verdict])
    heads = ["workload", "", "times the speed of", "goal", "measured", ""]
    return table(heads, rows) if rows else None


def growth_report(
    factors: dict[str, dict[int, Workload]],
    contenders: Sequence[str],
    runs: Sequence[Run],
    described: dict,
    epochs: int,
    base: str,
) -> str:
    """A table for each factor, which has a workload for each of its values."""
    parts = [
        "# Growth of the time of a step",
        f"{machine.conditions(described)} {repeats(runs, epochs)}",
        f"One factor at a time around {base}. Microseconds per step, with the spread between the "
        "rounds, and times plain JAX.",
    ]
    for factor, by_value in factors.items():
        rows = []
        for value, workload in by_value.items():
            row = [str(value)]
            for contender in contenders:
                found = times(runs, workload.name, contender)
                if not found:
                    row.append(error(runs, workload.name, contender) or "not run")
                    continue
                row.append(spread(found.values()))
                if contender != REFERENCE:
                    row[-1] += f", {ratio(slowdown(runs, workload.name, contender))}"
                loss = last_loss(runs, workload.name, contender)
                if is_far(loss, last_loss(runs, workload.name, REFERENCE)):
                    row[-1] += f" **loss {loss:.4f} differs**"
            rows.append(row)
        heads = [factor, *(CONTENDERS[contender].title for contender in contenders)]
        parts += [f"## {factor.capitalize()}", table(heads, rows)]
    return "\n\n".join(parts) + "\n"


def spread(values) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{microseconds(middle)} ({microseconds(low)}–{microseconds(high)})"  # noqa: RUF001


def microseconds(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def ratio(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.{2 if value < 10 else 1}f}×"  # noqa: RUF001


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
