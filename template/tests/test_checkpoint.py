"""A run that is interrupted goes on as if nothing had happened, or says why it cannot."""

import csv
import dataclasses
import io
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import keras
import numpy as np
import pytest
from conftest import ROWS

from {{ package_name }} import (
    checkpoint,
    data,
    model_file,
    run_directory,
    train,
)
from {{ package_name }}.config import Config
from {{ package_name }}.errors import UserError
from {{ package_name }}.interruption import (
    Interrupted,
)
from {{ package_name }}.model import build_model
from {{ package_name }}.reporting import Report

# Everything that has a memory: moments, accumulated gradients, averages, a schedule, a scale of the
# loss, early stopping, and, in the project's own model, seeds and statistics. Five steps an epoch:
# two calls of two, one of one.
CONFIG = Config(
    epochs=3,
    batch_size=ROWS // 5,
    steps_per_execution=2,
    warmup_steps=2,
    gradient_accumulation_steps=2,
    ema_momentum=0.9,
    dtype="float16",
    patience=2,
    monitor="loss",
    monitor_mode="max",  # the first epoch is the best
    keep_checkpoints=1,
)
SHORT = Config(epochs=1, batch_size=ROWS // 2, steps_per_execution=1)


def read_rows(run_dir: Path) -> list[str]:
    """metrics.csv, without its last column, which depends on the clock."""
    lines = (run_dir / "metrics.csv").read_text().splitlines()
    return [line.rpartition(",")[0] for line in lines]


def read_weights(path: Path) -> list[bytes]:
    return [weight.tobytes() for weight in model_file.load_model(path).get_weights()]


def assert_alike(run_dir: Path, other: Path) -> None:
    """To the last bit, in all that depends on the steps."""
    assert read_rows(run_dir) == read_rows(other)
    for name in ("model.keras", "best.keras"):
        assert read_weights(run_dir / name) == read_weights(other / name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupts."""
    return train.train(CONFIG, tmp_path_factory.mktemp("whole") / "run")


def interrupt(
    monkeypatch: pytest.MonkeyPatch, step: int, run_dir: Path, config: Config = CONFIG
) -> Interrupted:
    """Begin a run, or go on, and send it SIGTERM while it takes `step`."""
    execution = Report.execution

    def interrupted(report: Report, results: Any) -> None:
        before = report.step
        execution(report, results)
        if before < step <= report.step:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Report, "execution", interrupted)
        with pytest.raises(Interrupted) as raised:
            train.train(config, run_dir, resume=True)
    return raised.value


@pytest.fixture(scope="module")
def interrupted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("interrupted") / "run"
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, 1, run_dir, SHORT)
    return run_dir


@pytest.fixture
def interrupted(interrupted_once: Path, tmp_path: Path) -> Path:
    """A short run with one checkpoint, of step 1."""
    return Path(shutil.copytree(interrupted_once, tmp_path / "run"))


@pytest.mark.parametrize("stops", [(1, 5), (3, 7, 14)], ids=str)
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path, stops: tuple[int, ...]
) -> None:
    """In its first call and at an epoch's end, or in the midst of three epochs."""
    for stop in stops:
        assert interrupt(monkeypatch, stop, tmp_path / "run").exit_code == 143
    assert_alike(train.train(CONFIG, tmp_path / "run", resume=True), whole)


def test_a_signal_is_obeyed_once_the_state_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = str(interrupt(monkeypatch, 3, tmp_path / "my run"))
    assert message.startswith("interrupted after 4 of 15 steps, saved: go on with python -m ")
    assert message.endswith(f"train --resume --run-dir '{tmp_path / 'my run'}'")
    assert [path.name for path in checkpoint.find(tmp_path / "my run/checkpoints")] == ["4"]


def test_the_newest_checkpoints_and_the_best_are_kept(
    whole: Path,
) -> None:
    """And best.keras is the model that the best epoch validated."""
    assert [path.name for path in checkpoint.find(whole / "checkpoints")] == ["15", "5"]
    model = model_file.load_model(whole / "best.keras")
    results = train.evaluate(CONFIG, model, data.load_splits(CONFIG)["validation"])
    first, _, last = csv.DictReader(io.StringIO((whole / "metrics.csv").read_text()))
    assert results["loss"] == pytest.approx(float(first["val_loss"]), rel=1e-5)
    assert results["loss"] != pytest.approx(float(last["val_loss"]), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"checkpoint_steps": 0}, ["5", "10", "15"]),
        ({"checkpoint_steps": 3}, ["4", "5", "7", "9", "12", "15"]),
        ({"checkpoint_steps": 1000}, ["5", "15"]),
        ({"keep_checkpoints": 0}, []),
    ],
    ids=str,
)
def test_checkpoints_are_made_when_they_are_due(
    tmp_path: Path, options: dict[str, int], kept: list[str]
) -> None:
    """At the first call that reaches a multiple, and after the best epoch and the last."""
    changes: dict[str, Any] = {"keep_checkpoints": 9} | options
    config = Config(
        epochs=3,
        batch_size=ROWS // 5,
        steps_per_execution=2,
        monitor="loss",
        monitor_mode="max",  # the first epoch is the best
        **changes,
    )
    run_dir = train.train(config, tmp_path / "run")
    assert [path.name for path in reversed(checkpoint.find(run_dir / "checkpoints"))] == kept
    assert (run_dir / "best.keras").exists() == bool(kept)


