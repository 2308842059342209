"""What a step must do and must not do: the contract of steps.py, on the project's own model.

Break it while you change a step, and a test says which part of the state went wrong.
"""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from conftest import Parts, evaluation_state, make_parts

from {{ package_name }} import (
    data,
    debugging,
    steps,
)
from {{ package_name }}.config import Config
from {{ package_name }}.errors import UserError
from {{ package_name }}.model import build_model
from {{ package_name }}.optimizer import (
    build_schedule,
)

Unroll: TypeAlias = Literal["auto", "always", "never"]


class Jitted:
    """A jitted step that counts how often JAX traces it."""

    def __init__(self, parts: Parts) -> None:
        self.traces = 0

        def train_step(state: steps.TrainState, batch: steps.Batch) -> steps.TrainState:
            self.traces += 1
            return parts.train_step(state, batch)

        self.train_step = jax.jit(train_step)

    def __call__(self, state: steps.TrainState, batch: steps.Batch) -> steps.TrainState:
        return self.train_step(state, batch)


@pytest.fixture(scope="module")
def jitted(parts: Parts) -> Jitted:
    return Jitted(parts)


@pytest.fixture(scope="module")
def stepped(parts: Parts, jitted: Jitted, batches: list[steps.Batch]) -> steps.TrainState:
    """The state after one jitted step."""
    return jitted(parts.state, batches[0])


def cut(batches: list[steps.Batch], *sizes: int) -> list[steps.Batch]:
    """The first rows of the first batches, with weights from 0.5 to 2."""
    rng = np.random.default_rng(0)
    return [
        steps.Batch(batch.x[:size], batch.y[:size], rng.uniform(0.5, 2, size).astype("float32"))
        for batch, size in zip(batches, sizes, strict=False)
    ]


def variables_of(parts: Parts) -> dict[str, list[keras.Variable]]:
    return {
        "trainable_variables": parts.model.trainable_variables,
        "non_trainable_variables": parts.model.non_trainable_variables,
        "optimizer_variables": parts.optimizer.variables,
        "metrics_variables": [v for metric in parts.metrics for v in metric.variables],
    }


def assert_pure(parts: Parts, take_steps: Callable[[], None]) -> None:
    """Whatever changes is returned; the Keras objects stay as they were."""
    variables = variables_of(parts)
    before = {kind: [np.array(v.value) for v in variables[kind]] for kind in variables}
    take_steps()
    for kind, values in before.items():
        for variable, value in zip(variables[kind], values, strict=True):
            assert not isinstance(variable.value, jax.core.Tracer), (
                f"a step assigned {variable.path} of {kind}: use the stateless methods"
            )
            np.testing.assert_array_equal(
                variable.value, value, f"a step changed {variable.path} of {kind} in place"
            )


def test_steps_are_pure_when_traced(parts: Parts, batches: list[steps.Batch]) -> None:
    def trace() -> None:
        with jax.checking_leaks():
            jax.eval_shape(parts.train_step, parts.state, batches[0])
            jax.eval_shape(parts.test_step, evaluation_state(parts), batches[0])

    assert_pure(parts, trace)


