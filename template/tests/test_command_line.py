"""The commands as a person types them."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest
from conftest import ROWS

from {{ package_name }} import (
    data,
    run_directory,
    steps,
    train,
)
from {{ package_name }}.__main__ import main
from {{ package_name }}.config import Config

PACKAGE = "{{ package_name }}"
ALL_ROWS = ROWS + len(data.load_splits(Config())["validation"].rows)
STEPS = Config().epochs * (ROWS // Config().batch_size)


def run(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", PACKAGE, *args],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_refused(result: subprocess.CompletedProcess[str], message: str) -> None:
    """One sentence, exit code 2, no traceback."""
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_train_and_evaluate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With no path to type: train writes a run, evaluate finds it and writes its results."""
    trained = run(tmp_path, "train", "--epochs", "3", "--batch-size", "128")
    assert trained.returncode == 0, trained.stderr
    assert "epoch 3/3" in trained.stdout
    (run_dir,) = (tmp_path / "runs").iterdir()
    files = {"best.keras", "checkpoints", "config.json", "lock", "metrics.csv", "model.keras"}
    assert files == {path.name for path in run_dir.iterdir()}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [PACKAGE, "evaluate"])
    main()
    results = json.loads((run_dir / "evaluation.json").read_text())
    assert (results["model"], results["split"]) == ("model.keras", "test")
    assert f"loss {results['loss']:.4f}" in capsys.readouterr().out
# {% if metrics %}
    assert results["accuracy"] > 0.2  # a guess is right in one of ten
# {% endif %}


def test_settings_of_a_file_or_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run is repeated by its config.json, and goes on with its settings; flags change them."""
    monkeypatch.chdir(tmp_path)

    def train(*arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [PACKAGE, "train", *arguments])
        main()
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "steps" in line]
        return line.split("; ")

    short = ("--epochs", "1", "--batch-size", f"{ROWS // 2}", "--steps-per-execution", "1")
    begins = "1 epochs of 2 steps"
    assert train(*short, "--dropout", "0.5", "--run-dir", "runs/a")[0] == f"runs/a: {begins}"
    train("--config", "runs/a/config.json", "--run-dir", "runs/b")
    rows = []
    for name in "ab":
        with Path("runs", name, "metrics.csv").open(newline="") as file:
            rows.append([row[:-1] for row in csv.reader(file)])  # the last depends on the clock
    assert rows[0] == rows[1]
    for name in "ab":
        assert run_directory.load_config(Path("runs") / name).dropout == 0.5
    assert train("--resume", "--epochs", "2")[:2] == [
        "runs/b: 2 epochs of 2 steps",
        "goes on after 2 of 4 steps",
    ]
    assert run_directory.load_config(Path("runs/b")).dropout == 0.5
    assert train("--resume", "--run-dir", "runs/a")[1] == "goes on after 2 of 2 steps"
    assert train(*short, "--resume", "--run-dir", "runs/c")[0] == f"runs/c: {begins}"


def test_help_is_quick() -> None:
    """It explains every field without loading Keras or JAX."""
    program = """
import sys
from {{ package_name }}.__main__ import main
try:
    main()
finally:
    assert not {"keras", "jax"} & sys.modules.keys()