def test_without_checkpoints_a_signal_is_obeyed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(SHORT, keep_checkpoints=0)
    message = str(interrupt(monkeypatch, 1, tmp_path / "run", config))
    assert message == "interrupted after 1 of 2 steps"


# Damage


def truncate(content: bytes) -> bytes:
    return content[: len(content) // 2]


def empty(_: bytes) -> bytes:
    return b""


def flip_a_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [truncate, empty, flip_a_bit])
def test_damage_to_any_file_is_noticed(interrupted: Path, damage: Callable[[bytes], bytes]) -> None:
    newest = interrupted / "checkpoints/1"
    files = [path for path in sorted((newest / "state").rglob("*")) if path.stat().st_size > 0]
    files = [path for path in files if path.is_file() and path.name != "commit_success.txt"]
    assert len(files) > 5
    for path in files:
        content = path.read_bytes()
        path.write_bytes(damage(content))
        assert not checkpoint.is_whole(newest), path
        path.unlink()
        assert not checkpoint.is_whole(newest), path
        path.write_bytes(content)
        assert checkpoint.is_whole(newest)


def test_the_checkpoint_before_a_damaged_one_is_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    whole: Path,
) -> None:
    """It is named, kept for whoever wants to look at it, and what it held is done again."""
    config = dataclasses.replace(CONFIG, keep_checkpoints=2)
    interrupt(monkeypatch, 7, tmp_path / "run", config)
    interrupt(monkeypatch, 11, tmp_path / "run", config)
    for path in (tmp_path / "run/checkpoints/12/state").rglob("*"):
        if path.is_file():
            path.write_bytes(truncate(path.read_bytes()))
    assert_alike(train.train(config, tmp_path / "run", resume=True), whole)
    assert "checkpoints/12 is damaged" in capsys.readouterr().err
    assert (tmp_path / "run/checkpoints/damaged-12").exists()


def test_a_run_without_a_whole_checkpoint_is_refused(interrupted: Path) -> None:
    (interrupted / "checkpoints/1/state/SHA256SUMS").unlink()
    with pytest.raises(UserError, match=r"none of the checkpoints in .* is whole"):
        train.train(SHORT, interrupted, resume=True)
    assert (interrupted / "checkpoints/1").exists()


def test_a_row_that_is_missing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = dataclasses.replace(SHORT, epochs=2)
    interrupt(monkeypatch, 3, tmp_path / "run", config)
    (tmp_path / "run/metrics.csv").write_text("epoch,step\n")
    with pytest.raises(UserError, match="must have a row for each of the 1 epochs so far"):
        train.train(config, tmp_path / "run", resume=True)


# Changes


def test_allowed_changes_are_applied_and_reported(
    interrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = dataclasses.replace(SHORT, epochs=2, learning_rate=0.5)
    train.train(config, interrupted, resume=True)
    shown = capsys.readouterr().out
    assert "--epochs is 2 from now on; it was 1\n" in shown
    assert f"--learning-rate is 0.5 from now on; it was {SHORT.learning_rate}\n" in shown
    assert len(read_rows(interrupted)) == 3
    assert run_directory.load_config(interrupted) == config
    resumed = json.loads((interrupted / "config.json").read_text())["resumed"]
    assert [(note["step"], note["changes"]) for note in resumed] == [
        (0, {}),
        (1, {"epochs": 2, "learning_rate": 0.5}),
    ]


def test_fewer_epochs_than_were_begun_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(SHORT, epochs=2)
    interrupt(monkeypatch, 3, tmp_path / "run", config)
    with pytest.raises(UserError, match="--epochs must be 2 or more"):
        train.train(SHORT, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"seed": 1, "batch_size": 64},
            rf"can go on only with --batch-size {ROWS // 2}, --seed 0:",
        ),
        ({"dtype": "bfloat16"}, "can go on only with --dtype float32"),
        ({"optimizer": "sgd"}, "can go on only with --optimizer adam"),
        (
            {"ema_momentum": 0.9},
            "as the model or the optimizer has changed since step 1: optimizer_variables/.*average "
            r"was not there and is float32 \[",
        ),
    ],
    ids=str,
)
def test_other_changes_are_refused(
    interrupted: Path, changes: dict[str, Any], message: str
) -> None:
    """And the run is as it was."""
    before = {path: path.read_bytes() for path in interrupted.glob("*.*")}
    with pytest.raises(UserError, match=message):
        train.train(dataclasses.replace(SHORT, **changes), interrupted, resume=True)
    assert {path: path.read_bytes() for path in interrupted.glob("*.*")} == before


