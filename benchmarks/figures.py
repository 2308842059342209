"""The runs as pictures."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.contenders import CONTENDERS, OURS
from benchmarks.measure import Run
from benchmarks.report import REFERENCE, microseconds, ratio, slowdown, times
from benchmarks.workloads import Workload

COLORS = {"ours": "#c8553d", "keras": "#588bae", "jax": "#444444", "other": "#aaaaaa"}
TIMES_SIGN = "\N{MULTIPLICATION SIGN}"
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 100, 1000)


def color(contender: str) -> str:
    if contender in OURS:
        return COLORS["ours"]
    return COLORS.get(contender.split("_")[0], COLORS["other"])


def draw_speed(
    chosen: Sequence[Workload], contenders: Sequence[str], runs: Sequence[Run], path: Path
) -> None:
    """A panel for each workload, with a bar for each contender from plain JAX to its own time."""
    figure, panels = plt.subplots(
        1,
        len(chosen),
        figsize=(2.4 + 3.2 * len(chosen), 1.2 + 0.3 * len(contenders)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    rows = range(len(contenders))
    for panel, workload in zip(panels[0], chosen, strict=True):
        smallest = largest = 1.0
        for row, contender in zip(rows, contenders, strict=True):
            multiple = slowdown(runs, workload.name, contender)
            if multiple is None:
                continue
            smallest, largest = min(smallest, multiple), max(largest, multiple)
            time = statistics.median(times(runs, workload.name, contender).values())
            panel.barh(row, multiple - 1, left=1, color=color(contender), height=0.7)
            label = f" {ratio(multiple)}  {microseconds(time)} µs"
            panel.text(max(multiple, 1), row, label, va="center", fontsize=8)
        panel.axvline(1, color=COLORS["jax"], linewidth=1)
        panel.set_xscale("log")
        # With room for the label of the longest bar.
        low, high = 0.9 * smallest, largest * (3 * largest) ** 0.6
        panel.set_xlim(low, high)
        panel.set_xticks([tick for tick in TICKS if low <= tick <= high])
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}{TIMES_SIGN}"))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_title(
            f"{workload.name}: {workload.kind}, batch {workload.batch_size}", fontsize=10
        )
        panel.tick_params(axis="x", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_yticks(rows, [CONTENDERS[name].title for name in contenders], fontsize=9)
    panels[0][0].invert_yaxis()
    figure.supxlabel("time of an optimizer step, as a multiple of plain JAX's (log)", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_growth(
    factors: dict[str, dict[int, Workload]],
    contenders: Sequence[str],
    runs: Sequence[Run],
    path: Path,
) -> None:
    """A panel for each factor, with a line for each contender."""
    figure, panels = plt.subplots(
        1,
        len(factors),
        figsize=(1 + 3.6 * len(factors), 3.6),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for panel, (factor, by_value) in zip(panels[0], factors.items(), strict=True):
        for contender, marker in zip(contenders, "osD^", strict=False):
            points = {
                value: statistics.median(found.values())
                for value, workload in by_value.items()
                if (found := times(runs, workload.name, contender))
            }
            panel.plot(
                points.keys(),
                points.values(),
                color=color(contender),
                linestyle="--" if contender in ("fit", REFERENCE) else "-",
                marker=marker,
                markersize=4,
                label=CONTENDERS[contender].title,
            )
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(list(by_value), list(by_value))
        panel.set_xlabel(factor)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("µs per optimizer step")
    panels[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
