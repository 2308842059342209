"""What a run shows while it trains: metrics.csv, a line an epoch, a progress bar."""

import csv
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .config import Config


class Report:
    """Writes a row of metrics.csv and prints a line for each epoch; a bar shows the steps.

    The bar is drawn by the clock, in a terminal alone, and reads nothing from the device.
    """

    def __init__(
        self,
        run_dir: Path,
        config: Config,
        schedule: keras.optimizers.schedules.LearningRateSchedule,
        steps_per_epoch: int,
    ) -> None:
        self.path = run_dir / "metrics.csv"
        self.epochs = config.epochs
        self.batch_size = config.batch_size
        self.schedule = schedule
        self.steps_per_epoch = steps_per_epoch
        console = Console()
        self.bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=2,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self.print(
            f"{self.path.parent}: {self.epochs} epochs of {self.steps_per_epoch} steps; "
            "the first step takes longest, JAX compiles it"
        )
        self.bar.start()
        self.task = self.bar.add_task("train", total=self.epochs * self.steps_per_epoch)
        self.began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def step(self) -> None:
        """One step was taken."""
        self.bar.advance(self.task)

    def epoch(self, epoch: int, results: dict[str, float], updates: int) -> None:
        """Epoch number `epoch`, counted from 0, ended with these results, after all `updates`."""
        now = time.perf_counter()
        rate = self.steps_per_epoch * self.batch_size / (now - self.began)
        self.began = now
        step = (epoch + 1) * self.steps_per_epoch
        row = {
            "epoch": epoch + 1,
            "step": step,
            **results,
            "learning_rate": float(self.schedule(max(updates - 1, 0))),  # that of the last update
            "examples_per_second": round(rate, 1),
        }
        with self.path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, row, lineterminator="\n")
            if epoch == 0:
                writer.writeheader()
            writer.writerow(row)
        number = f"{epoch + 1:>{len(str(self.epochs))}}/{self.epochs}"
        values = "  ".join(f"{name} {value:.4f}" for name, value in results.items())
        self.print(f"epoch {number}  {values}  {rate:,.0f} examples/s")

    def print(self, line: str) -> None:
        self.bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
