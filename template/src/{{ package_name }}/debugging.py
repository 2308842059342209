"""Find out in which step, and where in it, the first NaN arises."""

import dataclasses
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

from . import steps
from .config import Config
from .errors import UserError

TrainSteps = Callable[
    [steps.TrainState, steps.Batch], tuple[steps.TrainState, dict[str, jax.Array]]
]


def take_single_steps(config: Config) -> Config:
    """Return the configuration with one step in each call, so that each can be looked at."""
    return dataclasses.replace(config, steps_per_execution=1, unroll="auto")


def stop_at_nan(train_steps: TrainSteps, first_step: int) -> TrainSteps:
    """Return the function, jitted, for single steps: a NaN ends in a `UserError` that says whence.

    A step that gives one is taken once more, from the state before it, one operation at a time.
    """
    jitted = jax.jit(train_steps)
    number = first_step

    def checked(
        state: steps.TrainState, batches: steps.Batch
    ) -> tuple[steps.TrainState, dict[str, jax.Array]]:
        nonlocal number
        number += 1
        new_state, results = jitted(state, batches)
        if has_nan(new_state):
            try:
                with jax.disable_jit(), jax.debug_nans(True):
                    train_steps(state, batches)
            except FloatingPointError as error:
                raise UserError(
                    f"the first NaN arises in step {number}, at {whence(error)}"
                ) from error
            raise UserError(
                f"the first NaN arises in step {number}, but not where its operations run singly"
            )
        return new_state, results

    return checked


def has_nan(state: steps.TrainState) -> bool:
    return any(jnp.isnan(leaf).any() for leaf in jax.tree.leaves(state))


def whence(error: FloatingPointError) -> str:
    """Where in this package the operation was called, and what JAX and Keras say of it."""
    folder = Path(__file__).parent
    frame = next(
        frame
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if folder in Path(frame.filename).parents and Path(frame.filename) != Path(__file__)
    )
    message = re.sub(r"\x1b\[\d*m", "", str(error)).split("Arguments received")[0]
    place = f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
    return f"{place}: {' '.join(message.split())}"
