"""Which rows go into which batch, and which data are refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from {{ package_name }} import data, steps
from {{ package_name }}.config import Config
from {{ package_name }}.errors import UserError

Arrays = dict[str, np.ndarray]


def make_arrays(rows: int = 40) -> Arrays:
    """Images whose first pixel is their row number."""
    x = np.zeros((rows, 4, 5, 3), np.float32)
    x[:, 0, 0, 0] = np.arange(rows)
    return {"x_train": x, "y_train": np.arange(rows) % 4}


def load(folder: Path, arrays: Arrays, **fields: object) -> data.Dataset:
    """Load the arrays from an .npz file."""
    np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
    config = Config(dataset=str(folder / "data.npz"), batch_size=8, **fields)  # type: ignore[arg-type]
    return data.load_dataset(config)


def rows_of(split: data.Split, seed: int, epoch: int) -> list[int]:
    batches = data.training_batches(split, Config(batch_size=8, seed=seed), epoch)
    return [int(row) for batch in batches for row in batch.x[..., 0, 0, 0].flat]


def test_the_order_depends_on_seed_and_epoch_alone(tmp_path: Path) -> None:
    """Any epoch of any run can be repeated; no two epochs are alike."""
    train = load(tmp_path, make_arrays()).train
    orders = {(seed, epoch): rows_of(train, seed, epoch) for seed in (0, 1) for epoch in (0, 1)}
    assert len({tuple(order) for order in orders.values()}) == 4
    assert rows_of(train, seed=1, epoch=1) == orders[1, 1]


def test_training_drops_the_rows_that_fill_no_batch(tmp_path: Path) -> None:
    """36 rows make four batches of 8, no row twice."""
    train = load(tmp_path, make_arrays(), validation_fraction=0.1).train
    rows = rows_of(train, seed=0, epoch=0)
    assert len(rows) == len(set(rows)) == 32
    assert set(rows) <= set(train.rows)


@pytest.mark.parametrize(
    ("steps_per_execution", "sizes"),
    [(1, [1] * 7), (3, [3, 3, 1]), (4, [4, 1, 1, 1]), (7, [7]), (8, [7])],
)
def test_batches_come_in_stacks(tmp_path: Path, steps_per_execution: int, sizes: list[int]) -> None:
    """Of two sizes at most, as each has to be compiled; the batches themselves are the same."""
    train = load(tmp_path, make_arrays(60), validation_fraction=0).train
    config = Config(batch_size=8, steps_per_execution=steps_per_execution)
    batches = list(data.training_batches(train, config, epoch=0))
    assert [batch.weight.shape for batch in batches] == [(size, 8) for size in sizes]
    assert data.executions_per_epoch(train, config) == len(sizes)
    singly = data.training_batches(train, Config(batch_size=8, steps_per_execution=1), epoch=0)
    for name, arrays, expected in zip(
        steps.Batch._fields, zip(*batches, strict=True), zip(*singly, strict=True), strict=True
    ):
        np.testing.assert_array_equal(np.concatenate(arrays), np.concatenate(expected), name)


def test_evaluation_counts_every_row_once(tmp_path: Path) -> None:
    """In order, in batches of one shape; the last has some of its rows again, of weight 0."""
    arrays = make_arrays() | {"w_train": np.linspace(0.5, 1, 40)}
    train = load(tmp_path, arrays, validation_fraction=0.1).train
    batches = list(data.evaluation_batches(train, 8))
    assert [len(batch.y) for batch in batches] == [8] * 5
    rows = np.concatenate([batch.x[:, 0, 0, 0] for batch in batches])
    weight = np.concatenate([batch.weight for batch in batches])
    assert list(rows) == [*train.rows, *train.rows[-4:]]
    np.testing.assert_allclose(weight[:36], arrays["w_train"][train.rows], rtol=1e-6)
    assert list(weight[36:]) == [0] * 4


def test_a_batch_keeps_inputs_labels_and_weights_together(tmp_path: Path) -> None:
    arrays = make_arrays() | {"w_train": np.linspace(0, 1, 40)}
    config = Config(batch_size=8)
    for batch in data.training_batches(load(tmp_path, arrays).train, config, epoch=0):
        rows = batch.x[..., 0, 0, 0].astype(int)
        np.testing.assert_array_equal(batch.y, arrays["y_train"][rows])
        np.testing.assert_allclose(batch.weight, arrays["w_train"][rows], rtol=1e-6)
        assert [str(array.dtype) for array in batch] == ["float32", "int32", "float32"]


def test_validation_is_held_out_the_same_way_for_every_seed(tmp_path: Path) -> None:
    """Runs of different seeds can be compared, and no row is in two splits."""
    first, second = (load(tmp_path, make_arrays(), seed=seed) for seed in (0, 1))
    assert first.validation is not None
    assert second.validation is not None
    assert list(first.validation.rows) == list(second.validation.rows)
    assert sorted([*first.validation.rows, *first.train.rows]) == list(range(40))


def test_digits_has_all_splits() -> None:
    dataset = data.load_dataset(Config())
    assert dataset.validation is not None
    assert dataset.test is not None
    sizes = [len(split.rows) for split in (dataset.train, dataset.validation, dataset.test)]
    assert sum(sizes) == 1797
    assert sizes[0] > sizes[2] > sizes[1] > 0
    assert (dataset.input_shape, dataset.num_classes) == ((8, 8, 1), 10)


def test_a_folder_of_arrays_is_memory_mapped(tmp_path: Path) -> None:
    """So data larger than the memory can be trained on; its batches equal those of an .npz."""
    arrays = make_arrays()
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    train = data.load_dataset(Config(dataset=str(tmp_path), batch_size=8)).train
    assert isinstance(train.x, np.memmap)
    assert rows_of(train, 0, 0) == rows_of(load(tmp_path, arrays).train, 0, 0)


def test_classes_are_weighed_in_training_alone(tmp_path: Path) -> None:
    """The weight of a row times the weight of its class."""
    arrays = make_arrays() | {"w_train": np.linspace(0.5, 1, 40)}
    dataset = load(tmp_path, arrays, class_weight=(1.0, 0.0, 2.0, 0.5))
    for batch in data.training_batches(dataset.train, Config(batch_size=8), epoch=0):
        rows = batch.x[..., 0, 0, 0].astype(int)
        expected = arrays["w_train"][rows] * np.array([1.0, 0.0, 2.0, 0.5])[rows % 4]
        np.testing.assert_allclose(batch.weight, expected, rtol=1e-6)
    assert dataset.validation is not None
    (batch,) = data.evaluation_batches(dataset.validation, 8)
    rows = dataset.validation.rows
    np.testing.assert_allclose(batch.weight[: len(rows)], arrays["w_train"][rows], rtol=1e-6)


def test_overfit_repeats_a_few_rows(tmp_path: Path) -> None:
    """An epoch is as long as ever, and the same rows are validated on."""
    dataset = load(tmp_path, make_arrays(), overfit=5)
    assert dataset.validation is not None
    few = set(dataset.validation.rows)
    assert len(few) == 5
    rows = rows_of(dataset.train, seed=0, epoch=0)
    assert len(rows) == 32
    assert set(rows) == few


def test_statistics_are_those_of_the_training_rows(tmp_path: Path) -> None:
    """Of each channel, as NumPy computes them; a constant channel is left as it is."""
    arrays = make_arrays(3000)
    arrays["x_train"] = np.random.default_rng(0).normal(5e6, 2, (3000, 4, 5, 3))
    arrays["x_train"][..., 1] = 0.1
    dataset = load(tmp_path, arrays)
    x = arrays["x_train"][dataset.train.rows].astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(dataset.mean, x.mean((0, 1, 2)))
    variance = x.var((0, 1, 2))
    np.testing.assert_allclose(dataset.variance, [variance[0], 1, variance[2]])


@pytest.mark.parametrize("class_weight", [(0.0,) * 4, (3e38,) * 4], ids=str)
def test_classes_of_no_or_too_great_weight_are_refused(
    tmp_path: Path, class_weight: tuple[float, ...]
) -> None:
    with pytest.raises(UserError, match="the weights of the train split add up to"):
        load(tmp_path, make_arrays(), class_weight=class_weight)


def test_overfitting_rows_of_no_weight_is_refused(tmp_path: Path) -> None:
    """It would seem to succeed."""
    weight = np.zeros(40)
    weight[0] = 1
    with pytest.raises(UserError, match="the weights of the train split add up to 0"):
        load(tmp_path, make_arrays() | {"w_train": weight}, overfit=2)


def without(key: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {name: array for name, array in arrays.items() if name != key}


def with_(**new: np.ndarray) -> Callable[[Arrays], Arrays]:
    return lambda arrays: arrays | new


def with_value(key: str, value: float) -> Callable[[Arrays], Arrays]:
    def change(arrays: Arrays) -> Arrays:
        array = arrays[key].copy()
        array.flat[-1] = value
        return arrays | {key: array}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("x_train"), "must have x_train, but all that it has is y_train"),
        (without("y_train"), "must have y_train, but all that it has is x_train"),
        (with_(x_test=np.zeros((9, 4, 5, 3))), "the dataset must have y_test"),
        (with_(y_train=np.zeros(39, int)), "x_train has 40 rows, but y_train has 39"),
        (with_(x_train=np.zeros((0, 4, 5, 3)), y_train=np.zeros(0, int)), "x_train is empty"),
        (with_(y_train=np.zeros(40)), "y_train must be integers of shape"),
        (with_(y_train=np.zeros((40, 4), int)), "y_train must be integers of shape"),
        (with_(y_train=np.zeros(40, int)), "y_train must have from 2 to 1000000 classes"),
        (with_value("y_train", 2**40), "numbered from 0, but its highest is 1099511627776"),
        (with_value("y_train", -1), "y_train must be classes from 0 on, but has -1"),
        (with_value("x_train", np.nan), "x_train has a NaN or infinite value in row 39"),
        (with_value("x_train", np.inf), "x_train has a NaN or infinite value in row 39"),
        (with_(x_train=np.full((40, 4, 5, 3), 1e200)), "x_train has a NaN or infinite value"),
        (with_(x_train=np.zeros(40)), "x_train must be numbers of shape"),
        (with_(x_train=np.full((40, 4), "a")), "x_train must be numbers of shape"),
        (
            with_(x_test=np.zeros((9, 4, 4, 3)), y_test=np.zeros(9, int)),
            r"a row of x_test must have the shape \[4, 5, 3\]",
        ),
        (
            with_(x_test=np.zeros((9, 4, 5, 3)), y_test=np.full(9, 7)),
            "y_test must have the classes of y_train, 0 to 3, but has 7",
        ),
        (with_(w_train=np.ones(39)), r"w_train must be numbers of shape \[40\], not float64"),
        (with_(w_train=np.full(40, "a")), "w_train must be numbers of shape"),
        (with_(w_train=np.full(40, -1.0)), "w_train must be 0 or more, in every row"),
        (with_(w_train=np.full(40, np.nan)), "w_train must be 0 or more, in every row"),
        (with_(w_train=np.zeros(40)), r"weights of the train split add up to 0.0"),
        (with_(w_train=np.full(40, 1e-50)), r"weights of the train split add up to 0.0"),
        (with_(w_train=np.full(40, 1e38)), r"weights of the train split add up to 3.59\d*e\+39"),
        (with_(w_trian=np.ones(40)), "the dataset has w_trian, which is none of x_train,"),
    ],
)
def test_bad_arrays_are_refused(
    tmp_path: Path, change: Callable[[Arrays], Arrays], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, change(make_arrays()))


def test_a_batch_larger_than_the_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--batch-size 8 is more than the 7 rows to train on"):
        load(tmp_path, make_arrays(7), validation_fraction=0)


def test_files_that_hold_no_arrays_are_refused(tmp_path: Path) -> None:
    """Missing, not an archive, truncated, emptied, or full of pickled objects."""
    (tmp_path / "text.npz").write_text("not an archive")
    np.savez(tmp_path / "objects.npz", x_train=np.array([{}], dtype=object))
    np.savez(tmp_path / "whole.npz", **make_arrays())  # type: ignore[arg-type]
    (tmp_path / "truncated.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:-100])
    (tmp_path / "emptied.npz").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x_train.npy").write_bytes((tmp_path / "whole.npz").read_bytes())
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    for name in ("missing", "text", "objects", "truncated", "emptied", "array"):
        with pytest.raises(UserError, match=f"{name}.npz"):
            data.load_dataset(Config(dataset=str(tmp_path / f"{name}.npz")))
    with pytest.raises(UserError, match="cannot read"):
        data.load_dataset(Config(dataset=str(tmp_path / "folder")))