def test_steps_are_pure_when_not_jitted() -> None:
    """On a small model that has every kind of state."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2, dtype="float32"),
        ]
    )
    batch = steps.Batch(np.eye(4, 3, dtype="float32"), np.arange(4) % 2, np.ones(4, "float32"))
    parts = make_parts(model, keras.optimizers.Adam(), batch)

    def call() -> None:
        parts.train_step(parts.state, batch)
        parts.test_step(evaluation_state(parts), batch)

    assert_pure(parts, call)


def test_a_step_keeps_the_form_of_the_state(parts: Parts, stepped: steps.TrainState) -> None:
    """Arrays of the same shapes and types in the same places, or each step compiles anew."""
    assert not any(isinstance(leaf, keras.Variable) for leaf in jax.tree.leaves(stepped)), (
        "the state holds Keras variables: take their .value"
    )

    def form(state: steps.TrainState) -> Any:
        return jax.tree.map(lambda a: (a.shape, a.dtype, a.weak_type, a.sharding), state)

    assert form(stepped) == form(parts.state)


def test_a_shape_is_traced_once(parts: Parts, jitted: Jitted, batches: list[steps.Batch]) -> None:
    """Two shapes of batches, two traces; in the second epoch none, whatever the learning rate."""
    state = parts.state
    for _ in range(2):
        for batch in cut(batches, 32, 32, 7):
            state = jitted(state, batch)
        assert jitted.traces == 2, "the step is traced again for a shape it has seen"


@pytest.mark.parametrize("unroll", ["always", "never"])
def test_steps_in_one_call_are_those_of_many(
    parts: Parts, jitted: Jitted, batches: list[steps.Batch], unroll: Unroll
) -> None:
    """But for the rounding of the compiler, which may order sums otherwise."""
    state = parts.state
    for batch in batches[:3]:
        state = jitted(state, batch)
    at_once, _ = jax.jit(take_steps(parts, unroll))(parts.state, stack(batches[:3]))
    for one, other in zip(jax.tree.leaves(at_once), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_one_step_is_no_loop(
    parts: Parts, stepped: steps.TrainState, batches: list[steps.Batch]
) -> None:
    """It is the step itself, to the last bit."""
    state, _ = jax.jit(take_steps(parts, "auto"))(parts.state, stack(batches[:1]))
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(stepped), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("convolves", [False, True])
def test_convolutions_are_unrolled_on_a_cpu(batches: list[steps.Batch], convolves: bool) -> None:
    """In a loop there, their gradients take many times as long; all else is compiled once."""
    layers = [keras.layers.Conv2D(2, 3)] if convolves else []
    model = keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(10)])
    parts = make_parts(model, keras.optimizers.SGD(0.1), batches[0])
    jaxpr = jax.make_jaxpr(take_steps(parts, "auto"))(parts.state, stack(batches[:3])).jaxpr
    (scan,) = [equation for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    unrolled = convolves and jax.default_backend() == "cpu"
    assert scan.params["unroll"] == (3 if unrolled else 1)


def take_steps(parts: Parts, unroll: Unroll) -> debugging.TrainSteps:
    return functools.partial(
        steps.train_steps,
        unroll=unroll,
        model=parts.model,
        optimizer=parts.optimizer,
        loss_fn=parts.loss_fn,
        metrics=parts.metrics,
    )


def stack(batches: list[steps.Batch]) -> steps.Batch:
    return jax.tree.map(lambda *arrays: np.stack(arrays), *batches)


def test_training_moves_weights_and_optimizer(parts: Parts, stepped: steps.TrainState) -> None:
    """What else moves, and by how much, a test below compares with Keras."""
    for variable, old, new in zip(
        parts.model.trainable_variables,
        parts.state.trainable_variables,
        stepped.trainable_variables,
        strict=True,
    ):
        assert not np.array_equal(old, new), f"{variable.path} did not change: is it returned?"
    moved = [
        not np.array_equal(old, new)
        for old, new in zip(
            parts.state.optimizer_variables, stepped.optimizer_variables, strict=True
        )
    ]
    assert any(moved), "no variable of the optimizer changed: are they returned?"


def test_evaluation_moves_nothing_but_the_metrics(parts: Parts, batches: list[steps.Batch]) -> None:
    """Evaluating a model in the middle of training leaves no trace in it."""
    before = evaluation_state(parts)
    after = jax.jit(parts.test_step)(before, batches[0])
    for old, new in zip(jax.tree.leaves(before[:2]), jax.tree.leaves(after[:2]), strict=True):
        assert np.array_equal(old, new), "test_step changed the model's variables"
    assert not np.array_equal(before.metrics_variables[0], after.metrics_variables[0])


@pytest.mark.parametrize("training", [True, False])
def test_the_loss_of_an_epoch_is_the_mean_over_its_rows(
    config: Config, dataset: data.Dataset, batches: list[steps.Batch], training: bool
) -> None:
    """Batches of unequal size and rows of unequal weight count for what they are; to the loss of
    the data comes, once, what the layers add. Here Keras' own, stateful call says what is right,
    and where statistics and seeds have come to."""
    pieces = cut(batches, 32, 32) if training else cut(batches, 32, 32, 7)
    keras.utils.set_random_seed(0)
    ours = make_parts(build_model(config, dataset), keras.optimizers.SGD(0.0), pieces[0])
    keras.utils.set_random_seed(0)
    theirs = build_model(config, dataset)

    state: Any = ours.state if training else evaluation_state(ours)
    step = jax.jit(ours.train_step if training else ours.test_step)
    losses, hits, weights = [], [], []
    for batch in pieces:
        state = step(state, batch)
        logits = np.asarray(theirs(batch.x, training=training), dtype=np.float64)
        log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        data_losses = -log_probabilities[np.arange(len(batch.y)), batch.y]
        losses.append(np.average(data_losses, weights=batch.weight) + float(sum(theirs.losses)))
        hits.append(np.average(logits.argmax(axis=1) == batch.y, weights=batch.weight))
        weights.append(batch.weight.sum())
    results = steps.compute_results(ours.metrics, state.metrics_variables)
    assert float(results["loss"]) == pytest.approx(np.average(losses, weights=weights), rel=1e-5)
# {% if metrics %}
    accuracy = np.average(hits, weights=weights)
    assert float(results["accuracy"]) == pytest.approx(accuracy, rel=1e-5)
# {% endif %}
    for variable, value in zip(
        theirs.non_trainable_variables, state.non_trainable_variables, strict=True
    ):
        np.testing.assert_allclose(
            value,
            variable.value,
            rtol=1e-4,
            atol=1e-5,
            err_msg=f"{variable.path}: is it returned, and the model called with {training=}?",
        )


@pytest.mark.parametrize("training", [True, False])
def test_masked_tokens_do_not_count(training: bool) -> None:
    """Neither in the loss nor in the metrics: the fillers of a sequence are no data."""
    x = np.array([[3, 1, 0, 0], [2, 3, 1, 0]], "int32")
    batch = steps.Batch(x, x % 2, np.ones((2, 1), "float32"))
    embedding = keras.layers.Embedding(4, 2, mask_zero=True)
    model = keras.Sequential([keras.Input((4,), dtype="int32"), embedding])
    parts = make_parts(model, keras.optimizers.SGD(0.0), batch)
    state: Any = parts.state if training else evaluation_state(parts)
    state = jax.jit(parts.train_step if training else parts.test_step)(state, batch)
    results = steps.compute_results(parts.metrics, state.metrics_variables)

    table = np.asarray(embedding.embeddings.value, np.float64)
    logits, labels = table[x[x > 0]], (x % 2)[x > 0]
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    loss = -log_probabilities[np.arange(len(labels)), labels].mean()
    assert float(results["loss"]) == pytest.approx(loss, rel=1e-5), "the loss lost the mask"
# {% if metrics %}
    accuracy = np.mean(logits.argmax(axis=1) == labels)
    assert float(results["accuracy"]) == pytest.approx(accuracy), "a metric lost the mask"
# {% endif %}


@pytest.mark.parametrize("training", [True, False])
def test_regularizers_count_once_in_the_loss_and_in_the_gradient(
    parts: Parts, training: bool
) -> None:
    """Penalties on weights and on activities, given to any layer, are neither lost nor doubled."""
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(8, 4)).astype("float32"), rng.normal(size=(4, 3))
    batch = steps.Batch(x, np.arange(8) % 3, np.ones(8, "float32"))

    def loss_and_gradient(**regularizers: Any) -> tuple[jax.Array, jax.Array]:
        layer = keras.layers.Dense(3, use_bias=False, dtype="float32", **regularizers)
        model = keras.Sequential([keras.Input((4,)), layer])
        grad_fn = jax.value_and_grad(steps.compute_loss_and_updates, has_aux=True)
        (loss, _), (gradient,) = grad_fn(
            [jnp.asarray(kernel, "float32")],
            [],
            steps.initial_metrics(parts.metrics),
            batch,
            model=model,
            loss_fn=parts.loss_fn,
            metrics=parts.metrics,
            training=training,
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


def test_the_learning_rate_changes_from_step_to_step(
    config: Config, parts: Parts, jitted: Jitted, batches: list[steps.Batch]
) -> None:
    """Where the schedule has come to zero, weights stand still: no rate is compiled in."""
    if float(build_schedule(config, total_steps=1000)(1000)) != 0:
        pytest.skip("this schedule does not end at zero")
    counter = [variable.name for variable in parts.optimizer.variables].index("iteration")
    optimizer_variables = list(parts.state.optimizer_variables)
    optimizer_variables[counter] = jnp.full_like(optimizer_variables[counter], 1000)
    state = parts.state._replace(optimizer_variables=optimizer_variables)
    after = jitted(state, batches[0]).trainable_variables
    for old, new in zip(state.trainable_variables, after, strict=True):
        assert np.array_equal(old, new), "the optimizer does not follow the schedule"


@pytest.mark.parametrize("scale", [1.0, 2.0**15])
def test_a_scaled_loss_takes_the_same_step(scale: float) -> None:
    """As float16 needs it: scaled before the gradient, by the scale in the state; scaled back
    after; and reported as it is."""
    batch = steps.Batch(np.eye(4, 3, dtype="float32"), np.arange(4) % 2, np.ones(4, "float32"))

    def step(optimizer: keras.optimizers.Optimizer) -> tuple[list[jax.Array], float]:
        keras.utils.set_random_seed(0)
        layer = keras.layers.Dense(2, dtype="float32")
        parts = make_parts(keras.Sequential([keras.Input((3,)), layer]), optimizer, batch)
        optimizer_variables = [
            jnp.asarray(scale) if variable.name == "dynamic_scale" else value
            for variable, value in zip(
                optimizer.variables, parts.state.optimizer_variables, strict=True
            )
        ]
        state = parts.state._replace(optimizer_variables=optimizer_variables)
        state = jax.jit(parts.train_step)(state, batch)
        results = steps.compute_results(parts.metrics, state.metrics_variables)
        return state.trainable_variables, float(results["loss"])

    plain, plain_loss = step(keras.optimizers.SGD(0.1))
    scaled, scaled_loss = step(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)))
    assert scaled_loss == pytest.approx(plain_loss, rel=1e-6), "the loss is reported scaled"
    for old, new in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, err_msg="is optimizer.scale_loss called?")


@pytest.mark.parametrize(("name", "last"), [("SGD", 7), ("AdamW", 32)])
def test_steps_train_as_fit_does(
    config: Config, dataset: data.Dataset, batches: list[steps.Batch], name: str, last: int
) -> None:
    """Keras' own fit, on the same batches, ends with the same weights and results. AdamW hides
    errors of scale, which SGD shows."""
    batches = [*batches[:2], jax.tree.map(lambda array: array[:last], batches[2])]
    optimizer_class = getattr(keras.optimizers, name)

    keras.utils.set_random_seed(0)
    ours = make_parts(build_model(config, dataset), optimizer_class(0.01), batches[0])
    state, train_step, test_step = ours.state, jax.jit(ours.train_step), jax.jit(ours.test_step)
    for batch in batches:
        state = train_step(state, batch)
    evaluation = steps.EvaluationState(
        state.trainable_variables,
        state.non_trainable_variables,
        steps.initial_metrics(ours.metrics),
    )
    evaluation = test_step(evaluation, batches[0])

    keras.utils.set_random_seed(0)
    theirs = build_model(config, dataset)
    theirs.compile(optimizer=optimizer_class(0.01), loss=ours.loss_fn)
    x, y, weight = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    history = theirs.fit(
        x,
        y,
        sample_weight=weight,
        batch_size=config.batch_size,
        shuffle=False,
        validation_data=tuple(batches[0]),
        verbose=0,
    ).history

    for key, reached in (("loss", state), ("val_loss", evaluation)):
        loss = steps.compute_results(ours.metrics, reached.metrics_variables)["loss"]
        assert float(loss) == pytest.approx(history[key][0], rel=1e-4), key
    values = state.trainable_variables + state.non_trainable_variables
    variables = theirs.trainable_variables + theirs.non_trainable_variables
    for variable, value in zip(variables, values, strict=True):
        np.testing.assert_allclose(
            value, variable.value, rtol=1e-4, atol=1e-5, err_msg=f"{variable.path} differs"
        )


CONTINUE = """
import sys
import conftest, jax, keras, numpy as np
from {{ package_name }} import data, steps
from {{ package_name }}.config import Config
from {{ package_name }}.model import build_model
from {{ package_name }}.optimizer import (
    build_optimizer,
    build_schedule,
)

