"""What a run leaves on disk.

config.json      the configuration, and the versions it ran with
metrics.csv      a row an epoch
model.keras      the final model, for keras.saving.load_model
evaluation.json  what `evaluate` found last
"""

import dataclasses
import importlib.metadata
import itertools
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import keras

from .config import Config
from .errors import UserError

RUNS = Path("runs")
DEPENDENCIES = ("jax", "keras", "numpy")


def create(run_dir: Path | None, config: Config) -> Path:
    """Begin a run: create its directory, by default runs/<UTC time>, with its config.json."""
    run_dir = run_dir or unused(RUNS / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ"))
    versions = {name: importlib.metadata.version(name) for name in DEPENDENCIES}
    versions["python"] = platform.python_version()
    text = to_json({"config": dataclasses.asdict(config), "versions": versions})
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        if any(run_dir.iterdir()):
            raise FileExistsError
        with (run_dir / "config.json").open("x", encoding="utf-8") as file:  # "x": one run wins
            file.write(text)
    except FileExistsError as error:
        raise UserError(
            f"{run_dir} is in use: give --run-dir a directory that is new or empty"
        ) from error
    except OSError as error:
        raise UserError(f"cannot write to {run_dir}: {error.strerror}") from error
    return run_dir


def unused(path: Path) -> Path:
    """`path`, or the first of path-2, path-3, ... where it exists."""
    names = itertools.chain([path.name], (f"{path.name}-{n}" for n in itertools.count(2)))
    return next(p for p in map(path.with_name, names) if not p.exists())


def latest() -> Path:
    """The run in runs/ that began last."""
    configs = sorted(RUNS.glob("*/config.json"), key=lambda path: path.stat().st_mtime_ns)
    if not configs:
        raise UserError(f"there is no run in {RUNS.absolute()}: train first, or give --run-dir")
    return configs[-1].parent


def load_config(run_dir: Path) -> Config:
    """The configuration of a run."""
    path = run_dir / "config.json"
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["config"]
        for name, value in values.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        config = Config(**values)
        for field in dataclasses.fields(config):
            value, kind = getattr(config, field.name), type(field.default)
            if not isinstance(value, int | float if kind is float else kind):
                raise TypeError(f"{field.name} must be of type {kind.__name__}, not {value!r}")
        return config
    except FileNotFoundError as error:
        raise UserError(f"{run_dir} holds no run: there is no {path}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def save_model(run_dir: Path, model: keras.Model) -> None:
    """Write model.keras, whole or not at all."""
    unfinished = run_dir / "unfinished.keras"
    model.save(unfinished)
    unfinished.replace(run_dir / "model.keras")


def load_model(run_dir: Path) -> keras.Model:
    """Read model.keras."""
    path = run_dir / "model.keras"
    if not path.exists():
        raise UserError(f"there is no {path}: the run in {run_dir} did not finish")
    try:
        return keras.saving.load_model(path)
    except Exception as error:  # what a damaged file raises depends on where the damage is
        raise UserError(f"cannot load {path}: {error}") from error


def save_evaluation(run_dir: Path, evaluation: dict[str, Any]) -> None:
    """Write evaluation.json."""
    (run_dir / "evaluation.json").write_text(to_json(evaluation), encoding="utf-8")


def to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"