def test_another_model_is_refused(interrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variable that differs is named, with what it was and what it is."""
    layers = [keras.layers.Flatten(), keras.layers.Dense(10, name="other")]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    monkeypatch.setattr(train, "build_model", lambda *_: model)
    with pytest.raises(UserError) as raised:
        train.train(SHORT, interrupted, resume=True)
    message = str(raised.value)
    assert "trainable_variables/sequential/other/kernel was not there and is float32" in message
    dataset = data.load_dataset(SHORT)
    assert message.count("was float32") >= 3 * len(build_model(SHORT, dataset).trainable_variables)


def test_other_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has the same name, but not the same numbers."""
    x, y = np.arange(640.0).reshape(20, 32), np.arange(20) % 2
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y)
    config = Config(dataset=str(tmp_path / "data.npz"), epochs=1, batch_size=8)
    config = dataclasses.replace(config, steps_per_execution=1)
    interrupt(monkeypatch, 1, tmp_path / "run", config)
    np.savez(tmp_path / "data.npz", x_train=x**2, y_train=y)
    with pytest.raises(UserError, match="the data have changed: mean, variance was"):
        train.train(config, tmp_path / "run", resume=True)


def test_a_second_process_is_refused(interrupted: Path) -> None:
    with (
        filelock.FileLock(interrupted / "lock"),
        pytest.raises(UserError, match="is in use by another process"),
    ):
        train.train(SHORT, interrupted, resume=True)


def test_variables_of_the_same_name_are_told_apart() -> None:
    """As in two layers of one name, and whatever the process has built before."""

    def names() -> list[str]:
        layers = [keras.layers.Dense(2), keras.layers.Dense(2), keras.layers.Dense(2, name="dense")]
        for layer in layers:
            layer.build((None, 2))
        model = keras.Model()
        model.layers_ = layers
        optimizer = keras.optimizers.SGD(momentum=0.9)
        optimizer.build(model.trainable_variables)
        return list(checkpoint.name_variables(model, optimizer, []))

    first, second = names(), names()
    assert first == second
    assert len(set(first)) == 2 * 3 + 2 + 2 * 3  # weights, counter and rate, moments


# The weights of another run


def test_a_run_begins_with_the_weights_of_another(tmp_path: Path, whole: Path) -> None:
    """With all of them, but with seeds and moments of its own; a run that goes on keeps its own."""
    config = dataclasses.replace(SHORT, init_from=str(whole), learning_rate=0.0)
    run_dir = train.train(config, tmp_path / "run")
    model, source = (model_file.load_model(path / "model.keras") for path in (run_dir, whole))
    pairs = zip(model.trainable_variables, source.trainable_variables, strict=True)
    assert all(np.array_equal(ours.value, theirs.value) for ours, theirs in pairs)
    from_file = dataclasses.replace(config, init_from=str(whole / "model.keras"))
    assert read_rows(train.train(from_file, tmp_path / "file")) == read_rows(run_dir)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing", "there is no .*missing/model.keras"),
        ("missing.keras", "there is no .*missing.keras"),
        ("narrow.keras", r"/kernel is \[64, 10\], but .*/kernel is \[64, 9\]"),
        ("deep.keras", "has 4 weights, but the model has 2"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    def dense(*units: int) -> keras.Model:
        layers = [keras.layers.Flatten(), *map(keras.layers.Dense, units)]
        return keras.Sequential([keras.Input((8, 8, 1)), *layers])

    dense(9).save(tmp_path / "narrow.keras")
    dense(9, 10).save(tmp_path / "deep.keras")
    monkeypatch.setattr(train, "build_model", lambda *_: dense(10))
    config = dataclasses.replace(SHORT, init_from=str(tmp_path / source))
    with pytest.raises(UserError, match=message):
        train.train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
