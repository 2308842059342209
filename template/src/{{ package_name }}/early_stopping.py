"""When a run ends before its last epoch: the monitored quantity has ceased to improve."""

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
    if config.patience and config.monitor not in names:
        raise UserError(f"--monitor must be one of {', '.join(names)}, not {config.monitor}")


def update(memory: EarlyStopping, config: Config, results: dict[str, float]) -> EarlyStopping:
    """Take the results of one more epoch into account."""
    if not config.patience:
        return memory
    value, best = results[config.monitor], memory.best
    mode = config.monitor_mode
    if mode == "auto":
        mode = "min" if config.monitor.endswith("loss") else "max"
    better = value < best if mode == "min" else value > best
    if better or (math.isnan(best) and not math.isnan(value)):
        return EarlyStopping(value, 0)
    return EarlyStopping(best, memory.wait + 1)


def is_over(memory: EarlyStopping, config: Config) -> bool:
    """Whether patience has run out."""
    return 0 < config.patience <= memory.wait


def reason(config: Config) -> str:
    epochs = "an epoch" if config.patience == 1 else f"{config.patience} epochs"
    return f"stopped: {config.monitor} has not improved for {epochs}"
