"""What a run shows while it trains: metrics.csv, a line an epoch, a progress bar."""

import csv
import io
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import jax
import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from . import data
from .config import Config
from .errors import UserError
from .run_directory import write_text

SECONDS_BETWEEN_DRAWINGS = 0.5


class Report:
    """Writes a row of metrics.csv and prints a line for each epoch; a bar shows the steps.

    The bar is drawn in a terminal alone, and by the clock, with results that are there already.
    """

    def __init__(
        self,
        run_dir: Path,
        config: Config,
        schedule: keras.optimizers.schedules.LearningRateSchedule,
        steps_per_epoch: int,
        metrics: Sequence[keras.metrics.Metric],
        step: int,
    ) -> None:
        self.path = run_dir / "metrics.csv"
        self.epochs = config.epochs
        self.batch_size = config.batch_size
        self.schedule = jax.jit(schedule)
        self.steps_per_epoch = steps_per_epoch
        self.steps_per_stack = data.steps_per_stack(config, steps_per_epoch)
        self.names = [metric.name for metric in metrics]
        self.step = step
        self.first_step = step  # of the epoch that is reported next
        self.pending: deque[dict[str, jax.Array]] = deque()  # results that the device may yet owe
        console = Console()
        self.bar = Progress(
            TextColumn("step", table_column=Column(no_wrap=True)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            BarColumn(bar_width=16),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn(
                "{task.fields[results]}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            expand=True,
            console=console,
            auto_refresh=False,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self.rewind()
        total = self.epochs * self.steps_per_epoch
        went = f"; goes on after {self.step} of {total} steps" if self.step else ""
        self.print(
            f"{self.path.parent}: {self.epochs} epochs of {self.steps_per_epoch} steps{went}; "
            "the first takes longest, JAX compiles it"
        )
        self.bar.start()
        self.task = self.bar.add_task("train", total=total, completed=self.step, results="")
        self.began = self.drawn = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def rewind(self) -> None:
        """Drop the rows of metrics.csv that came after the step where the run goes on."""
        epochs = self.step // self.steps_per_epoch
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = text.splitlines(keepends=True)[: epochs + 1 if epochs else 0]
        found = [row["epoch"] for row in csv.DictReader(io.StringIO("".join(lines)))]
        if found != [str(epoch + 1) for epoch in range(epochs)]:
            raise UserError(f"{self.path} must have a row for each of the {epochs} epochs so far")
        write_text(self.path, "".join(lines))

    def execution(self, results: dict[str, jax.Array]) -> None:
        """As many steps as one execution takes were begun, which lead to these results.

        Waits until the device is no more than four executions behind, or else the batches that it
        has not come to would fill the memory.
        """
        left = self.steps_per_epoch - self.step % self.steps_per_epoch
        self.step += self.steps_per_stack if left >= self.steps_per_stack else 1
        self.pending.append(results)
        if len(self.pending) <= 4:
            return
        finished = self.pending.popleft()
        finished["loss"].block_until_ready()
        if self.bar.disable or time.perf_counter() - self.drawn < SECONDS_BETWEEN_DRAWINGS:
            return
        values = describe({name: float(finished[name]) for name in self.names})
        self.bar.update(self.task, completed=self.step, results=values, refresh=True)
        self.drawn = time.perf_counter()

    def epoch(self, epoch: int, results: dict[str, float], updates: int) -> None:
        """Epoch number `epoch`, counted from 0, ended with these results, after all `updates`."""
        learning_rate = float(self.schedule(max(updates - 1, 0)))  # that of the last update
        now = time.perf_counter()
        rate = (self.step - self.first_step) * self.batch_size / (now - self.began)
        self.began, self.first_step = now, self.step
        names = [*self.names, *(f"val_{name}" for name in self.names)]
        results = {name: results[name] for name in names if name in results}
        row = {
            "epoch": epoch + 1,
            "step": self.step,
            **results,
            "learning_rate": learning_rate,
            "examples_per_second": round(rate, 1),
        }
        try:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, row, lineterminator="\n")
                if epoch == 0:
                    writer.writeheader()
                writer.writerow(row)
        except OSError as error:
            raise UserError(f"cannot write to {self.path}: {error.strerror}") from error
        number = f"{epoch + 1:>{len(str(self.epochs))}}/{self.epochs}"
        self.print(f"epoch {number}  {describe(results)}  {rate:,.0f} examples/s")

    def print(self, line: str) -> None:
        self.bar.console.print(line, highlight=False, markup=False, soft_wrap=True)


def describe(results: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in results.items())
