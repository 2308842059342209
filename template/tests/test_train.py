"""What a run does, from its first step to the model it saves."""

import csv
import dataclasses
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import keras
import numpy as np
import pytest
from conftest import ROWS

from {{ package_name }} import (
    data,
    model_file,
    optimizer,
    run_directory,
    steps,
    train,
)
from {{ package_name }}.config import Config
from {{ package_name }}.errors import UserError
from {{ package_name }}.model import build_model
from {{ package_name }}.reporting import Report

# Ten steps an epoch.
CONFIG = Config(
    epochs=3,
    batch_size=ROWS // 10,
    steps_per_execution=3,
    keep_checkpoints=0,
    seed=1,
)


def read_metrics(run_dir: Path) -> list[dict[str, float]]:
    """The rows of metrics.csv, without the one column that depends on the clock."""
    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    for row in rows:
        del row["examples_per_second"]
    return rows


class Run(NamedTuple):
    """A finished run, and what can be seen of it from outside."""

    run_dir: Path
    traces: dict[str, int]  # how often JAX traced each step
    executions: int
    donated: list[bool]  # after each call of a jitted step, whether the old state was gone
    orders: list[tuple[int, int]]  # the (seed, epoch) of each epoch's order
    optimizer: keras.optimizers.Optimizer


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A short run on the digits."""
    traces = {"train_step": 0, "test_step": 0}
    donated: list[bool] = []
    executions = []
    orders = []
    optimizers = []

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            traces[step.__name__] += 1  # Python runs when JAX traces, and not again
            return step(*args, **kwargs)

        return wrapper

    jit = jax.jit

    class WatchedJit:
        def __init__(self, function: Any, **options: Any) -> None:
            self.jitted = jit(function, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.jitted, name)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            result = self.jitted(*args, **kwargs)
            leaves = jax.tree.leaves(args[0])
            if isinstance(args[0], steps.TrainState) and not isinstance(leaves[0], jax.core.Tracer):
                donated.append(all(leaf.is_deleted() for leaf in leaves))
            return result

    def ordered(batches: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(split: data.Split, config: Config, epoch: int, *args: int) -> Any:
            orders.append((config.seed, epoch))
            return batches(split, config, epoch, *args)

        return wrapper

    def build_optimizer(*args: Any) -> keras.optimizers.Optimizer:
        optimizers.append(optimizer.build_optimizer(*args))
        return optimizers[-1]

    count = Report.execution

    def execution(report: Report, *args: Any) -> None:
        executions.append(report)
        count(report, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Report, "execution", execution)
        for name in traces:
            patch.setattr(steps, name, counted(getattr(steps, name)))
        patch.setattr(data, "training_batches", ordered(data.training_batches))
        patch.setattr(train, "build_optimizer", build_optimizer)
        patch.setattr(jax, "jit", WatchedJit)
        run_dir = train.train(CONFIG, tmp_path_factory.mktemp("run"))
    return Run(run_dir, traces, len(executions), donated, orders, optimizers[0])


@pytest.fixture(scope="module")
def run_dir(run: Run) -> Path:
    return run.run_dir


def test_the_loss_falls(run_dir: Path) -> None:
    losses = [row["loss"] for row in read_metrics(run_dir)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2


def test_steps_are_traced_once_a_shape(run: Run) -> None:
    """Three steps at once and a single one in training, one shape in validation."""
    assert run.traces == {"train_step": 2, "test_step": 1}


def test_an_execution_takes_several_steps(run: Run) -> None:
    """In each of the three epochs, ten steps in three calls of three, and one of one."""
    assert run.executions == 3 * (3 + 1)
    assert len(run.donated) in (0, run.executions)  # 0: Keras, which jits, does not tell


def test_the_state_is_donated(run: Run) -> None:
    """A step overwrites the state it was given; where Keras jits the steps, it sees to that."""
    assert all(run.donated), "pass donate_argnums=0 where the training step is jitted"


def test_each_epoch_has_an_order_of_its_own(run: Run) -> None:
    """That of its number, under the seed of the run."""
    assert run.orders == [(CONFIG.seed, epoch) for epoch in range(CONFIG.epochs)]


def test_the_optimizer_is_written_back(run: Run) -> None:
    """Its counter and its moments are those of the last step, as the weights are."""
    counter, *others = run.optimizer.variables
    assert int(counter.value) == 30
    assert all(np.any(variable.value) for variable in others)


def test_metrics_file(run_dir: Path) -> None:
    """A row an epoch, in the documented columns, at the step where the epoch ended."""
    rows = read_metrics(run_dir)
# {% if metrics %}
    names = ["loss", "accuracy", "val_loss", "val_accuracy"]
# {% else %}
    names = ["loss", "val_loss"]
# {% endif %}
    assert list(rows[0]) == ["epoch", "step", *names, "learning_rate"]
    assert [(row["epoch"], row["step"]) for row in rows] == [(1, 10), (2, 20), (3, 30)]
    assert rows[0]["learning_rate"] > rows[1]["learning_rate"] > rows[2]["learning_rate"] > 0


def test_config_file_repeats_the_configuration(run_dir: Path) -> None:
    assert run_directory.load_config(run_dir) == CONFIG
    versions = json.loads((run_dir / "config.json").read_text())["versions"]
    assert versions["keras"] == keras.__version__


def test_the_saved_model_is_the_trained_one(run_dir: Path) -> None:
    """Weights and BatchNorm statistics were written back before saving, and validation started
    from zero: the last row of metrics.csv is found again."""
    validation = data.load_splits(CONFIG)["validation"]
    results = train.evaluate(CONFIG, model_file.load_model(run_dir / "model.keras"), validation)
    last = read_metrics(run_dir)[-1]
    for name, value in results.items():
        assert value == pytest.approx(last[f"val_{name}"], rel=1e-5), name


def test_evaluation_does_not_depend_on_the_batch_size(run_dir: Path) -> None:
    """One batch of all rows, or many and a last one filled up: the same loss.

    If not, a loss or a metric counts rows of weight 0.
    """
    model, test = model_file.load_model(run_dir / "model.keras"), data.load_splits(CONFIG)["test"]
    whole = train.evaluate(dataclasses.replace(CONFIG, batch_size=len(test.rows)), model, test)
    assert train.evaluate(CONFIG, model, test) == pytest.approx(whole, rel=1e-5)


def test_the_saved_model_loads_elsewhere(run_dir: Path, tmp_path: Path) -> None:
    """A fresh process predicts the same from model.keras, without the code that trained it."""
    x = data.gather(*first_test_rows()).x
    np.save(tmp_path / "x.npy", x)
    program = """
