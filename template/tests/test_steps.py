"""What a step must do and must not do: the contract of steps.py, on the project's own model.

Break it while you change a step, and a test says which part of the state went wrong.
"""

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from conftest import Parts, evaluation_state, make_parts

from {{ package_name }} import data, steps
from {{ package_name }}.config import Config
# {% if add_loss %}
from {{ package_name }}.layers import (
    ActivityRegularization,
)
# {% endif %}
from {{ package_name }}.model import build_model

KINDS = ("trainable_variables", "non_trainable_variables", "optimizer_variables")


@pytest.fixture(scope="module")
def stepped(parts: Parts, batches: list[steps.Batch]) -> steps.TrainState:
    """The state after one jitted step."""
    return jax.jit(parts.train_step)(parts.state, batches[0])


def variables_of(parts: Parts) -> dict[str, list[keras.Variable]]:
    return {
        "trainable_variables": parts.model.trainable_variables,
        "non_trainable_variables": parts.model.non_trainable_variables,
        "optimizer_variables": parts.optimizer.variables,
        "metrics_variables": [v for metric in parts.metrics for v in metric.variables],
    }


def test_steps_are_pure(parts: Parts, batches: list[steps.Batch]) -> None:
    """Whatever changes is returned; the Keras objects stay as they were."""
    variables = variables_of(parts)
    before = {kind: [np.array(v.value) for v in variables[kind]] for kind in variables}
    with jax.checking_leaks():
        jax.eval_shape(parts.train_step, parts.state, batches[0])
        jax.eval_shape(parts.test_step, evaluation_state(parts), batches[0])
    for kind, values in before.items():
        for variable, value in zip(variables[kind], values, strict=True):
            assert not isinstance(variable.value, jax.core.Tracer), (
                f"a step assigned {variable.path} of {kind}: use the stateless methods"
            )
            np.testing.assert_array_equal(variable.value, value, variable.path)


def test_a_step_keeps_the_form_of_the_state(parts: Parts, stepped: steps.TrainState) -> None:
    """Arrays of the same shapes and types in the same places, or each step compiles anew."""
    assert not any(isinstance(leaf, keras.Variable) for leaf in jax.tree.leaves(stepped))

    def form(state: steps.TrainState) -> Any:
        return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)

    assert form(stepped) == form(parts.state)


@pytest.mark.parametrize("kind", KINDS)
def test_training_moves_every_kind_of_state(
    parts: Parts, stepped: steps.TrainState, kind: str
) -> None:
    """Weights, BatchNorm statistics, dropout seeds, the optimizer's moments and its counter."""
    variables = variables_of(parts)[kind]
    before, after = getattr(parts.state, kind), getattr(stepped, kind)
    for variable, old, new in zip(variables, before, after, strict=True):
        assert not np.array_equal(old, new), (
            f"{variable.path} did not change: is it returned, and is the model called with "
            "training=True?"
        )


def test_evaluation_moves_nothing_but_the_metrics(parts: Parts, batches: list[steps.Batch]) -> None:
    """Evaluating a model in the middle of training leaves no trace in it."""
    before = evaluation_state(parts)
    after = jax.jit(parts.test_step)(before, batches[0])
    for old, new in zip(jax.tree.leaves(before[:2]), jax.tree.leaves(after[:2]), strict=True):
        assert np.array_equal(old, new), "test_step changed the model's variables"
    assert not np.array_equal(before.metrics_variables[0], after.metrics_variables[0])


def test_the_loss_of_an_epoch_is_the_mean_over_its_rows(
    {{ "config: Config, " if add_loss }}parts: Parts, batches: list[steps.Batch]
) -> None:
    """Batches of unequal size and rows of unequal weight count for what they are."""
    rng = np.random.default_rng(0)
    pieces = [
        steps.Batch(batch.x[:size], batch.y[:size], rng.uniform(0.5, 2, size).astype("float32"))
        for batch, size in zip(batches, (32, 32, 7), strict=False)
    ]
    state, test_step = evaluation_state(parts), jax.jit(parts.test_step)
    for piece in pieces:
        state = test_step(state, piece)
    results = steps.compute_results(parts.metrics, state.metrics_variables)

    whole = jax.tree.map(lambda *arrays: np.concatenate(arrays), *pieces)
    logits = np.asarray(parts.model(whole.x), dtype=np.float64)
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    losses = -log_probabilities[np.arange(len(whole.y)), whole.y]
    loss = np.average(losses, weights=whole.weight)
# {% if add_loss %}
    loss += np.average(
        [penalty_by_hand(config, parts, piece, training=False) for piece in pieces],
        weights=[piece.weight.sum() for piece in pieces],
    )
