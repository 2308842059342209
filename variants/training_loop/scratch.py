"""Train and evaluate, by loops of our own over the jitted steps."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import keras

from . import checkpoint, data, debugging, early_stopping, model_file, run_directory, steps
from .checkpoint import Checkpoints
from .config import Config
from .interruption import Interruption
from .losses import build_loss
# {% if metrics %}
from .metrics import build_metrics
# {% endif %}
from .model import build_model
from .optimizer import build_optimizer, build_schedule
from .reporting import Report


def train(
    config: Config, run_dir: Path | None = None, resume: bool = False, debug_nans: bool = False
) -> Path:
    """Train a model as `config` says, and return the directory of the run.

    With `resume`, a run that `run_dir` holds goes on from its newest checkpoint. With
    `debug_nans`, the first step that gives a NaN ends in a `UserError` that says where.
    """
    if debug_nans:
        config = debugging.take_single_steps(config)
    dataset = data.load_dataset(config)
    steps_per_epoch = data.steps_per_epoch(dataset.train, config.batch_size)
    keras.utils.set_random_seed(config.seed)
    model = build_model(config, dataset)
    schedule = build_schedule(config, config.epochs * steps_per_epoch)
    optimizer = build_optimizer(config, schedule)
    loss_fn = build_loss(config)
    metrics = [keras.metrics.Mean(name="loss"){{ ", *build_metrics()" if metrics }}]
    first_batch = data.gather(dataset.train, dataset.train.rows[: config.batch_size])
    steps.build(first_batch, model=model, optimizer=optimizer, metrics=metrics)
    if config.init_from and not checkpoint.exists(run_dir):
        model_file.initialize(model, config.init_from)
    early_stopping.check(config, metrics, dataset.validation)
    model_file.check_model(model)

    test_step = jax.jit(partial(steps.test_step, model=model, loss_fn=loss_fn, metrics=metrics))
    train_steps: debugging.TrainSteps = partial(
        steps.train_steps,
        unroll=config.unroll,
        model=model,
        optimizer=optimizer,
        loss_fn=loss_fn,
        metrics=metrics,
    )
    with (
        run_directory.opened(run_dir, config, data.describe(dataset), resume) as run_dir,
        Interruption() as interruption,
        Checkpoints(
            run_dir,
            config,
            steps_per_epoch,
            interruption,
            model=model,
            optimizer=optimizer,
            metrics=metrics,
        ) as checkpoints,
        Report(
            run_dir, config, schedule, steps_per_epoch, metrics, checkpoints.position.step
        ) as report,
    ):
        if resume:
            run_directory.go_on(run_dir, config, checkpoints.position.step)
        if debug_nans:
            train_steps = debugging.stop_at_nan(train_steps, checkpoints.position.step)
        else:
            train_steps = jax.jit(train_steps, donate_argnums=0)

        # A donated state is gone after its call: begin with copies of what the model is to keep.
        state = steps.TrainState(
            [jnp.copy(variable.value) for variable in model.trainable_variables],
            [jnp.copy(variable.value) for variable in model.non_trainable_variables],
            [variable.value for variable in optimizer.variables],
            [jnp.copy(variable.value) for metric in metrics for variable in metric.variables],
        )
        stopping = checkpoints.position.stopping
        first_epoch, first_step = divmod(checkpoints.position.step, steps_per_epoch)
        for epoch in range(first_epoch, config.epochs):
            if early_stopping.is_over(stopping, config):
                break
            if not first_step:
                state = state._replace(metrics_variables=steps.initial_metrics(metrics))
            for batches in data.training_batches(dataset.train, config, epoch, first_step):
                state, results_on_device = train_steps(state, batches)
                report.execution(results_on_device)
                checkpoints.execution(report.step, state)
            first_step = 0
            results = to_floats(results_on_device)
            if dataset.validation:
                validation = run_test_steps(
                    test_step,
                    metrics,
                    steps.EvaluationState(
                        finalize(state, model, optimizer),
                        state.non_trainable_variables,
                        steps.initial_metrics(metrics),
                    ),
                    data.evaluation_batches(dataset.validation, config.batch_size),
                )
                results |= {f"val_{name}": value for name, value in validation.items()}
            report.epoch(epoch, results, count_updates(state, optimizer))
            stopping = early_stopping.update(stopping, config, results)
            checkpoints.epoch(report.step, state, stopping)
            if early_stopping.is_over(stopping, config):
                report.print(early_stopping.reason(config, results))

        for variable, value in zip(
            [*optimizer.variables, *model.non_trainable_variables, *model.trainable_variables],
            [
                *state.optimizer_variables,
                *state.non_trainable_variables,
                *finalize(state, model, optimizer),
            ],
            strict=True,
        ):
            variable.assign(value)
        model_file.save_model(run_dir / "model.keras", model)
        if checkpoints.restore_best():
            model_file.save_model(run_dir / "best.keras", model)
    return run_dir


def finalize(
    state: steps.TrainState, model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> list[jax.Array]:
    """Return the weights to evaluate and to save: their moving average, where there is one."""
    variables = [*model.trainable_variables, *optimizer.variables]
    values = [*state.trainable_variables, *state.optimizer_variables]
    with keras.StatelessScope(zip(variables, values, strict=True)) as scope:
        optimizer.finalize_variable_values(model.trainable_variables)
    return [scope.get_current_value(variable) for variable in model.trainable_variables]


def count_updates(state: steps.TrainState, optimizer: keras.optimizers.Optimizer) -> int:
    """Return how often the weights were updated."""
    with keras.StatelessScope(zip(optimizer.variables, state.optimizer_variables, strict=True)):
        return int(optimizer.iterations)


def evaluate(config: Config, model: keras.Model, split: data.Split) -> dict[str, float]:
    """Return the loss{{ " and the metrics" if metrics }} of `model` over a split."""
    metrics = [keras.metrics.Mean(name="loss"){{ ", *build_metrics()" if metrics }}]
    return run_test_steps(
        jax.jit(partial(steps.test_step, model=model, loss_fn=build_loss(config), metrics=metrics)),
        metrics,
        steps.EvaluationState(
            [variable.value for variable in model.trainable_variables],
            [variable.value for variable in model.non_trainable_variables],
            steps.initial_metrics(metrics),
        ),
        data.evaluation_batches(split, config.batch_size),
    )


def run_test_steps(
    test_step: Callable[[steps.EvaluationState, steps.Batch], steps.EvaluationState],
    metrics: Sequence[keras.metrics.Metric],
    state: steps.EvaluationState,
    batches: Iterable[steps.Batch],
) -> dict[str, float]:
    """Return the results of the metrics over the batches."""
    for batch in batches:
        state = test_step(state, batch)
    return to_floats(steps.compute_results(metrics, state.metrics_variables))


def to_floats(results: dict[str, jax.Array]) -> dict[str, float]:
    return {name: float(value) for name, value in results.items()}