config = Config(batch_size=32, steps_per_execution=1)
dataset = data.load_dataset(config)
stacks = data.training_batches(dataset.train, config, epoch=0)
batches = [jax.tree.map(lambda stack: stack[0], batches) for batches in stacks]
optimizer = build_optimizer(config, build_schedule(config, total_steps=1000))
parts = conftest.make_parts(build_model(config, dataset), optimizer, batches[0])
with np.load("before.npz") as arrays:
    leaves = [arrays[name] for name in arrays.files]
state = jax.tree.unflatten(jax.tree.structure(parts.state), leaves)
train_step = jax.jit(parts.train_step)
for batch in batches[3:6]:
    state = train_step(state, batch)
np.savez("after.npz", *jax.tree.leaves(state))
"""


def test_the_state_is_all_there_is(
    parts: Parts, jitted: Jitted, batches: list[steps.Batch], tmp_path: Path
) -> None:
    """Three steps, and three more in a fresh process that got nothing but the state: to the last
    bit as six in one go, with dropout, BatchNorm and the optimizer's moments."""
    state = parts.state
    for batch in batches[:3]:
        state = jitted(state, batch)
    np.savez(tmp_path / "before.npz", *jax.tree.leaves(state))
    for batch in batches[3:6]:
        state = jitted(state, batch)

    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{CONTINUE}"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    with np.load(tmp_path / "after.npz") as arrays:
        for name, expected in zip(arrays.files, jax.tree.leaves(state), strict=True):
            assert arrays[name].tobytes() == np.asarray(expected).tobytes(), (
                "a part of what a step reads is not in the state"
            )


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = keras.layers.Dropout(0.5)

    def call(self, x: Any) -> Any:
        return self.dropout(x)


