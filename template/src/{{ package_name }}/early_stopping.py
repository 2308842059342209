"""Which epoch is best by the monitored quantity, and whether the run ends as none is better."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras

from .config import Config
from .data import Split
from .errors import UserError


class EarlyStopping(NamedTuple):
    """What is remembered from epoch to epoch."""

    best: float = math.nan  # of the monitored quantity
    wait: int = 0  # epochs since


def check(
    config: Config, metrics: Sequence[keras.metrics.Metric], validation: Split | None
) -> None:
    """Raise a `UserError` if the monitored quantity is not among those that are reported."""
    names = [metric.name for metric in metrics]
    if validation:
        names += [f"val_{name}" for name in names]
    if config.monitor not in ("auto", *names):
        raise UserError(f"--monitor must be one of {', '.join(names)}, not {config.monitor}")


def update(memory: EarlyStopping, config: Config, results: dict[str, float]) -> EarlyStopping:
    """Take the results of one more epoch into account."""
    monitor, mode = monitored(config, results), config.monitor_mode
    if mode == "auto":
        mode = "min" if monitor.endswith("loss") else "max"
    value, best = results[monitor], memory.best
    better = value < best if mode == "min" else value > best
    if better or (math.isnan(best) and not math.isnan(value)):
        return EarlyStopping(value, 0)
    return EarlyStopping(best, memory.wait + 1)


def monitored(config: Config, results: dict[str, float]) -> str:
    """Which of the results is monitored."""
    if config.monitor == "auto":
        return "val_loss" if "val_loss" in results else "loss"
    return config.monitor


def is_over(memory: EarlyStopping, config: Config) -> bool:
    """Whether patience has run out."""
    return 0 < config.patience <= memory.wait


def reason(config: Config, results: dict[str, float]) -> str:
    epochs = "an epoch" if config.patience == 1 else f"{config.patience} epochs"
    return f"stopped: {monitored(config, results)} has not improved for {epochs}"
