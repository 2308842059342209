"""Where the data comes from, and in which order it goes into the steps.

A dataset is digits, a download of Keras, an .npz file or a folder of .npy files. All of them
become the same arrays: `x_train` [N, H, W], [N, H, W, C] or [N, D], `y_train` [N] integers, and
optionally `x_test`, `y_test`, `x_validation`, `y_validation`, and the weight of each row in
`w_train`, `w_validation`, `w_test` [N]. A folder is memory-mapped, so it may exceed the memory.
"""

import itertools
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from .config import Config
from .errors import UserError
from .steps import Batch

SPLITS = ("train", "validation", "test")
DOWNLOADS = ("mnist", "fashion_mnist", "cifar10")
MOST_CLASSES = 1_000_000  # more are identifiers, not classes


class Split(NamedTuple):
    name: str  # train, validation or test
    x: np.ndarray  # [M, ...] numbers, perhaps memory-mapped
    y: np.ndarray  # [M] integers
    weight: np.ndarray | None  # [M] numbers
    rows: np.ndarray  # [N] the row numbers, in x, y and weight, that make up the split


class Dataset(NamedTuple):
    train: Split
    validation: Split | None
    test: Split | None
    input_shape: tuple[int, ...]  # of one row: (H, W, C) or (D,)
    num_classes: int
    mean: list[float]  # of each channel of the training inputs
    variance: list[float]


# The order of the data


def training_batches(
    split: Split, config: Config, epoch: int, first_step: int = 0
) -> Iterator[Batch]:
    """The batches of one epoch, in an order that depends on nothing but (seed, epoch).

    They begin with that of `first_step`, and come in stacks [K, B, ...] of K = steps_per_execution;
    those that fill no stack come singly.
    """
    order = np.random.default_rng((config.seed, epoch)).permutation(split.rows)
    steps = steps_per_epoch(split, config.batch_size)
    batches = order[: steps * config.batch_size].reshape(steps, 1, config.batch_size)[first_step:]
    size = steps_per_stack(config, steps)
    stacked = len(batches) - len(batches) % size
    stacks = batches[:stacked].reshape(-1, size, config.batch_size)
    for rows in itertools.chain(stacks, batches[stacked:]):
        yield gather(split, rows)


def steps_per_stack(config: Config, steps_per_epoch: int) -> int:
    return min(config.steps_per_execution, steps_per_epoch)


def executions_per_epoch(split: Split, config: Config, first_step: int = 0) -> int:
    """The number of stacks of batches, and of those that come singly."""
    steps = steps_per_epoch(split, config.batch_size)
    stacks, single = divmod(steps - first_step, steps_per_stack(config, steps))
    return stacks + single


def steps_per_epoch(split: Split, batch_size: int) -> int:
    """The number of full batches; the rows left over are others in each epoch."""
    return len(split.rows) // batch_size


def evaluation_batches(split: Split, batch_size: int) -> Iterator[Batch]:
    """Every row once, in batches of one shape, that of all rows if they are fewer."""
    for index in range(count_evaluation_batches(split, batch_size)):
        yield evaluation_batch(split, batch_size, index)


def evaluation_batch(split: Split, batch_size: int, index: int) -> Batch:
    """One of these batches; the last is filled up with its own rows again, of weight 0."""
    rows = split.rows[index * batch_size : (index + 1) * batch_size]
    batch = gather(split, np.resize(rows, min(batch_size, len(split.rows))))
    batch.weight[len(rows) :] = 0
    return batch


