"""What the options of the optimizer do, against formulas in NumPy."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np
import pytest

from {{ package_name }}.config import Config
from {{ package_name }}.errors import UserError
from {{ package_name }}.optimizer import (
    build_optimizer,
    build_schedule,
)

WEIGHT, GRADIENTS = np.array([3.0, -4.0]), [np.array([1.5, 2.0]), np.array([-0.5, 1.0])]


def apply(config: Config, gradients: Sequence[np.ndarray]) -> tuple[keras.Variable, Any, list[Any]]:
    """A weight after its gradients, the optimizer, and the optimizer's variables."""
    weight = keras.Variable(WEIGHT, dtype="float32")
    optimizer = build_optimizer(config, build_schedule(config, total_steps=1000))
    optimizer.build([weight])
    trainable_variables = [weight.value]
    optimizer_variables = [variable.value for variable in optimizer.variables]
    for gradient in gradients:
        trainable_variables, optimizer_variables = optimizer.stateless_apply(
            optimizer_variables, [jnp.asarray(gradient, "float32")], trainable_variables
        )
    return trainable_variables[0], optimizer, optimizer_variables


def sgd(**fields: Any) -> Config:
    plain: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "schedule": "constant"}
    return Config(learning_rate=0.1, **plain | fields)


def average(weights: list[np.ndarray], momentum: float) -> np.ndarray:
    result = weights[0]
    for weight in weights[1:]:
        result = momentum * result + (1 - momentum) * weight
    return result


FIRST, SECOND = GRADIENTS


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (sgd(), WEIGHT - 0.1 * (FIRST + SECOND)),
        (sgd(momentum=0.5), WEIGHT - 0.1 * (FIRST + 0.5 * FIRST + SECOND)),
        (
            sgd(weight_decay=0.5),
            (WEIGHT * (1 - 0.05) - 0.1 * FIRST) * (1 - 0.05) - 0.1 * SECOND,
        ),
        (sgd(global_clipnorm=1.25), WEIGHT - 0.1 * (FIRST / 2 + SECOND)),  # of norm 2.5 and 1.1
        (sgd(gradient_accumulation_steps=2), WEIGHT - 0.1 * (FIRST + SECOND) / 2),
        (sgd(gradient_accumulation_steps=3), WEIGHT),
        (sgd(warmup_steps=4), WEIGHT - 0.1 * SECOND / 4),  # the first at a rate of zero
        (sgd(dtype="float16"), WEIGHT - 0.1 * (FIRST + SECOND) / 2**15),  # the first loss scale
        (
            Config(optimizer="lion", learning_rate=0.1, schedule="constant"),
            WEIGHT - 0.1 * np.sign(FIRST) - 0.1 * np.sign(0.9 * 0.01 * FIRST + 0.1 * SECOND),
        ),
    ],
    ids=str,
)
def test_an_option_acts(config: Config, expected: np.ndarray) -> None:
    weight, *_ = apply(config, GRADIENTS)
    np.testing.assert_allclose(weight, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam(name: Any) -> None:
    """D. P. Kingma and J. Ba, Adam, 2015; and I. Loshchilov and F. Hutter, Decoupled Weight Decay
    Regularization, 2019."""
    decay = 0.01 if name == "adamw" else 0.0
    config = Config(optimizer=name, learning_rate=0.1, schedule="constant", weight_decay=decay)
    weight, mean, square = WEIGHT, np.zeros(2), np.zeros(2)
    for step, gradient in enumerate(GRADIENTS, start=1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        weight = weight * (1 - 0.1 * decay)
        update = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-7)
        weight = weight - 0.1 * update
    result, *_ = apply(config, GRADIENTS)
    np.testing.assert_allclose(result, weight, rtol=1e-4)


def test_the_average_follows_the_weights() -> None:
    _, optimizer, optimizer_variables = apply(sgd(ema_momentum=0.75), GRADIENTS)
    weights = [WEIGHT - 0.1 * FIRST, WEIGHT - 0.1 * (FIRST + SECOND)]
    names = [variable.name for variable in optimizer.variables]
    (kept,) = [
        value
        for name, value in zip(names, optimizer_variables, strict=True)
        if name.endswith("average")
    ]
    np.testing.assert_allclose(kept, average(weights, 0.75), rtol=1e-6)


def cosine(update: int, updates: int) -> float:
    return float(0.1 * (1 + np.cos(np.pi * update / updates)) / 2)


@pytest.mark.parametrize(
    ("fields", "rate"),
    [
        ({"schedule": "constant"}, lambda step: 0.1),
        ({"schedule": "cosine"}, lambda step: cosine(step, 60)),
        (
            {"schedule": "constant", "warmup_steps": 10},
            lambda step: 0.1 * min(step / 10, 1),
        ),
        (
            {"schedule": "cosine", "warmup_steps": 10},
            lambda step: 0.1 * step / 10 if step < 10 else cosine(step - 10, 50),
        ),
        (
            {"schedule": "cosine", "gradient_accumulation_steps": 7},
            lambda update: cosine(update, 8),
        ),
    ],
    ids=str,
)
def test_the_schedule(fields: dict[str, Any], rate: Callable[[int], float]) -> None:
    """It counts updates, of which there are fewer than batches where these are accumulated."""
    schedule = build_schedule(sgd(**fields), total_steps=60)
    for update in (0, 1, 6, 7, 8, 10, 11, 30, 55):
        if update <= 8 or "gradient_accumulation_steps" not in fields:
            assert float(schedule(update)) == pytest.approx(rate(update), rel=1e-5, abs=1e-8)


def test_the_optimizer_follows_the_schedule_of_updates() -> None:
    """Two batches make an update, at the rate of its number."""
    config = sgd(gradient_accumulation_steps=2, schedule="cosine")
    weight, *_ = apply(config, [FIRST, FIRST, SECOND, SECOND])
    expected = WEIGHT - cosine(0, 500) * FIRST - cosine(1, 500) * SECOND
    np.testing.assert_allclose(weight, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"warmup_steps": 60}, "--warmup-steps 60 leaves none of the 60 updates"),
        ({"warmup_steps": 8, "gradient_accumulation_steps": 7}, "none of the 8 updates"),
        ({"gradient_accumulation_steps": 61}, "61 is more than the 60 steps of the run"),
    ],
)
def test_a_run_without_updates_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_schedule(sgd(**fields), total_steps=60)
