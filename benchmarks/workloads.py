"""What is trained: model, data and initial weights, the same for every contender."""

import dataclasses
import json
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

SEED = 0
LEARNING_RATE = 1e-3


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    kind: Literal["mlp", "mlp_batch_norm", "convnet"]
    input_shape: tuple[int, ...]  # of one row
    hidden: tuple[int, ...]  # the units of each hidden layer, or the filters of each convolution
    batch_size: int
    steps: int  # an epoch
    dropout: float = 0.0  # before the last layer of a convnet
    classes: int = 10
    steps_per_execution: int = 8  # optimizer steps in one device call, where a contender can
    unroll: bool = False  # whether these steps are a loop on the device or written out
    torch_threads: int | None = None  # None leaves it to PyTorch
    description: str = ""


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "S",
            kind="mlp",
            input_shape=(784,),
            hidden=(64, 64),
            batch_size=32,
            steps=1875,
            torch_threads=1,  # more of them only wait for each other
            description="dense 784-64-64-10, batches of 32: the model of Keras' guide to loops",
        ),
        Workload(
            "Z",
            kind="mlp",
            input_shape=(8,),
            hidden=(16, 16),
            batch_size=8,
            steps=2000,
            torch_threads=1,
            description="dense 8-16-16-10, batches of 8: hardly any arithmetic, so overhead alone",
        ),
        Workload(
            "M",
            kind="convnet",
            input_shape=(28, 28, 1),
            hidden=(16, 32),
            batch_size=128,
            steps=40,
            dropout=0.5,
            # On the CPU, XLA runs a convolution several times slower inside a loop.
            unroll=True,
            description="two of (convolution 3x3, BatchNorm, ReLU, max-pooling) with 16 and 32 "
            "filters, dropout, dense 10, on 28x28 images in batches of 128",
        ),
        Workload(
            "T",
            kind="mlp",
            input_shape=(784,),
            hidden=(1024, 1024),
            batch_size=256,
            steps=40,
            description="dense 784-1024-1024-10, batches of 256: bound by arithmetic",
        ),
        Workload(
            "D",
            kind="mlp_batch_norm",
            input_shape=(8,),
            hidden=(16,) * 50,
            batch_size=8,
            steps=1024,
            torch_threads=1,
            description="fifty of (dense 16, BatchNorm, ReLU), dense 10, batches of 8: "
            "many small arrays of state",
        ),
    )
}


class Data(NamedTuple):
    x: np.ndarray  # [steps * B, *input_shape] float32
    y: np.ndarray  # [steps * B] int32


Weights = dict[str, np.ndarray]  # by "<layer>/<variable>", both named as in Keras


def shuffled_rows(data: Data, epoch: int) -> np.ndarray:
    """The row numbers [N] in the order of an epoch; our projects' order for the same seed."""
    return np.random.default_rng((SEED, epoch)).permutation(len(data.y))


def synthetic_data(workload: Workload) -> Data:
    """Rows around a centre per class, which overlap, so that the loss stays well above zero."""
    rng = np.random.default_rng(SEED)
    rows = workload.batch_size * workload.steps
    y = rng.integers(workload.classes, size=rows, dtype=np.int32)
    centres = rng.standard_normal((workload.classes, *workload.input_shape), dtype=np.float32)
    # As far apart in few dimensions as in many; farther for a convnet, which takes few steps.
    distance = 10 if workload.kind == "convnet" else 3
    centres *= np.float32(distance / np.sqrt(np.prod(workload.input_shape)))
    x = rng.standard_normal((rows, *workload.input_shape), dtype=np.float32)
    x += centres[y]
    return Data(x, y)


def initial_weights(workload: Workload) -> Weights:
    """Glorot-uniform kernels; biases and BatchNorm as they are wherever nothing else is said."""
    rng = np.random.default_rng(SEED)
    weights = {}

    def add_kernel(name: str, *shape: int) -> None:
        *window, fan_in, fan_out = shape
        limit = np.sqrt(6 / (np.prod(window, dtype=int) * (fan_in + fan_out)))
        weights[f"{name}/kernel"] = rng.uniform(-limit, limit, shape).astype(np.float32)

    def add_dense(index: int, fan_in: int, fan_out: int) -> None:
        add_kernel(f"dense_{index}", fan_in, fan_out)
        weights[f"dense_{index}/bias"] = np.zeros(fan_out, np.float32)

    def add_batch_norm(index: int, features: int) -> None:
        weights[f"batch_norm_{index}/gamma"] = np.ones(features, np.float32)
        weights[f"batch_norm_{index}/beta"] = np.zeros(features, np.float32)
        weights[f"batch_norm_{index}/moving_mean"] = np.zeros(features, np.float32)
        weights[f"batch_norm_{index}/moving_variance"] = np.ones(features, np.float32)

    if workload.kind == "convnet":
        height, width, channels = workload.input_shape
        for index, filters in enumerate(workload.hidden):
            add_kernel(f"conv_{index}", 3, 3, channels, filters)
            add_batch_norm(index, filters)
            height, width, channels = height // 2, width // 2, filters
        add_dense(0, height * width * channels, workload.classes)
    else:
        (features,) = workload.input_shape
        for index, units in enumerate(workload.hidden):
            add_dense(index, features, units)
            if workload.kind == "mlp_batch_norm":
                add_batch_norm(index, units)
            features = units
        add_dense(len(workload.hidden), features, workload.classes)
    return weights


def write(workload: Workload, folder: Path) -> Path:
    """Write what a contender needs; to our projects the folder is a dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    data = synthetic_data(workload)
    np.save(folder / "x_train.npy", data.x)
    np.save(folder / "y_train.npy", data.y)
    np.savez(folder / "weights.npz", **initial_weights(workload))
    (folder / "workload.json").write_text(json.dumps(dataclasses.asdict(workload), indent=2))
    return folder


def read_workload(folder: Path) -> Workload:
    values = json.loads((folder / "workload.json").read_text())
    return Workload(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def read_data(folder: Path) -> Data:
    return Data(np.load(folder / "x_train.npy"), np.load(folder / "y_train.npy"))


def read_weights(folder: Path) -> Weights:
    with np.load(folder / "weights.npz") as archive:
        return dict(archive)
