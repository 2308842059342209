"""What a run leaves on disk.

config.json      the configuration, the versions it ran with, and when it went on with others
metrics.csv      a row an epoch
checkpoints/     the whole state, after the newest epochs and the best
model.keras      the final model, for keras.saving.load_model
best.keras       the model after the best epoch
evaluation.json  what `evaluate` found last
lock             held by the process that trains
"""

import dataclasses
import importlib.metadata
import itertools
import json
import math
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import filelock

from .config import FIXED, Config
from .errors import UserError

RUNS = Path("runs")
DEPENDENCIES = ("jax", "keras", "numpy", "orbax-checkpoint")


@contextmanager
def opened(
    run_dir: Path | None, config: Config, data: dict[str, Any], resume: bool
) -> Iterator[Path]:
    """Begin a run, by default in runs/<UTC time>, or go on with one, in this process alone."""
    run_dir = run_dir or unused(RUNS / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ"))
    with ExitStack() as stack:
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            check_free(run_dir, resume)
            stack.enter_context(filelock.FileLock(run_dir / "lock", blocking=False))
            check_free(run_dir, resume)  # another process may have been quicker
            if holds_run(run_dir):
                find_changes(run_dir, config, data)
            else:
                save_config(run_dir, config, data, resumed=[])
        except filelock.Timeout as error:
            raise UserError(f"{run_dir} is in use by another process") from error
        except FileExistsError as error:
            raise UserError(
                f"{run_dir} is in use: give --run-dir a directory that is new or empty"
            ) from error
        except OSError as error:
            raise UserError(f"cannot write to {run_dir}: {error.strerror}") from error
        yield run_dir


def check_free(run_dir: Path, resume: bool) -> None:
    if not holds_run(run_dir):
        if {path.name for path in run_dir.iterdir()} - {"lock", "unfinished-config.json"}:
            raise FileExistsError
    elif not resume:
        raise UserError(
            f"{run_dir} is in use: give --run-dir a directory that is new or empty, "
            "or go on with the run in it by --resume"
        )


def holds_run(run_dir: Path) -> bool:
    return (run_dir / "config.json").exists()


def unused(path: Path) -> Path:
    """`path`, or the first of path-2, path-3, ... where it exists."""
    names = itertools.chain([path.name], (f"{path.name}-{n}" for n in itertools.count(2)))
    return next(p for p in map(path.with_name, names) if not p.exists())


def latest() -> Path:
    """The run in runs/ that began, or went on, last."""
    configs = sorted(RUNS.glob("*/config.json"), key=lambda path: path.stat().st_mtime_ns)
    if not configs:
        raise UserError(f"there is no run in {RUNS.absolute()}: train first, or give --run-dir")
    return configs[-1].parent


def save_config(
    run_dir: Path, config: Config, data: dict[str, Any], resumed: list[dict[str, Any]]
) -> None:
    write_json(
        run_dir / "config.json",
        {
            "config": dataclasses.asdict(config),
            "data": data,
            "versions": find_versions(),
            "resumed": resumed,
        },
    )


def find_versions() -> dict[str, str]:
    """The versions of what computes, in this process."""
    versions = {name: importlib.metadata.version(name) for name in DEPENDENCIES}
    return versions | {"python": platform.python_version()}


def load_config(run_dir: Path) -> Config:
    """The configuration of a run."""
    return read_config(run_dir / "config.json")


def read_config(path: Path) -> Config:
    """The configuration in a config.json."""
    try:
        values = read_json(path)["config"]
        return Config(**{name: checked(name, value) for name, value in values.items()})
    except FileNotFoundError as error:
        raise UserError(f"{path.parent} holds no run: there is no {path}") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
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


def find_changes(run_dir: Path, config: Config, data: dict[str, Any]) -> dict[str, Any]:
    """The settings that are others than those of the run so far.

    Raises a `UserError` if the run could not go on with them, or with these data.
    """
    before, now = (dataclasses.asdict(c) for c in (load_config(run_dir), config))
    changes = {name: now[name] for name in now if now[name] != before[name]}
    if fixed := [f"{flag(name)} {before[name]}" for name in changes if name in FIXED]:
        raise UserError(f"{run_dir} can go on only with {', '.join(fixed)}: else begin a new run")
    data_before = read_json(run_dir / "config.json").get("data", data)
    if different := [name for name in data if data[name] != data_before[name]]:
        raise UserError(
            f"{run_dir} cannot go on, as the data have changed: {', '.join(different)} "
            f"was {', '.join(str(data_before[name]) for name in different)}"
        )
    return changes


def go_on(run_dir: Path, config: Config, step: int) -> None:
    """Note, and say, with which settings and versions a run goes on from `step`."""
    before = read_json(run_dir / "config.json")
    data = before.get("data", {})  # a run of an earlier version of the project has none
    changes = find_changes(run_dir, config, data)
    settings = dataclasses.asdict(load_config(run_dir))
    resumed = {"step": step, "changes": changes, "versions": before["versions"]}
    save_config(run_dir, config, data, [*before.get("resumed", []), resumed])
    for name, value in changes.items():
        print(f"{flag(name)} is {value} from now on; it was {settings[name]}")
    for name, version in find_versions().items():
        if version != before["versions"].get(name):
            print(f"{name} is {version} from now on; it was {before['versions'].get(name)}")


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def save_evaluation(run_dir: Path, evaluation: dict[str, Any]) -> None:
    """Write evaluation.json; what is not finite becomes null, as JSON has no word for it."""
    evaluation = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in evaluation.items()
    }
    write_json(run_dir / "evaluation.json", evaluation)


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: dict[str, Any]) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    unfinished = path.with_name(f"unfinished-{path.name}")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="")
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
