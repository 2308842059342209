"""An Optax gradient transformation takes the same steps as an optimizer of Keras as by itself."""

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
import pytest
from conftest import copy_values

from {{ package_name }}.optax_optimizer import (
    OptaxOptimizer,
)

Weights = dict[str, jax.Array]


def is_kernel(params: Weights) -> dict[str, bool]:
    return {path: "kernel" in path for path in params}


def kind(params: Weights) -> dict[str, str]:
    return {path: path.rpartition("/")[2] for path in params}


RATE = optax.warmup_cosine_decay_schedule(0.0, 0.1, 3, 10)
TRANSFORMATIONS = {
    "sgd": optax.sgd(0.1, momentum=0.9),
    "adamw with a schedule": optax.adamw(RATE),
    "chain": optax.chain(optax.clip_by_global_norm(0.1), optax.lion(0.01)),
    "accumulation": optax.MultiSteps(optax.adam(0.1), 3).gradient_transformation(),
    "mask": optax.chain(optax.sgd(0.1), optax.add_decayed_weights(-0.1, mask=is_kernel)),
    "a rate for each kind": optax.multi_transform(
        {"kernel": optax.sgd(0.1), "bias": optax.adam(0.01)}, kind
    ),
    "hyperparameters in the state": optax.inject_hyperparams(optax.adam)(learning_rate=RATE),
    "random key in the state": optax.chain(optax.add_noise(0.1, 0.5, 0), optax.sgd(0.1)),
    "booleans in the state": optax.apply_if_finite(optax.sgd(0.1), 3),
    "weights in the state": optax.contrib.schedule_free_adamw(0.1),
}


def make_model() -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((3,)), *layers])


def compute_loss(trainable_variables: list[jax.Array], model: keras.Model) -> jax.Array:
    x = np.random.default_rng(0).normal(size=(16, 3))
    y_pred, _ = model.stateless_call(trainable_variables, [], x)
    return jnp.mean((y_pred - x[:, :2] ** 2) ** 2)


def train(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> list[jax.Array]:
    """The weights after eight donating steps, which are traced once."""
    traces = 0

    def train_step(state: Any) -> Any:
        nonlocal traces
        traces += 1
        trainable_variables, optimizer_variables = state
        gradients = jax.grad(compute_loss)(trainable_variables, model)
        return optimizer.stateless_apply(optimizer_variables, gradients, trainable_variables)

    optimizer.build(model.trainable_variables)
    state: Any = (copy_values(model.trainable_variables), copy_values(optimizer.variables))
    jitted = jax.jit(train_step, donate_argnums=0)
    for _ in range(8):
        state = jitted(state)
    assert traces == 1
    weights: list[jax.Array] = state[0]
    return weights


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_it_equals_plain_optax(name: str) -> None:
    model, transformation = make_model(), TRANSFORMATIONS[name]
    paths = [variable.path for variable in model.trainable_variables]
    params = dict(zip(paths, copy_values(model.trainable_variables), strict=True))
    state = transformation.init(params)

    @jax.jit
    def update(params: Weights, state: optax.OptState) -> tuple[optax.Params, optax.OptState]:
        gradients = jax.grad(lambda params: compute_loss([params[p] for p in paths], model))(params)
        updates, state = transformation.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(8):
        params, state = update(params, state)
    weights = train(model, OptaxOptimizer(transformation))
    for path, weight in zip(paths, weights, strict=True):
        np.testing.assert_allclose(weight, params[path], rtol=1e-5, atol=1e-7, err_msg=path)


def test_no_buffer_is_shared_with_the_weights() -> None:
    """A state that begins as the weights is donated along with them."""
    previous = optax.GradientTransformation(
        init=lambda params: params,
        update=lambda updates, state, params=None: (updates, params),
    )
    model, optimizer = make_model(), OptaxOptimizer(previous)
    optimizer.build(model.trainable_variables)
    variables = [*model.trainable_variables, *optimizer.variables]
    buffers = [variable.value.unsafe_buffer_pointer() for variable in variables]
    assert len(set(buffers)) == len(buffers)


def test_it_takes_the_options_of_keras() -> None:
    """Clipping, accumulation and averages act on it as they do on an optimizer of Keras."""
    options = {"global_clipnorm": 0.1, "gradient_accumulation_steps": 2, "use_ema": True}
    weights = train(make_model(), OptaxOptimizer(optax.sgd(0.1), **options))
    expected = train(make_model(), keras.optimizers.SGD(0.1, **options))
    for weight, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-6, atol=1e-7)


def test_what_optax_decides_is_refused() -> None:
    """A learning rate or a weight decay given to Keras would change nothing."""
    optimizer = OptaxOptimizer(optax.sgd(0.1))
    with pytest.raises(AttributeError, match="learning_rate"):
        optimizer.learning_rate = 1.0  # type: ignore[misc]
    for option in ("learning_rate", "weight_decay"):
        with pytest.raises(TypeError, match=option):
            OptaxOptimizer(optax.sgd(0.1), **{option: 0.1})