# {% endif %}
    assert float(results["loss"]) == pytest.approx(loss, rel=1e-5)
# {% if metrics %}
    accuracy = np.average(logits.argmax(axis=1) == whole.y, weights=whole.weight)
    assert float(results["accuracy"]) == pytest.approx(accuracy, rel=1e-5)
# {% endif %}


# {% if add_loss %}
def penalty_by_hand(config: Config, parts: Parts, batch: steps.Batch, training: bool) -> float:
    """The weight of the penalty times the mean square of what goes into the layer."""
    layers = parts.model.layers
    (layer,) = [layer for layer in layers if isinstance(layer, ActivityRegularization)]
    below = keras.Model(parts.model.input, layer.input)
    activations, _ = below.stateless_call(
        [variable.value for variable in below.trainable_variables],
        [variable.value for variable in below.non_trainable_variables],
        batch.x,
        training=training,
    )
    return config.activity_regularization * float(np.mean(np.square(activations)))


@pytest.mark.parametrize("training", [True, False])
def test_add_loss_counts_once(
    config: Config, parts: Parts, batches: list[steps.Batch], training: bool
) -> None:
    """The loss is the loss of the data, and once the penalty of the layer."""
    loss, (logits, _) = steps.compute_loss_and_updates(
        parts.state.trainable_variables,
        parts.state.non_trainable_variables,
        batches[0],
        model=parts.model,
        training=training,
    )
    penalty = float(loss - steps.data_loss(batches[0].y, logits, batches[0].weight))
    assert penalty == pytest.approx(
        penalty_by_hand(config, parts, batches[0], training), rel=1e-3, abs=1e-6
    )


# {% endif %}
@pytest.mark.parametrize("training", [True, False])
def test_regularizers_count_once_in_the_loss_and_in_the_gradient(training: bool) -> None:
    """Penalties on weights and on activities, given to any layer, are neither lost nor doubled."""
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(8, 4)).astype("float32"), rng.normal(size=(4, 3))
    batch = steps.Batch(x, np.arange(8) % 3, np.ones(8, "float32"))

    def loss_and_gradient(**regularizers: Any) -> tuple[jax.Array, jax.Array]:
        layer = keras.layers.Dense(3, use_bias=False, dtype="float32", **regularizers)
        model = keras.Sequential([keras.Input((4,)), layer])
        grad_fn = jax.value_and_grad(steps.compute_loss_and_updates, has_aux=True)
        (loss, _), (gradient,) = grad_fn(
            [jnp.asarray(kernel, "float32")], [], batch, model=model, training=training
        )
        return loss, gradient

    plain_loss, plain_gradient = loss_and_gradient()
    loss, gradient = loss_and_gradient(
        kernel_regularizer=keras.regularizers.L2(0.1),
        activity_regularizer=keras.regularizers.L2(0.01),  # Keras divides it by the batch size
    )
    penalty = 0.1 * np.square(kernel).sum() + 0.01 * np.square(x @ kernel).sum() / len(x)
    np.testing.assert_allclose(loss - plain_loss, penalty, rtol=1e-4)
    slope = 0.2 * kernel + 0.02 * x.T @ x @ kernel / len(x)
    np.testing.assert_allclose(gradient - plain_gradient, slope, rtol=1e-4, atol=1e-5)


def test_steps_train_as_fit_does(
    config: Config, dataset: data.Dataset, batches: list[steps.Batch]
) -> None:
    """Keras' own fit, on the same batches with plain SGD, ends with the same weights."""
    batches = batches[:3]

    def sgd() -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(0.1, momentum=0.9)

    keras.utils.set_random_seed(0)
    ours = make_parts(build_model(config, dataset), sgd())
    state, train_step = ours.state, jax.jit(ours.train_step)
    for batch in batches:
        state = train_step(state, batch)

    keras.utils.set_random_seed(0)
    theirs = build_model(config, dataset)
    theirs.compile(optimizer=sgd(), loss=steps.data_loss)
    x, y, weight = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    history = theirs.fit(
        x, y, sample_weight=weight, batch_size=config.batch_size, shuffle=False, verbose=0
    )

    loss = steps.compute_results(ours.metrics, state.metrics_variables)["loss"]
    assert float(loss) == pytest.approx(history.history["loss"][0], rel=1e-5)
    values = state.trainable_variables + state.non_trainable_variables
    variables = theirs.trainable_variables + theirs.non_trainable_variables
    for variable, value in zip(variables, values, strict=True):
        np.testing.assert_allclose(
            value, variable.value, rtol=1e-4, atol=1e-6, err_msg=f"{variable.path} differs"
        )
