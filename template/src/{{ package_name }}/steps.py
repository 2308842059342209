"""The training algorithm, as pure functions: steps of training and of evaluation.

What changes in a step is an argument and a result. `model`, `optimizer`, `loss_fn` and `metrics`
are the Keras objects that say how to compute; a step reads none of their values and changes none.
"""

import inspect
# {% if metrics %}
import itertools
# {% endif %}
from collections.abc import {{ "Iterator, " if metrics }}Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
# {% if metrics %}
import jax.numpy as jnp
# {% endif %}
import keras
import numpy as np

from . import check_backend
from .errors import UserError

check_backend()

Array = jax.Array | np.ndarray


class Batch(NamedTuple):
    x: Any  # [B, ...] numbers, as the model takes them: an array, or a dict or tuple of arrays
    y: Any  # [B] int32, the classes, as loss_fn takes them
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


# A loss, or a dict of losses for a model with a dict of outputs.
LossFn: TypeAlias = keras.losses.Loss | dict[str, keras.losses.Loss]


def train_step(
    state: TrainState,
    batch: Batch,
    *,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    loss_fn: LossFn,
    metrics: Sequence[keras.metrics.Metric],
) -> TrainState:
    """Take one step of the optimizer on one batch."""

    def compute_scaled_loss(trainable_variables: list[jax.Array]) -> tuple[jax.Array, Any]:
        loss, updates = compute_loss_and_updates(
            trainable_variables,
            state.non_trainable_variables,
            state.metrics_variables,
            batch,
            model=model,
            loss_fn=loss_fn,
            metrics=metrics,
            training=True,
        )
        # Small gradients vanish in float16, unless the loss is scaled; stateless_apply unscales.
        with keras.StatelessScope(zip(optimizer.variables, state.optimizer_variables, strict=True)):
            return optimizer.scale_loss(loss), updates

    grad_fn = jax.value_and_grad(compute_scaled_loss, has_aux=True)
    (_, updates), gradients = grad_fn(state.trainable_variables)
    non_trainable_variables, metrics_variables = updates
    trainable_variables, optimizer_variables = optimizer.stateless_apply(
        state.optimizer_variables, gradients, state.trainable_variables
    )
    return TrainState(
        trainable_variables, non_trainable_variables, optimizer_variables, metrics_variables
    )


def train_steps(
    state: TrainState,
    batches: Batch,
    *,
    unroll: Literal["auto", "always", "never"],
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    loss_fn: LossFn,
    metrics: Sequence[keras.metrics.Metric],
) -> tuple[TrainState, dict[str, jax.Array]]:
    """Take a step on each of K batches, stacked [K, B, ...], in one call of the device.

    Returns the new state, and what the metrics have come to.
    """
    step = jax.jit(  # so that it is traced once
        partial(train_step, model=model, optimizer=optimizer, loss_fn=loss_fn, metrics=metrics)
    )
    first = jax.tree.map(lambda stack: stack[0], batches)
    if len(batches.weight) == 1:  # a scan over it would still be a loop
        state = step(state, first)
    else:
        unrolled = unroll == "always"
        if unroll == "auto" and jax.default_backend() == "cpu":
            # In a loop on a CPU, XLA computes gradients of convolutions many times slower.
            unrolled = "conv_general_dilated" in str(step.trace(state, first).jaxpr)
        state, _ = jax.lax.scan(
            lambda state, batch: (step(state, batch), None), state, batches, unroll=unrolled
        )
    return state, compute_results(metrics, state.metrics_variables)


def test_step(
    state: EvaluationState,
    batch: Batch,
    *,
    model: keras.Model,
    loss_fn: LossFn,
    metrics: Sequence[keras.metrics.Metric],
) -> EvaluationState:
    """Add one batch to the metrics; nothing else changes."""
    _, (_, metrics_variables) = compute_loss_and_updates(
        *state, batch, model=model, loss_fn=loss_fn, metrics=metrics, training=False
    )
    return state._replace(metrics_variables=metrics_variables)


def compute_loss_and_updates(
    trainable_variables: list[jax.Array],
    non_trainable_variables: list[jax.Array],
    metrics_variables: list[jax.Array],
    batch: Batch,
    *,
    model: keras.Model,
    loss_fn: LossFn,
    metrics: Sequence[keras.metrics.Metric],
    training: bool,
) -> tuple[jax.Array, tuple[list[jax.Array], list[jax.Array]]]:
    """Return the loss [], and the new non-trainable and metrics variables."""
    y_pred, non_trainable_variables, penalties = model.stateless_call(
        trainable_variables,
        non_trainable_variables,
        batch.x,
        return_losses=True,  # those of add_loss and of weight regularizers, each once
        **({"training": training} if takes_training(model) else {}),
    )
    # Here, as they leave the model, predictions still carry the mask of a masked sequence.
    data_losses = jax.tree.map(
        lambda loss, y, y_pred: loss(y, y_pred, batch.weight), loss_fn, batch.y, y_pred
    )
    loss = sum([*jax.tree.leaves(data_losses), *penalties])
    metrics_variables = update_metrics(metrics, metrics_variables, loss, batch, y_pred)
    return loss, (non_trainable_variables, metrics_variables)


def initial_metrics(metrics: Sequence[keras.metrics.Metric]) -> list[jax.Array]:
    """Return the variables of the metrics as they are before the first batch."""
    return [value for metric in metrics for value in metric.stateless_reset_state()]


def update_metrics(
    metrics: Sequence[keras.metrics.Metric],
    metrics_variables: list[jax.Array],
    loss: jax.Array,
    batch: Batch,
    y_pred: Any,
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
                variables, batch.y, y_pred, sample_weight=batch.weight
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


def takes_training(layer: keras.Layer) -> bool:
    return "training" in inspect.signature(layer.call).parameters


def build(
    batch: Batch,
    *,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    metrics: Sequence[keras.metrics.Metric],
) -> None:
    """Create all variables, those too that Keras leaves to the first batch.

    Raises a `UserError` if layers of the model would not know that they are being trained.
    """
    {{ "y_pred = " if metrics }}model(jax.tree.map(lambda x: keras.Input(batch_shape=x.shape, dtype=x.dtype), batch.x))
    if not takes_training(model) and any(
        takes_training(layer) and layer.trainable and layer.non_trainable_variables
        for layer in model._flatten_layers(include_self=False)
    ):
        raise UserError(
            f"{type(model).__name__}.call must have an argument training=False: without it, Keras "
            "does not tell layers such as Dropout and BatchNormalization that they are trained"
        )
    optimizer.build(model.trainable_variables)
# {% if metrics %}
    zeros = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), y_pred)
    for metric in metrics[1:]:
        metric.update_state(batch.y, zeros, sample_weight=batch.weight)
        metric.reset_state()
# {% endif %}