def count_evaluation_batches(split: Split, batch_size: int) -> int:
    return -(-len(split.rows) // batch_size)


def gather(split: Split, rows: np.ndarray) -> Batch:
    """The batch of the given row numbers [B], or the stack of batches of [K, B]."""
    x = split.x[rows]
    weight = np.ones(rows.shape) if split.weight is None else split.weight[rows]
    return Batch(
        x if x.dtype == np.uint8 else x.astype(np.float32, copy=False),
        split.y[rows].astype(np.int32, copy=False),
        weight.astype(np.float32, copy=False),
    )


# Loading


def describe(dataset: Dataset) -> dict[str, Any]:
    """What tells a dataset from another, in values that JSON knows."""
    splits = {split.name: len(split.rows) for split in dataset[:3] if split}
    return {
        "rows": splits,
        "input_shape": list(dataset.input_shape),
        "num_classes": dataset.num_classes,
        "mean": dataset.mean,
        "variance": dataset.variance,
    }


def load_dataset(config: Config) -> Dataset:
    """Load everything that training needs, or raise a `UserError` that says what is wrong."""
    splits = load_splits(config)
    train = splits["train"]
    if config.batch_size > len(train.rows):
        raise UserError(
            f"--batch-size {config.batch_size} is more than the {len(train.rows)} rows to train on"
        )
    num_classes = int(train.y.max()) + 1
    if config.class_weight:
        train = weigh_classes(train, config.class_weight, num_classes)
        check_weight(train)
    mean, variance = statistics(train)
    for name in splits.keys() - {"train"}:
        statistics(splits[name])  # a NaN is better found now than after the first epoch
    return Dataset(
        train,
        splits.get("validation"),
        splits.get("test"),
        input_shape=train.x.shape[1:],
        num_classes=num_classes,
        mean=mean.tolist(),
        variance=variance.tolist(),
    )


def load_splits(config: Config) -> dict[str, Split]:
    """The splits of a dataset by name, checked as far as that takes no pass over the inputs."""
    arrays = load_arrays(config.dataset)
    check_names(arrays)
    splits = {name: load_split(arrays, name) for name in SPLITS if has_split(arrays, name)}
    train = splits["train"]
    num_classes = int(train.y.max()) + 1
    if not 2 <= num_classes <= MOST_CLASSES:
        raise UserError(
            f"y_train must have from 2 to {MOST_CLASSES} classes, numbered from 0, "
            f"but its highest is {num_classes - 1}"
        )
    for split in splits.values():
        if split.x.shape[1:] != train.x.shape[1:]:
            raise UserError(
                f"a row of x_{split.name} must have the shape {list(train.x.shape[1:])} "
                f"of x_train's, not {list(split.x.shape[1:])}"
            )
        if split.y.max() >= num_classes:
            raise UserError(
                f"y_{split.name} must have the classes of y_train, 0 to {num_classes - 1}, "
                f"but has {split.y.max()}"
            )
    if "validation" not in splits:
        splits = hold_out(splits, config.validation_fraction)
    if config.overfit:
        splits = repeat_few(splits, config.overfit)
    for split in splits.values():
        check_weight(split)
    return splits


def check_names(arrays: dict[str, np.ndarray]) -> None:
    """Raise a `UserError` for an array that has nearly the name of one that would be used."""
    names = [f"{kind}_{split}" for split in SPLITS for kind in "xyw"]
    for name in arrays:
        if name[:2] in ("x_", "y_", "w_") and name not in names:
            raise UserError(f"the dataset has {name}, which is none of {', '.join(names)}")


def has_split(arrays: dict[str, np.ndarray], name: str) -> bool:
    return name == "train" or not arrays.keys().isdisjoint({f"x_{name}", f"y_{name}"})


def hold_out(splits: dict[str, Split], fraction: float) -> dict[str, Split]:
    """Take a validation split from the training rows, the same one whatever the seed."""
    train = splits["train"]
    size = round(fraction * len(train.rows))
    if fraction == 0:
        return splits
    if not 0 < size < len(train.rows):
        raise UserError(
            f"--validation-fraction {fraction} takes {size} of {len(train.rows)} rows: give a "
            "share that leaves some on both sides, or 0 for no validation"
        )
    order = np.random.default_rng(0).permutation(train.rows)
    return splits | {
        "train": train._replace(rows=np.sort(order[size:])),
        "validation": train._replace(name="validation", rows=np.sort(order[:size])),
    }


def repeat_few(splits: dict[str, Split], few: int) -> dict[str, Split]:
    """Repeat a few training rows to as many as there were, and validate on those few."""
    train = splits["train"]
    if few > len(train.rows):
        raise UserError(f"--overfit {few} is more than the {len(train.rows)} rows to train on")
    rows = np.random.default_rng(0).permutation(train.rows)[:few]
    return splits | {
        "train": train._replace(rows=np.resize(rows, len(train.rows))),
        "validation": train._replace(rows=rows),
    }


def weigh_classes(split: Split, class_weight: tuple[float, ...], num_classes: int) -> Split:
    """Multiply the weight of each row by that of its class."""
    if len(class_weight) != num_classes:
        raise UserError(
            f"--class-weight must be {num_classes} numbers, one a class, not {len(class_weight)}"
        )
    weight = np.asarray(class_weight, np.float32)[split.y]
    if split.weight is not None:
        weight *= split.weight
    return split._replace(weight=weight)


def load_split(arrays: dict[str, np.ndarray], name: str) -> Split:
    """One split of the arrays."""
    for key in (f"x_{name}", f"y_{name}"):
        if key not in arrays:
            found = ", ".join(arrays) or "nothing"
            raise UserError(f"the dataset must have {key}, but all that it has is {found}")
    x, y, weight = arrays[f"x_{name}"], arrays[f"y_{name}"], arrays.get(f"w_{name}")
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "uif":
        raise UserError(
            f"x_{name} must be numbers of shape [N, H, W, C], [N, H, W] or [N, D], "
            f"not {x.dtype} of shape {list(x.shape)}"
        )
    if y.ndim != 1 or y.dtype.kind not in "ui":
        raise UserError(
            f"y_{name} must be integers of shape [N], not {y.dtype} of shape {list(y.shape)}"
        )
    if len(x) != len(y):
        raise UserError(f"x_{name} has {len(x)} rows, but y_{name} has {len(y)}")
    if x.size == 0:
        raise UserError(f"x_{name} is empty: its shape is {list(x.shape)}")
    if y.min() < 0:
        raise UserError(f"y_{name} must be classes from 0 on, but has {y.min()}")
    if weight is not None:
        if weight.shape != y.shape or weight.dtype.kind not in "uif":
            raise UserError(
                f"w_{name} must be numbers of shape {list(y.shape)}, "
                f"not {weight.dtype} of shape {list(weight.shape)}"
            )
        weight = to_float32(weight)
        if not (weight >= 0).all():
            raise UserError(f"w_{name} must be 0 or more, in every row")
    if x.ndim == 3:
        x = x[..., np.newaxis]
    return Split(name, x, y, weight, np.arange(len(y)))


def check_weight(split: Split) -> None:
    """Raise a `UserError` if no mean can be taken by the weights of the rows."""
    if split.weight is not None:
        total = split.weight[split.rows].sum(dtype=np.float64)
        if not 0 < total <= np.finfo(np.float32).max:
            raise UserError(
                f"the weights of the {split.name} split add up to {total}: "
                "the sum must be above 0, and finite in float32"
            )


def statistics(split: Split, chunk: int = 1024) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each channel of the inputs, [C] each, in one pass over the rows.

    A channel that is constant gets the variance 1, so that dividing by it changes nothing.
    Raises a `UserError` where an input is NaN or infinite, as float32, which the model computes in.
    """
    axes = tuple(range(split.x.ndim - 1))
    total = np.zeros((2, split.x.shape[-1]))
    # Near the mean, so that the squares of large values do not swallow small differences.
    origin = np.nan_to_num(to_float32(split.x[split.rows[:1]])).mean(axes, dtype=np.float64)
    for start in range(0, len(split.rows), chunk):
        rows = split.rows[start : start + chunk]
        x = to_float32(split.x[rows]).astype(np.float64)
        bad = ~np.isfinite(x).all(axis=tuple(range(1, x.ndim)))
        if bad.any():
            raise UserError(f"x_{split.name} has a NaN or infinite value in row {rows[bad][0]}")
        x -= origin
        total += x.sum(axes), np.square(x).sum(axes)
    mean, mean_square = total / (split.x[0, ..., 0].size * len(split.rows))
    variance = mean_square - mean**2
    mean += origin
    constant = variance <= np.square(1e-7 * mean)  # to the digits of float32
    return mean, np.where(constant, 1, variance)


def to_float32(x: np.ndarray) -> np.ndarray:
    """Numbers too large for float32 become infinite."""
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


# The sources


def load_arrays(dataset: str) -> dict[str, np.ndarray]:
    """The arrays of a dataset, under the names this module's docstring gives."""
    if dataset == "digits":
        return load_digits()
    if dataset in DOWNLOADS:
        return download(dataset)
    path = Path(dataset)
    if dataset and path.is_dir():
        return {file.stem: read_array(file) for file in sorted(path.glob("*.npy"))}
    if path.suffix == ".npz" and path.exists():
        return read_archive(path)
    raise UserError(
        f"there is no dataset {dataset!r}: give digits, {', '.join(DOWNLOADS)}, "
        "or the path of an .npz file or of a folder of .npy files"
    )


def load_digits() -> dict[str, np.ndarray]:
    """1,797 handwritten digits, 8x8, from 0 to 16; a fifth of them are the test split.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository, 1998, CC BY 4.0; the part of it that scikit-learn ships.
    """
    table = np.loadtxt(Path(__file__).with_name("digits.csv"), delimiter=",", dtype=np.uint8)
    table = np.random.default_rng(0).permutation(table)
    x, y = table[:, :-1].reshape(-1, 8, 8), table[:, -1]
    test = len(table) // 5
    return {"x_train": x[test:], "y_train": y[test:], "x_test": x[:test], "y_test": y[:test]}


def download(name: str) -> dict[str, np.ndarray]:
    """A dataset that Keras downloads once, into ~/.keras/datasets."""
    try:
        (x_train, y_train), (x_test, y_test) = getattr(keras.datasets, name).load_data()
    except Exception as error:  # keras.utils.get_file raises it bare
        raise UserError(
            f"cannot download {name} ({error}); try again with a connection, "
            "or use --dataset digits, which needs none"
        ) from error
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    return arrays | {key: arrays[key].ravel() for key in ("y_train", "y_test")}  # cifar10: [N, 1]


def read_array(path: Path) -> np.ndarray:
    """Memory-map an .npy file."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file into memory."""
    if not zipfile.is_zipfile(path):
        raise UserError(f"cannot read {path}: it is no .npz archive, or not a whole one")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
