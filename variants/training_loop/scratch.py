"""Train and evaluate, by loops of our own over the jitted steps."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import keras

from . import data, run_directory, steps
from .config import Config
# {% if metrics %}
from .metrics import build_metrics
# {% endif %}
from .model import build_model
from .optimizer import build_optimizer, build_schedule
from .reporting import Report


def train(config: Config, run_dir: Path | None = None) -> Path:
    """Train a model as `config` says, and return the directory of the run."""
    dataset = data.load_dataset(config)
    steps_per_epoch = data.steps_per_epoch(dataset.train, config.batch_size)
    keras.utils.set_random_seed(config.seed)
    model = build_model(config, dataset)
    schedule = build_schedule(config, config.epochs * steps_per_epoch)
    optimizer = build_optimizer(schedule)
    optimizer.build(model.trainable_variables)
    metrics = [keras.metrics.Mean(name="loss"){{ ", *build_metrics()" if metrics }}]
    run_dir = run_directory.create(run_dir, config)

    train_step = jax.jit(
        partial(steps.train_step, model=model, optimizer=optimizer, metrics=metrics),
        donate_argnums=0,
    )
    test_step = jax.jit(partial(steps.test_step, model=model, metrics=metrics))

    # A donated state is gone after its step: begin with copies, and the model keeps its own.
    state = steps.TrainState(
        [jnp.copy(variable.value) for variable in model.trainable_variables],
        [jnp.copy(variable.value) for variable in model.non_trainable_variables],
        [jnp.copy(variable.value) for variable in optimizer.variables],
        steps.initial_metrics(metrics),
    )
    with Report(run_dir, config, schedule, steps_per_epoch) as report:
        for epoch in range(config.epochs):
            state = state._replace(metrics_variables=steps.initial_metrics(metrics))
            for batch in data.training_batches(
                dataset.train, config.batch_size, config.seed, epoch
            ):
                state = train_step(state, batch)
                report.step()
            results = to_floats(steps.compute_results(metrics, state.metrics_variables))
            if dataset.validation:
                validation = run_test_steps(
                    test_step,
                    metrics,
                    state.trainable_variables,
                    state.non_trainable_variables,
                    data.evaluation_batches(dataset.validation, config.batch_size),
                )
                results |= {f"val_{name}": value for name, value in validation.items()}
            report.epoch(epoch, results)

    for variable, value in zip(
        [*model.trainable_variables, *model.non_trainable_variables, *optimizer.variables],
        [*state.trainable_variables, *state.non_trainable_variables, *state.optimizer_variables],
        strict=True,
    ):
        variable.assign(value)
    run_directory.save_model(run_dir, model)
    return run_dir


def evaluate(model: keras.Model, split: data.Split, batch_size: int) -> dict[str, float]:
    """Return the loss{{ " and the metrics" if metrics }} of `model` over a split."""
    metrics = [keras.metrics.Mean(name="loss"){{ ", *build_metrics()" if metrics }}]
    return run_test_steps(
        jax.jit(partial(steps.test_step, model=model, metrics=metrics)),
        metrics,
        [variable.value for variable in model.trainable_variables],
        [variable.value for variable in model.non_trainable_variables],
        data.evaluation_batches(split, batch_size),
    )


def run_test_steps(
    test_step: Callable[[steps.EvaluationState, steps.Batch], steps.EvaluationState],
    metrics: Sequence[keras.metrics.Metric],
    trainable_variables: list[jax.Array],
    non_trainable_variables: list[jax.Array],
    batches: Iterable[steps.Batch],
) -> dict[str, float]:
    """Return the results of the metrics over the batches, from zero."""
    state = steps.EvaluationState(
        trainable_variables, non_trainable_variables, steps.initial_metrics(metrics)
    )
    for batch in batches:
        state = test_step(state, batch)
    return to_floats(steps.compute_results(metrics, state.metrics_variables))


def to_floats(results: dict[str, jax.Array]) -> dict[str, float]:
    return {name: float(value) for name, value in results.items()}
