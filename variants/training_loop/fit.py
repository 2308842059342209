"""Train and evaluate, by Keras' fit and evaluate over a model that takes our steps."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import keras

from . import data, debugging, early_stopping, run_directory, steps
from .config import Config
from .losses import build_loss
# {% if metrics %}
from .metrics import build_metrics
# {% endif %}
from .model import build_model
from .optimizer import build_optimizer, build_schedule
from .reporting import Report


def train(config: Config, run_dir: Path | None = None, debug_nans: bool = False) -> Path:
    """Train a model as `config` says, and return the directory of the run.

    With `debug_nans`, the first step that gives a NaN ends in a `UserError` that says where.
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
    early_stopping.check(config, metrics, dataset.validation)
    run_directory.check_model(model)
    run_dir = run_directory.create(run_dir, config)

    trainer = Trainer(model, loss_fn, metrics, optimizer, config.unroll)
    if debug_nans:
        trainer.take_train_steps = debugging.stop_at_nan(trainer.take_train_steps)
        trainer.take_test_step = jax.jit(trainer.take_test_step)  # Keras, run eagerly, does not
    trainer.compile(optimizer=optimizer, auto_scale_loss=False, run_eagerly=debug_nans)
    executions = data.executions_per_epoch(dataset.train, config)
    validation_batches = None
    if dataset.validation:
        validation_batches = EvaluationBatches(dataset.validation, config.batch_size)
    with Report(run_dir, config, schedule, steps_per_epoch, metrics) as report:
        callbacks = [ReportCallback(report), StopEarly(config, report)]
        if getattr(optimizer, "inner_optimizer", optimizer).use_ema:
            callbacks.append(keras.callbacks.SwapEMAWeights())  # while it evaluates
        trainer.fit(
            training_batches(dataset.train, config),
            epochs=config.epochs,
            steps_per_epoch=executions,
            shuffle=False,
            validation_data=validation_batches,
            callbacks=DirectCallbacks(
                callbacks,
                add_history=True,
                model=trainer,
                epochs=config.epochs,
                steps=executions,
            ),
            verbose=0,
        )
    run_directory.save_model(run_dir, model)
    return run_dir


def evaluate(config: Config, model: keras.Model, split: data.Split) -> dict[str, float]:
    """Return the loss{{ " and the metrics" if metrics }} of `model` over a split."""
    metrics = [keras.metrics.Mean(name="loss"){{ ", *build_metrics()" if metrics }}]
    trainer = Trainer(model, build_loss(config), metrics)
    trainer.compile(optimizer=None)
    batches = EvaluationBatches(split, config.batch_size)
    results = trainer.evaluate(batches, return_dict=True, verbose=0)
    return {metric.name: results[metric.name] for metric in metrics}


class Trainer(keras.Model):
    """A model whose training and test steps are ours; it shares all variables with `model`."""

    def __init__(
        self,
        model: keras.Model,
        loss_fn: steps.LossFn,
        metrics: Sequence[keras.metrics.Metric],
        optimizer: keras.optimizers.Optimizer | None = None,
        unroll: Literal["auto", "always", "never"] = "auto",
    ) -> None:
        super().__init__()
        self.model = model
        self.step_metrics = metrics
        self.take_train_steps: debugging.TrainSteps = partial(
            steps.train_steps,
            unroll=unroll,
            model=model,
            optimizer=optimizer,
            loss_fn=loss_fn,
            metrics=metrics,
        )
        self.take_test_step: Callable[[steps.EvaluationState, steps.Batch], steps.EvaluationState]
        self.take_test_step = partial(
            steps.test_step, model=model, loss_fn=loss_fn, metrics=metrics
        )
        self.built = True

    def __setattr__(self, name: str, value: Any) -> None:
        # Keras puts the state here after each step; to track its arrays takes longer than many a
        # step does.
        if name == "_jax_state":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return list(self.step_metrics)

    def call(self, inputs: Any) -> Any:
        return self.model(inputs)

    # Keras jits the steps and donates the state, a plain tuple of lists of arrays.

    def train_step(
        self, state: tuple[list[jax.Array], ...], batches: steps.Batch
    ) -> tuple[dict[str, jax.Array], tuple[list[jax.Array], ...]]:
        new_state, results = self.take_train_steps(steps.TrainState(*state), batches)
        return results, tuple(new_state)

    def test_step(
        self, state: tuple[list[jax.Array], ...], batch: steps.Batch
    ) -> tuple[dict[str, jax.Array], tuple[list[jax.Array], ...]]:
        new_state = self.take_test_step(steps.EvaluationState(*state), batch)
        return steps.compute_results(self.metrics, new_state.metrics_variables), tuple(new_state)


def training_batches(split: data.Split, config: Config) -> Iterator[steps.Batch]:
    """The batches of all epochs; `fit` counts out each epoch's."""
    for epoch in range(config.epochs):
        yield from data.training_batches(split, config, epoch)


class EvaluationBatches(keras.utils.PyDataset):
    """The batches of a split, for Keras to read as often as it evaluates."""

    def __init__(self, split: data.Split, batch_size: int) -> None:
        super().__init__()
        self.split = split
        self.batch_size = batch_size

    def __len__(self) -> int:
        return data.count_evaluation_batches(self.split, self.batch_size)

    def __getitem__(self, index: int) -> steps.Batch:
        return data.evaluation_batch(self.split, self.batch_size, index)


class DirectCallbacks(keras.callbacks.CallbackList):
    """Callbacks that see the results of a step where they are, on the device.

    Keras' own list has a thread fetch them after each step, whether or not anyone looks.
    """

    def on_train_batch_end(self, batch: int, logs: dict[str, jax.Array] | None = None) -> None:
        for callback in self.callbacks:
            callback.on_train_batch_end(batch, logs)


class ReportCallback(keras.callbacks.Callback):
    """Tell the report of each execution and each epoch."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report

    def on_train_batch_end(self, batch: int, logs: dict[str, jax.Array] | None = None) -> None:
        if logs:
            self.report.execution(logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.report.epoch(epoch, logs or {}, int(self.model.optimizer.iterations))


class StopEarly(keras.callbacks.Callback):
    """End the run when patience has run out."""

    def __init__(self, config: Config, report: Report) -> None:
        super().__init__()
        self.config = config
        self.report = report
        self.memory = early_stopping.EarlyStopping()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.memory = early_stopping.update(self.memory, self.config, logs or {})
        if early_stopping.is_over(self.memory, self.config):
            self.report.print(early_stopping.reason(self.config))
            self.model.stop_training = True
