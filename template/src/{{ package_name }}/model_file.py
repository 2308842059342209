"""Models as files: checked before they are trained, saved whole, loaded or refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from .errors import UserError, reason


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


def save_model(path: Path, model: keras.Model) -> None:
    """Write a .keras file, whole or not at all."""
    unfinished = path.with_name(f"unfinished-{path.name}")
    try:
        model.save(unfinished)
        unfinished.replace(path)
    except Exception as error:  # zipfile and h5py raise others than OSError
        unfinished.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {reason(error)}") from error


def load_model(path: Path) -> keras.Model:
    """Read a .keras file."""
    if not path.exists():
        raise UserError(f"there is no {path}: the run did not finish, train --resume goes on")
    try:
        return keras.saving.load_model(path)
    except Exception as error:  # what a damaged file raises depends on where the damage is
        raise UserError(f"cannot load {path}: {error}") from error


def initialize(model: keras.Model, source: str) -> None:
    """Set the weights to those of another model: a .keras file, or a run's model.keras.

    Statistics of BatchNorm are weights, seeds are not. Raises a `UserError` that names each weight
    that has another shape there.
    """
    path = Path(source)
    if path.suffix != ".keras":
        path = path / "model.keras"
    ours, theirs = model.weights, load_model(path).weights
    if len(ours) != len(theirs):
        raise UserError(f"{path} has {len(theirs)} weights, but the model has {len(ours)}")
    differences = [
        f"{here.path} is {list(here.shape)}, but {there.path} is {list(there.shape)}"
        for here, there in zip(ours, theirs, strict=True)
        if here.shape != there.shape
    ]
    if differences:
        raise UserError(f"the model cannot begin with {path}: {'; '.join(differences)}")
    for here, there in zip(ours, theirs, strict=True):
        here.assign(there.value)