import os, sys
os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy as np
# {% if add_loss %}
import {{ package_name }}.layers
# {% endif %}
model = keras.saving.load_model(sys.argv[1])
np.save("predictions.npy", model.predict(np.load("x.npy"), verbose=0))
assert not any(name.endswith((".train", ".steps")) for name in sys.modules if "keras" not in name)
"""
    subprocess.run(
        [sys.executable, "-c", program, run_dir / "model.keras"], cwd=tmp_path, check=True
    )
    here = model_file.load_model(run_dir / "model.keras").predict(x, verbose=0)
    np.testing.assert_array_equal(np.load(tmp_path / "predictions.npy"), here)


def first_test_rows() -> tuple[data.Split, np.ndarray]:
    test = data.load_splits(CONFIG)["test"]
    return test, test.rows[:50]


def test_a_run_can_be_repeated(run_dir: Path, tmp_path: Path) -> None:
    """The same configuration gives the same numbers, another seed gives others."""
    again = train.train(CONFIG, tmp_path / "again")
    assert read_metrics(again) == read_metrics(run_dir)


@pytest.mark.parametrize(("shape", "dtype"), [((9, 7, 3), "bfloat16"), ((5,), "float16")], ids=str)
def test_the_model_adapts_to_the_data(
    tmp_path: Path, shape: tuple[int, ...], dtype: Literal["bfloat16", "float16"]
) -> None:
    """Colour images of any size and plain rows of numbers train, in half precision too."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (24, *shape), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", x_train=x, y_train=np.arange(24) % 3)
    config = Config(dataset=str(tmp_path / "data.npz"), epochs=1, batch_size=8, dtype=dtype)
    run_dir = train.train(config, tmp_path / "run")
    model = model_file.load_model(run_dir / "model.keras")
    assert model.output_shape == (None, 3)
    assert dtype in {layer.compute_dtype for layer in model.layers}
    assert np.isfinite(read_metrics(run_dir)[0]["loss"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"", "cannot read"),
        ("config.json", b'{"config": {"batch_size": 2.5}}', "batch_size must be of type int"),
        ("config.json", b'{"config": {"dataset": null}}', "dataset must be of type str"),
        ("config.json", b'{"config": {"size": 1}}', "unexpected keyword argument 'size'"),
        ("config.json", b'{"config": {"batch_size": "64"}}', "batch_size must be of type int"),
        ("config.json", b'{"config": {"epochs": true}}', "epochs must be of type int, not True"),
        ("config.json", b'{"config": {"dtype": "float8"}}', "dtype must be one of float32, bfloat"),
        ("config.json", b'{"config": {"unroll": true}}', "unroll must be one of auto"),
        ("config.json", b'{"config": null}', "cannot read"),
        ("config.json", b"[]", "cannot read"),
        ("model.keras", b"", "cannot load"),
        ("model.keras", b"PK not an archive", "cannot load"),
    ],
)
def test_a_damaged_run_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    load = {"config.json": run_directory.read_config, "model.keras": model_file.load_model}
    with pytest.raises(UserError, match=message):
        load[name](tmp_path / name)


