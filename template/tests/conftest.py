"""What the tests take steps with: the project's own model, optimizer, metrics and data."""

import os
from typing import NamedTuple

os.environ["KERAS_BACKEND"] = "jax"  # the package sees to it too, but is imported after Keras here
# Much of the time goes into compiling the same steps: keep them, for processes and runs to come.
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.getenv(
    "JAX_COMPILATION_CACHE_DIR", os.path.abspath(".pytest_cache/jax")
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

import jax
import jax.numpy as jnp
import keras
import pytest

from {{ package_name }} import data, steps
from {{ package_name }}.config import Config
from {{ package_name }}.losses import build_loss
# {% if metrics %}
from {{ package_name }}.metrics import build_metrics
# {% endif %}
from {{ package_name }}.model import build_model
from {{ package_name }}.optimizer import (
    build_optimizer,
    build_schedule,
)

ROWS = len(data.load_splits(Config())["train"].rows)  # to train on


class Parts(NamedTuple):
    """What the steps compute with, and where they begin."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    loss_fn: steps.LossFn
    metrics: list[keras.metrics.Metric]
    state: steps.TrainState

    def train_step(self, state: steps.TrainState, batch: steps.Batch) -> steps.TrainState:
        return steps.train_step(
            state,
            batch,
            model=self.model,
            optimizer=self.optimizer,
            loss_fn=self.loss_fn,
            metrics=self.metrics,
        )

    def test_step(self, state: steps.EvaluationState, batch: steps.Batch) -> steps.EvaluationState:
        return steps.test_step(
            state, batch, model=self.model, loss_fn=self.loss_fn, metrics=self.metrics
        )


def copy_values(variables: list[keras.Variable]) -> list[jax.Array]:
    return [jnp.copy(variable.value) for variable in variables]


def make_parts(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, batch: steps.Batch
) -> Parts:
    metrics = [keras.metrics.Mean(name="loss"){{ ", *build_metrics()" if metrics }}]
    steps.build(batch, model=model, optimizer=optimizer, metrics=metrics)
    state = steps.TrainState(
        copy_values(model.trainable_variables),
        copy_values(model.non_trainable_variables),
        copy_values(optimizer.variables),
        steps.initial_metrics(metrics),
    )
    return Parts(model, optimizer, build_loss(Config()), metrics, state)


def evaluation_state(parts: Parts) -> steps.EvaluationState:
    return steps.EvaluationState(
        parts.state.trainable_variables,
        parts.state.non_trainable_variables,
        parts.state.metrics_variables,
    )


@pytest.fixture(scope="session")
def config() -> Config:
    return Config(batch_size=32, steps_per_execution=1)


@pytest.fixture(scope="session")
def dataset(config: Config) -> data.Dataset:
    return data.load_dataset(config)


@pytest.fixture(scope="session")
def batches(config: Config, dataset: data.Dataset) -> list[steps.Batch]:
    stacks = data.training_batches(dataset.train, config, epoch=0)
    return [jax.tree.map(lambda stack: stack[0], batches) for batches in stacks]


@pytest.fixture(scope="session")
def parts(config: Config, dataset: data.Dataset, batches: list[steps.Batch]) -> Parts:
    keras.utils.set_random_seed(config.seed)
    optimizer = build_optimizer(config, build_schedule(config, total_steps=1000))
    return make_parts(build_model(config, dataset), optimizer, batches[0])
