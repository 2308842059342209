"""The training algorithm, as pure functions: one step of training and one of evaluation.

What changes in a step is an argument and a result. `model`, `optimizer` and `metrics` are the
Keras objects that say how to compute; a step reads none of their values and changes none.
"""

# {% if metrics %}
import itertools
# {% endif %}
from collections.abc import {{ "Iterator, " if metrics }}Sequence
from typing import NamedTuple

import jax
import keras
import numpy as np

from . import check_backend

check_backend()

Array = jax.Array | np.ndarray


class Batch(NamedTuple):
    x: Array  # [B, ...] numbers, as build_model takes them
    y: Array  # [B] int32, the classes
    weight: Array  # [B] float32, how much each row counts


class TrainState(NamedTuple):
    trainable_variables: list[jax.Array]
    non_trainable_variables: list[jax.Array]  # BatchNorm statistics, dropout seeds
    optimizer_variables: list[jax.Array]
    metrics_variables: list[jax.Array]


class EvaluationState(NamedTuple):
    trainable_variables: list[jax.Array]
    non_trainable_variables: list[jax.Array]
    metrics_variables: list[jax.Array]


data_loss = keras.losses.SparseCategoricalCrossentropy(
    from_logits=True, reduction="mean_with_sample_weight"
)


def compute_loss_and_updates(
    trainable_variables: list[jax.Array],
    non_trainable_variables: list[jax.Array],
    batch: Batch,
    *,
    model: keras.Model,
    training: bool,
) -> tuple[jax.Array, tuple[jax.Array, list[jax.Array]]]:
    """Return the loss [], and the logits [B, K] with the new non-trainable variables."""
    logits, non_trainable_variables, penalties = model.stateless_call(
        trainable_variables,
        non_trainable_variables,
        batch.x,
        training=training,
        return_losses=True,  # those of add_loss and of weight regularizers, each once
    )
    loss = data_loss(batch.y, logits, batch.weight) + sum(penalties)
    return loss, (logits, non_trainable_variables)


def train_step(
    state: TrainState,
    batch: Batch,
    *,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    metrics: Sequence[keras.metrics.Metric],
) -> TrainState:
    """Take one step of the optimizer on one batch."""
    loss_and_gradients = jax.value_and_grad(compute_loss_and_updates, has_aux=True)
    (loss, (logits, non_trainable_variables)), gradients = loss_and_gradients(
        state.trainable_variables,
        state.non_trainable_variables,
        batch,
        model=model,
        training=True,
    )
    trainable_variables, optimizer_variables = optimizer.stateless_apply(
        state.optimizer_variables, gradients, state.trainable_variables
    )
    metrics_variables = update_metrics(metrics, state.metrics_variables, loss, batch, logits)
    return TrainState(
        trainable_variables, non_trainable_variables, optimizer_variables, metrics_variables
    )


def test_step(
    state: EvaluationState,
    batch: Batch,
    *,
    model: keras.Model,
    metrics: Sequence[keras.metrics.Metric],
) -> EvaluationState:
    """Add one batch to the metrics; nothing else changes."""
    loss, (logits, _) = compute_loss_and_updates(
        state.trainable_variables,
        state.non_trainable_variables,
        batch,
        model=model,
        training=False,
    )
    metrics_variables = update_metrics(metrics, state.metrics_variables, loss, batch, logits)
    return state._replace(metrics_variables=metrics_variables)


def initial_metrics(metrics: Sequence[keras.metrics.Metric]) -> list[jax.Array]:
    """Return the variables of the metrics as they are before the first batch."""
    return [value for metric in metrics for value in metric.stateless_reset_state()]


def update_metrics(
    metrics: Sequence[keras.metrics.Metric],
    metrics_variables: list[jax.Array],
    loss: jax.Array,
    batch: Batch,
    logits: jax.Array,
) -> list[jax.Array]:
    """Add one batch to the metrics, of which the first is the mean loss."""
# {% if metrics %}
    updated: list[jax.Array] = []
    for metric, variables in zip_variables(metrics, metrics_variables):
        if metric.name == "loss":
            # Weighted, so that an epoch's loss is the mean over rows, not over batches.
            updated += metric.stateless_update_state(
                variables, loss, sample_weight=batch.weight.sum()
            )
        else:
            updated += metric.stateless_update_state(
                variables, batch.y, logits, sample_weight=batch.weight
            )
    return updated
# {% else %}
    (mean_loss,) = metrics
    # Weighted, so that an epoch's loss is the mean over rows, not over batches.
    return mean_loss.stateless_update_state(
        metrics_variables, loss, sample_weight=batch.weight.sum()
    )
# {% endif %}


def compute_results(
    metrics: Sequence[keras.metrics.Metric], metrics_variables: list[jax.Array]
) -> dict[str, jax.Array]:
    """Return what the metrics have come to, each [], by name."""
# {% if metrics %}
    return {
        metric.name: metric.stateless_result(variables)
        for metric, variables in zip_variables(metrics, metrics_variables)
    }


def zip_variables(
    metrics: Sequence[keras.metrics.Metric], metrics_variables: list[jax.Array]
) -> Iterator[tuple[keras.metrics.Metric, list[jax.Array]]]:
    """Pair each metric with its own variables."""
    remaining = iter(metrics_variables)
    for metric in metrics:
        yield metric, list(itertools.islice(remaining, len(metric.variables)))
# {% else %}
    (mean_loss,) = metrics
    return {mean_loss.name: mean_loss.stateless_result(metrics_variables)}
# {% endif %}
