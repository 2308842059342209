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
import math
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

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
        return Config(**{name: checked(name, value) for name, value in values.items()})
    except FileNotFoundError as error:
        raise UserError(f"{run_dir} holds no run: there is no {path}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def checked(name: str, value: Any) -> Any:
    """A value of config.json as its field wants it, or a `TypeError`."""
    kind = get_type_hints(Config).get(name)
    if get_origin(kind) is Literal and value not in get_args(kind):
        raise TypeError(f"{name} must be one of {', '.join(get_args(kind))}, not {value!r}")
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(value)
    for simple, good in ((int, int), (float, int | float), (str, str)):
        if kind is simple and (isinstance(value, bool) or not isinstance(value, good)):
            raise TypeError(f"{name} must be of type {simple.__name__}, not {value!r}")
    return value


def check_model(model: keras.Model) -> None:
    """Raise a `UserError`, before it is trained, if a model could not be saved and loaded."""
    try:
        described = keras.saving.serialize_keras_object(model)
    except Exception as error:  # from any get_config, or the lack of one
        raise UserError(
            f"the model cannot be saved: {error.__class__.__name__} in get_config; give each class "
            "of its own whose __init__ takes more than plain values a get_config"
        ) from error
    for name in unregistered(described):
        raise UserError(
            f"{name} could not be loaded once it is saved: put the decorator "
            "@keras.saving.register_keras_serializable(package=__package__) before the class"
        )


def unregistered(described: Any) -> Iterator[str]:
    """The classes, neither of Keras nor registered with it, in what Keras says of an object."""
    if isinstance(described, dict):
        name = described.get("registered_name") or ""
        own = name and (described.get("module") or "keras").split(".")[0] != "keras"
        if own and keras.saving.get_registered_object(name) is None:
            yield name
        described = list(described.values())
    if isinstance(described, list | tuple):
        for part in described:
            yield from unregistered(part)


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
    """Write evaluation.json; what is not finite becomes null, as JSON has no word for it."""
    evaluation = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in evaluation.items()
    }
    (run_dir / "evaluation.json").write_text(to_json(evaluation), encoding="utf-8")


def to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"