def test_a_model_that_cannot_be_told_that_it_trains_is_refused(
    parts: Parts, batches: list[steps.Batch]
) -> None:
    """Keras' fit takes it, and leaves dropout and BatchNorm out without a word."""
    with pytest.raises(UserError, match=r"Subclassed\.call must have an argument training=False"):
        steps.build(batches[0], model=Subclassed(), optimizer=parts.optimizer, metrics=[])
# {% if metrics %}


def test_metrics_have_their_variables_before_the_first_step() -> None:
    """Some make them when they see the first batch, and the state would change its form."""
    x, y = np.eye(4, 3, dtype="float32"), np.eye(2, dtype="float32")[[0, 1, 0, 1]]
    batch = steps.Batch(x, y, np.ones(4, "float32"))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    metrics = [keras.metrics.Mean(name="loss"), keras.metrics.F1Score(name="f1")]
    steps.build(batch, model=model, optimizer=keras.optimizers.SGD(), metrics=metrics)
    variables = steps.initial_metrics(metrics)
    updated = steps.update_metrics(metrics, variables, jnp.asarray(1.0), batch, y)
    assert [value.shape for value in updated] == [value.shape for value in variables]
    results = steps.compute_results(metrics, updated)
    np.testing.assert_allclose(results["f1"], [1.0, 1.0])
# {% endif %}
