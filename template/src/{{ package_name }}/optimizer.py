"""The learning rate over the run, and the optimizer."""

from typing import TypeAlias

import keras

from .config import Config
from .errors import UserError

Schedule: TypeAlias = keras.optimizers.schedules.LearningRateSchedule


def build_schedule(config: Config, total_steps: int) -> Schedule:
    """The learning rate of each update, counted from 0, in a run of `total_steps` batches.

    It rises from zero to its peak, then stays there or falls along a cosine to zero.
    """
    updates = total_steps // config.gradient_accumulation_steps
    if not updates:
        raise UserError(
            f"--gradient-accumulation-steps {config.gradient_accumulation_steps} is more than "
            f"the {total_steps} steps of the run"
        )
    if config.warmup_steps >= updates:
        raise UserError(
            f"--warmup-steps {config.warmup_steps} leaves none of the {updates} updates of the run"
        )
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if config.warmup_steps else config.learning_rate,
        warmup_target=config.learning_rate if config.warmup_steps else None,
        warmup_steps=config.warmup_steps,
        decay_steps=updates - config.warmup_steps,
        alpha={"cosine": 0.0, "constant": 1.0}[config.schedule],  # where the cosine ends
    )


def build_optimizer(config: Config, schedule: Schedule) -> keras.optimizers.Optimizer:
    """The optimizer that `config` names, at the learning rates of `schedule`."""
    options = {
        "global_clipnorm": config.global_clipnorm or None,
        "use_ema": config.ema_momentum > 0,
        "ema_momentum": config.ema_momentum,
        "gradient_accumulation_steps": None,
    }
    rate, decay = schedule, config.weight_decay or None
    if config.gradient_accumulation_steps > 1:
        options["gradient_accumulation_steps"] = config.gradient_accumulation_steps
        rate = PerUpdate(schedule, config.gradient_accumulation_steps)
    match config.optimizer:
        case "adam":
            optimizer = keras.optimizers.Adam(rate, weight_decay=decay, **options)
        case "adamw":
            optimizer = keras.optimizers.AdamW(rate, weight_decay=decay, **options)
        case "lion":
            optimizer = keras.optimizers.Lion(rate, weight_decay=decay, **options)
        case "sgd":
            optimizer = keras.optimizers.SGD(rate, config.momentum, weight_decay=decay, **options)
    if config.dtype == "float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


class PerUpdate(Schedule):
    """A schedule of updates, for an optimizer of Keras, which counts the batches of each."""

    def __init__(self, schedule: Schedule, batches: int) -> None:
        self.schedule = schedule
        self.batches = batches

    def __call__(self, step: int) -> float:
        return self.schedule(step // self.batches)