class Unregistered(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return x


class WithoutConfig(keras.layers.Layer):
    def __init__(self, layer: keras.layers.Layer) -> None:
        super().__init__()
        self.layer = layer

    def call(self, x: Any) -> Any:
        return self.layer(x)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Unregistered(), "Unregistered could not be loaded once it is saved"),
        (WithoutConfig(keras.layers.ReLU()), "the model cannot be saved"),
    ],
)
def test_a_model_that_cannot_be_saved_is_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: keras.layers.Layer, message: str
) -> None:
    """Hours of training would be lost at their end."""
    layers = [layer, keras.layers.Flatten(), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    monkeypatch.setattr(train, "build_model", lambda *_: model)
    with pytest.raises(UserError, match=message):
        train.train(CONFIG, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def replace_task(
    monkeypatch: pytest.MonkeyPatch, compute_loss: Callable[[Any, Any], Any], labels: list[int]
) -> None:
    """Let `train` take a small model, a loss per row, and a batch of equal rows for each label."""

    class Loss(keras.losses.Loss):
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return compute_loss(y_true[:, 0], y_pred[:, 0])

    def batches(*_: Any) -> Iterator[steps.Batch]:
        for label in labels:
            x, y = np.ones((1, 4, 8, 8, 1), "float32"), np.full((1, 4, 1), label, "float32")
            yield steps.Batch(x, y, np.ones((1, 4), "float32"))

    layers = [keras.layers.Flatten(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    monkeypatch.setattr(train, "build_model", lambda *_: model)
    monkeypatch.setattr(data, "training_batches", batches)
    monkeypatch.setattr(train, "build_loss", lambda _: Loss())
# {% if metrics %}
    monkeypatch.setattr(train, "build_metrics", list)
# {% endif %}


def test_the_learning_rate_is_that_of_the_last_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of the last step: it may have been skipped, as its gradients overflowed in float16."""

    def compute_loss(label: Any, prediction: Any) -> Any:
        return prediction * keras.ops.where(label > 0, 1.0, float("inf"))

    replace_task(monkeypatch, compute_loss, [0] * 5 + [1] * 6)
    config = dataclasses.replace(
        CONFIG, epochs=1, dtype="float16", validation_fraction=0, steps_per_execution=1
    )
    (row,) = read_metrics(train.train(config, tmp_path / "run"))
    scale = (1 + np.cos(np.pi * 5 / 11)) / 2
    assert row["learning_rate"] == pytest.approx(CONFIG.learning_rate * scale, rel=1e-5)


class Interrupted(Exception):
    """Raised by a test, in the middle of a run."""


def test_the_model_outlives_its_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off in the middle, and trained twice with donated states and an average of the
    weights: it can be used, and what is saved is the average."""
    optimizers = []

    def build_optimizer(*args: Any) -> keras.optimizers.Optimizer:
        optimizers.append(optimizer.build_optimizer(*args))
        return optimizers[-1]

    def interrupt(report: Report, *_: Any) -> None:
        raise Interrupted

    config = dataclasses.replace(CONFIG, epochs=1, ema_momentum=0.9)
    test = data.load_splits(config)["test"]
    model = build_model(config, data.load_dataset(config))
    monkeypatch.setattr(train, "build_model", lambda *_: model)
    monkeypatch.setattr(train, "build_optimizer", build_optimizer)
    with monkeypatch.context() as patch:
        patch.setattr(Report, "execution", interrupt)
        with pytest.raises(Interrupted):
            train.train(config, tmp_path / "interrupted")
    train.evaluate(config, model, test)
    for number in range(2):
        run_dir = train.train(config, tmp_path / str(number))
    averages = [v for v in optimizers[-1].variables if v.name.endswith("average")]
    for variable, average in zip(model.trainable_variables, averages, strict=True):
        assert np.array_equal(variable.value, average.value), "the average is not written back"
    validation = data.load_splits(config)["validation"]
    saved = train.evaluate(config, model_file.load_model(run_dir / "model.keras"), validation)
    validated = read_metrics(run_dir)[-1]["val_loss"]
    assert saved["loss"] == pytest.approx(validated, rel=1e-5), "not the average is evaluated"


def test_early_stopping_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The loss falls, so its maximum does not rise."""
    config = dataclasses.replace(CONFIG, patience=1, monitor="loss", monitor_mode="max")
    assert len(read_metrics(train.train(config, tmp_path / "run"))) == 2
    assert "stopped: loss has not improved for an epoch" in capsys.readouterr().out


def test_a_few_rows_are_learned_by_heart(tmp_path: Path) -> None:
    """Whoever cannot overfit 8 images has a fault in the step or the model."""
    config = dataclasses.replace(CONFIG, overfit=8, epochs=6, learning_rate=0.01)
    rows = read_metrics(train.train(config, tmp_path / "run"))
    assert rows[-1]["val_loss"] < 0.1


def test_a_nan_is_traced_to_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is named, and the line: here the loss, of the second batch alone."""

    def compute_loss(label: Any, prediction: Any) -> Any:
        return keras.ops.log(label) + 0 * prediction

    replace_task(monkeypatch, compute_loss, [1, -1, 1])
    message = r"arises in step 2, at steps.py:\d+ in .*nan.* encountered in log"
    with pytest.raises(UserError, match=message):
        train.train(CONFIG, tmp_path / "run", debug_nans=True)


def test_a_directory_in_use_is_refused(run_dir: Path) -> None:
    """And nothing in it changes."""
    before = {path: path.read_bytes() for path in run_dir.glob("*.*")}
    with pytest.raises(UserError, match="is in use"):
        train.train(CONFIG, run_dir)
    assert {path: path.read_bytes() for path in run_dir.glob("*.*")} == before
