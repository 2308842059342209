"""The learning rate over the run, and the optimizer."""

import keras

from .config import Config


def build_schedule(
    config: Config, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """A cosine from `config.learning_rate` down to zero in `total_steps` steps."""
    return keras.optimizers.schedules.CosineDecay(config.learning_rate, total_steps)


def build_optimizer(
    schedule: keras.optimizers.schedules.LearningRateSchedule,
) -> keras.optimizers.Optimizer:
    """Adam at the learning rates of `schedule`."""
    return keras.optimizers.Adam(schedule)
