"""What the projects compute: they train, alike in both loops, and what they save is usable."""

import csv
import json
import sys

import pytest
from helpers import VARIANTS, read_weights, run, run_python, variant_id

MODEL = "runs/short/model.keras"


# The tests that depend on an answer. The README runs all of them with the default answers, and
# tests/test_switch.py with all others at once; these have each answer with each other.
CONCERNED = [f"tests/test_{name}.py" for name in ("command_line", "steps", "train")]


@pytest.mark.parametrize(
    "variant",
    [v for v in VARIANTS if variant_id(v) in ("fit+metrics+add_loss", "fit", "scratch+metrics")],
    ids=variant_id,
)
def test_the_tests_that_depend_on_an_answer_pass(render, variant, tmp_path):
    project = render(tmp_path / "my-project", **variant)
    run_python(project, "-m", "pytest", "--quiet", *CONCERNED)


@pytest.mark.matrix
def test_the_tests_of_the_project_pass(render, variant, tmp_path):
    project = render(tmp_path / "my-project", **variant)
    run_python(project, "-m", "pytest", "--quiet")


def test_train_and_evaluate(trained, variant):
    """They leave the documented files, and print what is in them."""
    project = trained(**variant)
    run_dir = project / "runs/short"
    evaluated = run_python(project, "-m", "my_project", "evaluate", "--run-dir", "runs/short")
    models = {"model.keras", "best.keras"}
    written = {"config.json", "metrics.csv", "checkpoints", "evaluation.json", "lock"}
    assert {path.name for path in run_dir.iterdir()} == models | written
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    metrics = {"accuracy"} if variant["metrics"] else set()
    assert evaluation.keys() == {"model", "split", "loss"} | metrics
    assert f"loss {evaluation['loss']:.4f}" in evaluated.stdout


@pytest.mark.parametrize("add_loss", [True, False])
@pytest.mark.parametrize("metrics", [True, False])
def test_both_loops_train_alike(trained, metrics, add_loss):
    """To the last bit: the loss of every epoch, and every weight at the end."""
    fit, scratch = (
        trained(training_loop=training_loop, metrics=metrics, add_loss=add_loss)
        for training_loop in ("fit", "scratch")
    )
    assert read_metrics(fit) == read_metrics(scratch)
    assert read_weights(fit / MODEL) == read_weights(scratch / MODEL)


@pytest.mark.parametrize("add_loss", [True, False])
@pytest.mark.parametrize("training_loop", ["fit", "scratch"])
def test_metrics_change_no_weight(trained, training_loop, add_loss):
    """They only watch; the losses, too, are those of a project without them."""
    watched, unwatched = (
        trained(training_loop=training_loop, metrics=metrics, add_loss=add_loss)
        for metrics in (True, False)
    )
    assert read_weights(watched / MODEL) == read_weights(unwatched / MODEL)
    rows = read_metrics(watched)
    for row in rows:
        del row["accuracy"], row["val_accuracy"]
    assert rows == read_metrics(unwatched)


def test_add_loss_changes_the_weights(trained):
    """Or else the tests above would compare nothing that depends on it."""
    penalized, plain = (
        trained(training_loop="fit", metrics=True, add_loss=add_loss) for add_loss in (True, False)
    )
    assert read_weights(penalized / MODEL) != read_weights(plain / MODEL)


EVALUATE_ELSEWHERE = """
import importlib, json, os, sys

os.environ["KERAS_BACKEND"] = "jax"
import keras, numpy as np

for module in sys.argv[1:]:
    importlib.import_module(module)
model = keras.saving.load_model("runs/short/model.keras")
with np.load("digits.npz") as arrays:
    x, y = arrays["x_validation"], arrays["y_validation"]
logits = model(x, training=False)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, logits) + sum(model.losses)
accuracy = np.mean(np.argmax(logits, axis=1) == y)
print(json.dumps({"val_loss": float(loss), "val_accuracy": float(accuracy)}))
"""


@pytest.mark.parametrize("add_loss", [True, False])
@pytest.mark.parametrize("training_loop", ["fit", "scratch"])
def test_the_model_file_needs_no_code_of_the_project(trained, training_loop, add_loss):
    """Keras alone finds in it what training had come to; with add_loss, Keras and that layer."""
    project = trained(training_loop=training_loop, metrics=True, add_loss=add_loss)
    if add_loss:
        process = run_python(project, "-c", EVALUATE_ELSEWHERE, "my_project.layers")
    else:
        process = run(sys.executable, "-c", EVALUATE_ELSEWHERE, cwd=project)
    found, last = json.loads(process.stdout), read_metrics(project)[-1]
    assert found["val_loss"] == pytest.approx(float(last["val_loss"]), rel=1e-5)
    assert found["val_accuracy"] == pytest.approx(float(last["val_accuracy"]), rel=1e-5)


def test_digits_are_learned(render, tmp_path):
    """With the defaults, 98 of 100 digits of the test split are recognized."""
    project = render(tmp_path / "my-project")
    accuracies = []
    for seed in (0, 1, 2):
        run_python(
            project, "-m", "my_project", "train", "--seed", seed, "--run-dir", f"runs/{seed}"
        )
        run_python(project, "-m", "my_project", "evaluate", "--run-dir", f"runs/{seed}")
        evaluation = json.loads((project / f"runs/{seed}/evaluation.json").read_text())
        assert evaluation["split"] == "test"
        accuracies.append(evaluation["accuracy"])
    data = json.loads((project / "runs/0/config.json").read_text())["data"]
    assert data["rows"] == {"train": 1294, "validation": 144, "test": 359}
    assert len(set(accuracies)) > 1  # the seed has an effect
    assert sum(accuracies) / 3 >= 0.98


def read_metrics(project):
    """The rows of metrics.csv as text, without the one column that depends on the clock."""
    with (project / "runs/short/metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    for row in rows:
        del row["examples_per_second"]
    return rows