"""
    command = [sys.executable, "-c", program, "train", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--learning-rate" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --epochs 0", "--epochs must be 1 or more, not 0"),
        ("train --batch-size -3", "--batch-size must be 1 or more, not -3"),
        ("train --learning-rate nan", "--learning-rate must be from 0 to 3e38, not nan"),
        ("train --steps-per-execution 0", "--steps-per-execution must be 1 or more, not 0"),
        (
            "train --steps-per-execution 1 --unroll never",
            "--unroll must be left out with --steps-per-execution 1",
        ),
        ("train --dropout 1", "--dropout must be from 0 to below 1, not 1.0"),
        ("train --seed -1", "--seed must be from 0 to 4294967295, not -1"),
        ("train --momentum 0.5", "--momentum must be left out without sgd, not 0.5"),
        ("train --optimizer adamw", "--weight-decay must be above 0 for adamw, not 0.0"),
        ("train --patience 2 --monitor val_auc", "--monitor must be one of loss,"),
        (
            "train --warmup-steps 99999",
            f"--warmup-steps 99999 leaves none of the {STEPS} updates",
        ),
        (
            "train --gradient-accumulation-steps 99999",
            f"99999 is more than the {STEPS} steps of the run",
        ),
        ("train --checkpoint-steps -1", "--checkpoint-steps must be 0 or more, not -1"),
        ("train --keep-checkpoints -1", "--keep-checkpoints must be 0 or more, not -1"),
        (
            "train --keep-checkpoints 0 --checkpoint-steps 9",
            "--checkpoint-steps must be left out with --keep-checkpoints 0, not 9",
        ),
        ("train --resume", "there is no run in"),
        ("train --resume --run-dir full", "full is in use"),
        ("train --resume --run-dir", "--run-dir"),
        ("train --config missing.json", "there is no missing.json"),
        ("train --config full", "cannot read full: Is a directory"),
        ("train --config full/file", "cannot read full/file"),
        ("train --init-from missing", "there is no missing/model.keras"),
        ("train --patience 20", "--patience must be less than --epochs, not 20"),
        ("train --global-clipnorm 1e39", "--global-clipnorm must be from 0 to 3e38, not 1e+39"),
        ("train --ema-momentum 1", "--ema-momentum must be from 0 to 0.999999, not 1.0"),
        ("train --class-weight 1 -1", "--class-weight must be from 0 to 3e38, not (1.0, -1.0)"),
        (
            "train --validation-fraction 0.9999",
            f"--validation-fraction 0.9999 takes {ALL_ROWS} of {ALL_ROWS}",
        ),
        (
            "train --validation-fraction 1e-9",
            f"--validation-fraction 1e-09 takes 0 of {ALL_ROWS} rows",
        ),
        ("train --class-weight 1 2", "--class-weight must be 10 numbers, one a class, not 2"),
        ("train --overfit 99999", f"--overfit 99999 is more than the {ROWS} rows to train on"),
        (
            "train --batch-size 99999",
            f"--batch-size 99999 is more than the {ROWS} rows to train on",
        ),
        ("train --dataset missing.npz", "there is no dataset 'missing.npz'"),
        ("train --dataset cats", "there is no dataset 'cats'"),
        ("train --run-dir full", "full is in use"),
        ("train --run-dir full/file", "full/file is in use"),
        ("train --run-dir full/file/run", "cannot write to full/file/run: Not a directory"),
        ("evaluate", "there is no run in"),
        ("evaluate --run-dir missing", "missing holds no run"),
        ("evaluate --best --run-dir missing", "missing holds no run"),
        ("train --epochs many", "--epochs"),
        ("train --no-such-flag", "--no-such-flag"),
        ("train --dtype float8", "float8"),
        ("test", "Available subcommands: train, evaluate"),
    ],
)
def test_bad_input_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    message: str,
) -> None:
    """The exit code is 2, the message says what would be right, and no run begins."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    monkeypatch.setattr(sys, "argv", [PACKAGE, *arguments.split()])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in shown
    assert "Traceback" not in shown
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "file"]


def test_debug_runs_the_steps_as_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A debugger in a step sees numbers, and a step is Python each time it is taken."""
    seen, shown = [], []
    original = steps.train_step

    def train_step(state: steps.TrainState, batch: steps.Batch, **kwargs: Any) -> steps.TrainState:
        seen.append(float(state.trainable_variables[0].sum()))
        return original(state, batch, **kwargs)

    class Loss(keras.losses.Loss):
        def call(self, y_true: Any, y_pred: Any) -> Any:
            shown.append(repr(y_pred))
            return keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)

    layers = [keras.layers.Flatten(), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    monkeypatch.setattr(train, "build_model", lambda *_: model)
    monkeypatch.setattr(train, "build_loss", lambda _: Loss())
    monkeypatch.setattr(steps, "train_step", train_step)
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "--debug", "--epochs", "1", "--batch-size", "400"]
    monkeypatch.setattr(sys, "argv", [PACKAGE, *arguments])
    main()
    assert len(set(seen)) == 3
    assert "primal" in shown[0]


def test_another_backend_is_refused(tmp_path: Path) -> None:
    """Set in the environment, or loaded before: both are said in one sentence."""
    assert_refused(
        run(tmp_path, "train", KERAS_BACKEND="torch"),
        "the Keras backend is 'torch'; set KERAS_BACKEND=jax",
    )


def test_a_download_without_network_is_refused(tmp_path: Path) -> None:
    """The message names a dataset that needs none."""
    result = run(
        tmp_path,
        "train",
        "--dataset",
        "mnist",
        KERAS_HOME=str(tmp_path / "keras"),
        https_proxy="http://127.0.0.1:9",
    )
    assert result.returncode == 2
    assert "cannot download mnist" in result.stderr
    assert "--dataset digits" in result.stderr
    assert not (tmp_path / "runs").exists()
