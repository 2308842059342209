"""Our own contenders: projects rendered from this template, trained by their command line."""

import csv
import shutil
import tempfile
import warnings
from pathlib import Path

from benchmarks.contenders import OURS, Epoch
from benchmarks.processes import ROOT, run_python
from benchmarks.workloads import LEARNING_RATE, SEED, Workload, read_workload

PACKAGE = "my_project"

# In place of the template's own model; to the project, a workload's folder is a dataset.
MODEL = '''\
"""The model of a workload of the benchmarks."""

from pathlib import Path

import keras
from benchmarks import workloads
from benchmarks.models import keras_model

from .config import Config
from .data import Dataset


def build_model(config: Config, dataset: Dataset) -> keras.Model:
    """The workload's model, from inputs [B, ...] to logits [B, classes]."""
    folder = Path(config.dataset)
    if not folder.is_dir():  # an .npz file in it
        folder = folder.parent
    return keras_model.build(workloads.read_workload(folder), workloads.read_weights(folder))
'''


def render(folder: Path, model: str | None = MODEL) -> None:
    """Render a project of each training loop into `folder`, from the work tree as it is.

    With `model`, that takes the place of its model.py.
    """
    import copier

    for training_loop in OURS:
        project = folder / training_loop
        shutil.rmtree(project, ignore_errors=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", copier.errors.DirtyLocalWarning)
            copier.run_copy(
                str(ROOT),
                project,
                data={
                    "project_name": PACKAGE.replace("_", "-"),
                    "training_loop": training_loop,
                    "metrics": True,
                    "add_loss": False,
                },
                defaults=True,
                quiet=True,
                vcs_ref="HEAD",
                settings=copier.Settings(),
            )
        if model:
            (project / "src" / PACKAGE / "model.py").write_text(model)


def train(project: Path, workload_folder: Path, epochs: int) -> list[Epoch]:
    """Train a rendered project, and read from its metrics.csv how long each epoch took."""
    workload = read_workload(workload_folder)
    with tempfile.TemporaryDirectory() as run_dir:
        arguments = train_arguments(workload, workload_folder, epochs, Path(run_dir))
        run_python("-m", *arguments, cwd=project, path=(project / "src",))
        with (Path(run_dir) / "metrics.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    examples = workload.steps * workload.batch_size
    return [
        Epoch(
            examples / float(row["examples_per_second"]), float(row["loss"]), float(row["accuracy"])
        )
        for row in rows
    ]


def train_arguments(
    workload: Workload, dataset: Path, epochs: int, run_dir: Path
) -> tuple[object, ...]:
    """The command, without its `python -m`, that trains a workload."""
    unroll = "always" if workload.unroll else "never"
    return (
        *(PACKAGE, "train"),
        *("--dataset", dataset.resolve()),
        *("--validation-fraction", 0),
        *("--epochs", epochs),
        *("--batch-size", workload.batch_size),
        *("--learning-rate", LEARNING_RATE),
        *("--schedule", "constant"),
        *("--steps-per-execution", workload.steps_per_execution),
        *(("--unroll", unroll) if workload.steps_per_execution > 1 else ()),
        *("--seed", SEED),
        *("--keep-checkpoints", 0),
        *("--run-dir", run_dir),
    )
