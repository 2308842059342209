"""Train and evaluate, by Keras' fit and evaluate over a model that takes our steps."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
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

    trainer = Trainer(model, loss_fn, metrics, optimizer, config.unroll)
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
            trainer.take_train_steps = debugging.stop_at_nan(
                trainer.take_train_steps, checkpoints.position.step
            )
            trainer.take_test_step = jax.jit(trainer.take_test_step)  # run eagerly, Keras does not
        trainer.compile(optimizer=optimizer, auto_scale_loss=False, run_eagerly=debug_nans)
        first_epoch, first_step = divmod(checkpoints.position.step, steps_per_epoch)
        executions = data.executions_per_epoch(dataset.train, config)
        validation_batches = None
        if dataset.validation:
            validation_batches = EvaluationBatches(dataset.validation, config.batch_size)
        stop_early = StopEarly(config, report, checkpoints.position.stopping)
        save = SaveCheckpoints(checkpoints, report, stop_early)
        callbacks = [ReportCallback(report), stop_early, save]
        if first_step:
            left = data.executions_per_epoch(dataset.train, config, first_step)
            callbacks.insert(0, GoOnInEpoch(first_epoch, left, metrics))
        if getattr(optimizer, "inner_optimizer", optimizer).use_ema:
            callbacks.append(keras.callbacks.SwapEMAWeights())  # while it evaluates
        if first_epoch < config.epochs and not early_stopping.is_over(stop_early.memory, config):
            trainer.fit(
                training_batches(dataset.train, config, first_epoch, first_step),
                initial_epoch=first_epoch,
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
        else:  # all that is left is what fit does at its end
            optimizer.finalize_variable_values(model.trainable_variables)
        model_file.save_model(run_dir / "model.keras", model)
        if checkpoints.restore_best():
            model_file.save_model(run_dir / "best.keras", model)
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


def training_batches(
    split: data.Split, config: Config, first_epoch: int, first_step: int
) -> Iterator[steps.Batch]:
    """The batches from a step of an epoch to the end of all; `fit` counts out each epoch's."""
    yield from data.training_batches(split, config, first_epoch, first_step)
    for epoch in range(first_epoch + 1, config.epochs):
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

    def __init__(
        self, config: Config, report: Report, memory: early_stopping.EarlyStopping
    ) -> None:
        super().__init__()
        self.config = config
        self.report = report
        self.memory = memory

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.memory = early_stopping.update(self.memory, self.config, logs or {})
        if early_stopping.is_over(self.memory, self.config):
            self.report.print(early_stopping.reason(self.config, logs or {}))
            self.model.stop_training = True


class SaveCheckpoints(keras.callbacks.Callback):
    """Tell the checkpoints of each execution and each epoch."""

    def __init__(self, checkpoints: Checkpoints, report: Report, stop_early: StopEarly) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.report = report
        self.stop_early = stop_early

    def on_train_batch_end(self, batch: int, logs: dict[str, jax.Array] | None = None) -> None:
        # The property self.model would first move the state into the variables.
        state = steps.TrainState(**self._model._jax_state)
        self.checkpoints.execution(self.report.step, state)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        state = steps.TrainState(
            [variable.value for variable in self.model.trainable_variables],
            [variable.value for variable in self.model.non_trainable_variables],
            [variable.value for variable in self.model.optimizer.variables],
            [variable.value for variable in self.model.metrics_variables],
        )
        self.checkpoints.epoch(self.report.step, state, self.stop_early.memory)


class GoOnInEpoch(keras.callbacks.Callback):
    """Begin with what is left of an epoch, and with the metrics of what was."""

    def __init__(
        self, epoch: int, executions: int, metrics: Sequence[keras.metrics.Metric]
    ) -> None:
        super().__init__()
        self.epoch = epoch
        self.executions = executions
        variables = [variable for metric in metrics for variable in metric.variables]
        self.values = [(variable, variable.value) for variable in variables]

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if epoch == self.epoch:  # fit has reset the metrics
            for variable, value in self.values:
                variable.assign(value)

    def on_train_batch_end(self, batch: int, logs: dict[str, jax.Array] | None = None) -> None:
        self.executions -= 1
        if not self.executions:  # fit ends the epoch, and then, as told below, goes on
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if epoch == self.epoch:
            self.model.stop_training = False
