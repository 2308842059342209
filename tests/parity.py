"""Train each case by the driver of a project, or by Keras' own fit, and write down what came of it.

    python parity.py DRIVER FOLDER [CASE ...]

With DRIVER `keras`, a case is a plain keras.Model that is compiled and fitted with what Keras
itself offers; the project lends it nothing but the model, the batches and their order. With
`project`, its `train` runs. Both write FOLDER/CASE.npz.
"""

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported

import jax
import keras
import numpy as np
import optax
from my_project import (
    config,
    data,
    losses,
    metrics,
    model_file,
    optimizer,
    reporting,
    steps,
    train,
)
from my_project.optax_optimizer import OptaxOptimizer

ROWS, VALIDATION_ROWS, BATCH_SIZE, EPOCHS = 104, 40, 16, 3
STEPS_PER_EPOCH = ROWS // BATCH_SIZE
K = keras.layers


@dataclasses.dataclass
class Case:
    """One training, said twice: in fields of the project's Config, and in arguments of Keras."""

    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    optimizer: Callable[[], keras.optimizers.Optimizer] = lambda: keras.optimizers.SGD(
        0.05, momentum=0.9
    )
    build_model: Callable[[], keras.Model] | None = None  # by default `dense`
    arrays: Callable[[], dict[str, Any]] | None = None  # by default `digits`
    loss: Any = None  # by default the sparse cross-entropy of logits
    tolerance: float = 0.0  # the greatest difference of two numbers; 0: equal to the last bit
    build_loss: Callable[[], Any] | None = None  # the project's, where it is not the default
    metrics: Callable[[], Any] = lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    build_metrics: Callable[[], list[Any]] | None = None
    build_optimizer: Callable[..., Any] | None = None
    callbacks: Callable[[], list[Any]] = list
    fit: dict[str, Any] = dataclasses.field(default_factory=dict)
    one_hot: bool = False  # Keras' loss wants its labels so
    same_loss: bool = True  # whether Keras and a project mean the same by the loss of an epoch
    same_optimizer: bool = True  # whether the optimizer's variables are the same on both sides
    partial: bool = False  # train on the rows, too, that fill no batch


def crossentropy() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def weighted_crossentropy() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )


# Data


def digits() -> dict[str, Any]:
    table = np.loadtxt(
        Path(data.__file__).with_name("digits.csv"), delimiter=",", dtype=np.float32
    )[: ROWS + VALIDATION_ROWS]
    x, y = table[:, :-1] / 16, table[:, -1].astype("int32")
    return {"x": x, "y": y, "w": None}


def weighted_metrics() -> list[Any]:
    """With the mean loss of a row, by its weight, which is not what Keras calls the loss then."""
    return [
        keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="row_loss"),
    ]


def weighted_digits() -> dict[str, Any]:
    weights = np.random.default_rng(1).uniform(0.2, 3, ROWS + VALIDATION_ROWS)
    return digits() | {"w": weights.astype("float32")}


def texts() -> dict[str, Any]:
    """Sentences of 2 to 9 tokens from 1 to 19, filled up with 0; the class is that of the first."""
    rng = np.random.default_rng(2)
    x = rng.integers(1, 20, (ROWS + VALIDATION_ROWS, 9))
    x[np.arange(9) >= rng.integers(2, 10, len(x))[:, None]] = 0
    return {"x": x.astype("int32"), "y": (x[:, 0] % 4).astype("int32"), "w": None}


def tagged_texts() -> dict[str, Any]:
    x = texts()["x"]
    return {"x": x, "y": (x % 3).astype("int32"), "w": np.ones((len(x), 1), "float32")}


def two_inputs() -> dict[str, Any]:
    x = digits()["x"]
    return digits() | {"x": {"left": x[:, :32], "right": x[:, 32:]}}


def two_outputs() -> dict[str, Any]:
    y = digits()["y"]
    return digits() | {"y": {"digit": y, "parity": y % 2}}


# Models


def dense() -> keras.Model:
    inputs = keras.Input((64,))
    x = K.Dense(24, use_bias=False)(inputs)
    x = K.BatchNormalization(momentum=0.9)(x)
    x = K.ReLU()(x)
    x = K.Dropout(0.3)(x)
    return keras.Model(inputs, K.Dense(10, dtype="float32")(x))


def sequential() -> keras.Model:
    return keras.Sequential(
        [K.Dense(24, activation="relu"), K.BatchNormalization(), K.Dropout(0.3), K.Dense(10)]
    )


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = K.Dense(24, activation="relu")
        self.norm = K.BatchNormalization()
        self.dropout = K.Dropout(0.2)
        self.out = K.Dense(10)

    def call(self, x: Any, training: bool = False) -> Any:
        x = self.norm(self.hidden(x), training=training)
        return self.out(self.dropout(x, training=training))


class WithoutTraining(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = K.Dense(24, activation="relu")
        self.out = K.Dense(10)

    def call(self, x: Any) -> Any:
        return self.out(self.hidden(x))


def masked_classifier() -> keras.Model:
    inputs = keras.Input((9,), dtype="int32")
    x = K.Embedding(20, 8, mask_zero=True)(inputs)
    x = K.GRU(8, return_sequences=True)(x)
    return keras.Model(inputs, K.Dense(4)(K.GlobalAveragePooling1D()(x)))


def masked_tagger() -> keras.Model:
    inputs = keras.Input((9,), dtype="int32")
    return keras.Model(inputs, K.Dense(3)(K.Embedding(20, 8, mask_zero=True)(inputs)))


def merging() -> keras.Model:
    inputs = {name: keras.Input((32,), name=name) for name in ("left", "right")}
    x = K.Concatenate()([K.Dense(12, activation="relu")(x) for x in inputs.values()])
    return keras.Model(inputs, K.Dense(10)(K.Dropout(0.2)(x)))


def branching() -> keras.Model:
    inputs = keras.Input((64,))
    x = K.Dropout(0.2)(K.Dense(24, activation="relu")(inputs))
    return keras.Model(
        inputs, {"digit": K.Dense(10, name="digit")(x), "parity": K.Dense(2, name="parity")(x)}
    )


def regularized() -> keras.Model:
    inputs = keras.Input((64,))
    x = K.Dense(24, kernel_regularizer="l2", activity_regularizer="l1", activation="relu")(inputs)
    return keras.Model(inputs, K.Dense(10, bias_regularizer="l1")(K.Dropout(0.3)(x)))


def constrained() -> keras.Model:
    inputs = keras.Input((64,))
    x = K.Dense(24, activation="relu", kernel_constraint=keras.constraints.MaxNorm(0.5))(inputs)
    return keras.Model(inputs, K.Dense(10, bias_constraint="non_neg")(x))


def partly_frozen() -> keras.Model:
    model = dense()
    for layer in model.layers[:3]:  # with its BatchNormalization
        layer.trainable = False
    return model


class Penalty(K.Layer):
    def call(self, x: Any) -> Any:
        self.add_loss(1e-2 * keras.ops.mean(keras.ops.square(x)))
        return x


class Block(K.Layer):
    """A layer with layers, of which one has a penalty, and with a penalty of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = K.Dense(24, activation="relu")
        self.penalty = Penalty()

    def call(self, x: Any) -> Any:
        x = self.penalty(self.hidden(x))
        self.add_loss(1e-2 * keras.ops.mean(keras.ops.abs(x)))
        return x


def nested_penalties() -> keras.Model:
    inputs = keras.Input((64,))
    inner = keras.Sequential([Block(), Block()])
    return keras.Model(inputs, K.Dense(10)(Penalty()(inner(inputs))))


class Centering(K.Layer):
    """Subtract the running mean of all batches so far, which it keeps, and count them."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.count.assign(self.count + 1)
            mean = keras.ops.mean(x, axis=0)
            self.mean.assign(self.mean + (mean - self.mean) / self.count)
        return x - self.mean


class Noise(K.Layer):
    """Add noise from a generator of its own, in training."""

    def __init__(self) -> None:
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(3)

    def call(self, x: Any, training: bool = False) -> Any:
        if not training:
            return x
        return x + 0.1 * keras.random.normal(keras.ops.shape(x), seed=self.seed_generator)


def stateful() -> keras.Model:
    inputs = keras.Input((64,))
    return keras.Model(inputs, K.Dense(10)(Centering()(K.Dense(24, activation="relu")(inputs))))


def noisy() -> keras.Model:
    return keras.Sequential(
        [keras.Input((64,)), Noise(), K.Dense(24, activation="relu"), K.Dense(10)]
    )


# Schedules, by their formulas


class Table(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of each step, computed by NumPy beforehand."""

    def __init__(self, rates: np.ndarray) -> None:
        self.rates = np.asarray(rates, np.float32)

    def __call__(self, step: Any) -> Any:
        return keras.ops.take(keras.ops.convert_to_tensor(self.rates), step)


def cosine_table(peak: float, warmup: int, accumulated: int = 1) -> Table:
    update = np.arange(STEPS_PER_EPOCH * EPOCHS) // accumulated
    updates = STEPS_PER_EPOCH * EPOCHS // accumulated
    falling = 0.5 * (1 + np.cos(np.pi * (update - warmup) / (updates - warmup)))
    return Table(peak * np.where(update < warmup, update / max(warmup, 1), falling))


SGD, Adam = keras.optimizers.SGD, keras.optimizers.Adam
sgd = {"learning_rate": 0.05, "momentum": 0.9}
swap = {"callbacks": lambda: [keras.callbacks.SwapEMAWeights()]}
weighted = {"loss": weighted_crossentropy, "metrics": weighted_metrics}
CPU_ROUNDING = 1e-6  # of float32, where formulas are the same and their evaluation is not

CASES = {
    # Each option by itself
    "sgd": Case(),
    "adam": Case({"optimizer": "adam", "learning_rate": 2e-3}, lambda: keras.optimizers.Adam(2e-3)),
    "adamw": Case(
        {"optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.01},
        lambda: keras.optimizers.AdamW(2e-3, weight_decay=0.01),
    ),
    "lion": Case({"optimizer": "lion", "learning_rate": 1e-3}, lambda: keras.optimizers.Lion(1e-3)),
    "cosine": Case(
        {"schedule": "cosine"},
        lambda: SGD(cosine_table(0.05, 0), momentum=0.9),
        tolerance=CPU_ROUNDING,  # NumPy's cosine and XLA's
    ),
    "warm-up": Case(
        {"schedule": "cosine", "warmup_steps": 5},
        lambda: SGD(cosine_table(0.05, 5), momentum=0.9),
        tolerance=CPU_ROUNDING,
    ),
    "weight decay": Case({"weight_decay": 0.02}, lambda: SGD(**sgd, weight_decay=0.02)),
    "clipping": Case({"global_clipnorm": 0.3}, lambda: SGD(**sgd, global_clipnorm=0.3)),
    "accumulation": Case(
        {"gradient_accumulation_steps": 4}, lambda: SGD(**sgd, gradient_accumulation_steps=4)
    ),
    "average": Case(
        {"ema_momentum": 0.9}, lambda: SGD(**sgd, use_ema=True, ema_momentum=0.9), **swap
    ),
    "steps in a loop": Case(
        {"steps_per_execution": 4, "learning_rate": 0.04},
        lambda: SGD(0.04, momentum=0.9),
        tolerance=CPU_ROUNDING,
    ),
    "steps unrolled": Case(
        {"steps_per_execution": 4, "unroll": "always", "learning_rate": 0.03},
        lambda: SGD(0.03, momentum=0.9),
        tolerance=CPU_ROUNDING,
    ),
    "bfloat16": Case({"dtype": "bfloat16"}),
    "float16": Case({"dtype": "float16"}),
    "class weights": Case(
        {"class_weight": tuple(float(n % 3) for n in range(10))},
        **weighted,
        fit={"class_weight": {n: float(n % 3) for n in range(10)}},
    ),
    "early stopping": Case(
        {"patience": 1, "monitor": "val_accuracy", "learning_rate": 1e-4},
        lambda: SGD(1e-4, momentum=0.9),
        callbacks=lambda: [
            keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="max", patience=1)
        ],
    ),
    "label smoothing": Case(
        {"label_smoothing": 0.2},
        loss=lambda: keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2),
        metrics=lambda: [keras.metrics.CategoricalAccuracy(name="accuracy")],
        one_hot=True,
        tolerance=CPU_ROUNDING,  # labels are smoothed here in float32, there in float64
    ),
    "sample weights": Case(arrays=weighted_digits, **weighted),
    "optax": Case(
        build_optimizer=lambda *_: OptaxOptimizer(optax.sgd(0.05, momentum=0.9)),
        same_optimizer=False,
        tolerance=CPU_ROUNDING,  # Optax multiplies by the rate after the momentum, not before
    ),
    # Options that act on each other
    "accumulation, warm-up": Case(
        {"gradient_accumulation_steps": 3, "schedule": "cosine", "warmup_steps": 2},
        lambda: SGD(cosine_table(0.05, 2, 3), momentum=0.9, gradient_accumulation_steps=3),
        tolerance=CPU_ROUNDING,
    ),
    "average, clipping": Case(
        {"ema_momentum": 0.9, "global_clipnorm": 0.3},
        lambda: SGD(**sgd, use_ema=True, ema_momentum=0.9, global_clipnorm=0.3),
        **swap,
    ),
    "optax, average, accumulation, float16": Case(
        {"dtype": "float16"},
        lambda: SGD(0.05, gradient_accumulation_steps=3, use_ema=True, ema_momentum=0.9),
        build_optimizer=lambda *_: keras.optimizers.LossScaleOptimizer(
            OptaxOptimizer(
                optax.sgd(0.05), gradient_accumulation_steps=3, use_ema=True, ema_momentum=0.9
            )
        ),
        same_optimizer=False,
        tolerance=CPU_ROUNDING,
        **swap,
    ),
    "average, accumulation": Case(
        {"ema_momentum": 0.9, "gradient_accumulation_steps": 4},
        lambda: SGD(**sgd, use_ema=True, ema_momentum=0.9, gradient_accumulation_steps=4),
        **swap,
    ),
    "float16, accumulation, average, clipping, decay": Case(
        {
            "dtype": "float16",
            "gradient_accumulation_steps": 3,
            "ema_momentum": 0.9,
            "global_clipnorm": 0.3,
            "weight_decay": 0.02,
        },
        lambda: SGD(
            **sgd,
            gradient_accumulation_steps=3,
            use_ema=True,
            ema_momentum=0.9,
            global_clipnorm=0.3,
            weight_decay=0.02,
        ),
        **swap,
    ),
    "partial batches": Case(partial=True),
    "partial batches, sample weights": Case(arrays=weighted_digits, partial=True, **weighted),
    # Styles of models
    "sequential": Case(build_model=sequential),
    "subclassed": Case(build_model=Subclassed),
    "subclassed without training": Case(build_model=WithoutTraining),
    "masked classifier": Case(build_model=masked_classifier, arrays=texts),
    "masked tagger": Case(
        build_model=masked_tagger,
        arrays=tagged_texts,
        loss=weighted_crossentropy,
        metrics=list,
        build_metrics=list,
    ),
    "two inputs": Case(build_model=merging, arrays=two_inputs),
    "two outputs": Case(
        build_model=branching,
        arrays=two_outputs,
        loss=lambda: {"digit": crossentropy(), "parity": crossentropy()},
        build_loss=lambda: {"digit": weighted_crossentropy(), "parity": weighted_crossentropy()},
        metrics=lambda: {"digit": keras.metrics.SparseCategoricalAccuracy(name="accuracy")},
        build_metrics=lambda: [
            keras.metrics.MeanMetricWrapper(
                lambda y, y_pred: keras.metrics.sparse_categorical_accuracy(
                    y["digit"], y_pred["digit"]
                ),
                name="digit_accuracy",
            )
        ],
    ),
    "regularizers": Case(build_model=regularized),
    "constraints": Case(build_model=constrained),
    "frozen layers": Case(build_model=partly_frozen),
    "constraints, optax": Case(
        build_model=constrained,
        build_optimizer=lambda *_: OptaxOptimizer(optax.sgd(0.05, momentum=0.9)),
        same_optimizer=False,
        tolerance=CPU_ROUNDING,
    ),
    "nested penalties": Case(
        build_model=nested_penalties,
        tolerance=CPU_ROUNDING,  # gradients of several penalties are added in another order
    ),
    "state of its own": Case(build_model=stateful),
    "noise": Case(build_model=noisy),
    "regularizers, sample weights, average": Case(
        {"ema_momentum": 0.9},
        lambda: SGD(**sgd, use_ema=True, ema_momentum=0.9),
        build_model=regularized,
        arrays=weighted_digits,
        loss=weighted_crossentropy,
        same_loss=False,
        metrics=list,
        build_metrics=list,
        **swap,
    ),
    "two outputs, accumulation, float16": Case(
        {"dtype": "float16", "gradient_accumulation_steps": 4},
        lambda: SGD(**sgd, gradient_accumulation_steps=4),
        build_model=branching,
        arrays=two_outputs,
        loss=lambda: {"digit": crossentropy(), "parity": crossentropy()},
        build_loss=lambda: {"digit": weighted_crossentropy(), "parity": weighted_crossentropy()},
        metrics=list,
        build_metrics=list,
        tolerance=1e-4,  # a tenth of the distance of two numbers near 1 in float16
    ),
}


# The two sides


def make_config(case: Case) -> config.Config:
    fields = {
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "schedule": "constant",
        "steps_per_execution": 1,
        "keep_checkpoints": 0,
        **case.fields,
    }
    return config.Config(epochs=EPOCHS, batch_size=BATCH_SIZE, seed=5, **fields)


def take(arrays: Any, rows: Any) -> Any:
    return jax.tree.map(lambda array: array[rows], arrays)


def load_dataset(case: Case, cfg: config.Config) -> data.Dataset:
    arrays = (case.arrays or digits)()
    splits = [
        data.Split(name, arrays["x"], arrays["y"], arrays["w"], rows)
        for name, rows in (
            ("train", np.arange(ROWS)),
            ("validation", np.arange(ROWS, ROWS + VALIDATION_ROWS)),
        )
    ]
    if cfg.class_weight:
        splits[0] = data.weigh_classes(splits[0], cfg.class_weight, num_classes=10)
    return data.Dataset(*splits, None, (64,), 10, [], [])


def gather(split: data.Split, rows: np.ndarray) -> Any:
    weight = np.ones(rows.shape, "float32") if split.weight is None else split.weight[rows]
    return steps.Batch(take(split.x, rows), take(split.y, rows), weight)


def build_model(case: Case, cfg: config.Config) -> keras.Model:
    policies = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
    keras.config.set_dtype_policy(policies[cfg.dtype])
    return (case.build_model or dense)()


def write(
    path: Path,
    weights: list[keras.Variable],
    optimizer_: list[keras.Variable],
    history: dict[str, list[float]],
) -> None:
    arrays = {f"weight {n}": np.asarray(v.value) for n, v in enumerate(weights)}
    case = CASES[path.stem]
    if case.same_optimizer:
        # A constant rate is a variable in Keras and a schedule here.
        optimizer_ = [v for v in optimizer_ if v.name != "learning_rate"]
        arrays |= {f"optimizer {n}": np.asarray(v.value) for n, v in enumerate(optimizer_)}
    if not case.same_loss:
        history = {name: values for name, values in history.items() if "loss" not in name}
    np.savez(path, history=np.array(json.dumps(history)), tolerance=case.tolerance, **arrays)


def run_project(case: Case, path: Path) -> None:
    """By the project's train, given this case's model, arrays, loss and metrics."""
    cfg, made = make_config(case), {}
    results: dict[str, list[float]] = {}

    def remember(name: str, build: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            made[name] = build(*args)
            return made[name]

        return wrapper

    def epoch(self: Any, number: int, logs: dict[str, float], updates: int) -> None:
        for name, value in logs.items():
            results.setdefault(name, []).append(value)

    def training_batches(split: data.Split, cfg: config.Config, epoch: int, _: int = 0) -> Any:
        order = np.random.default_rng((cfg.seed, epoch)).permutation(split.rows)
        for start in range(0, len(order), BATCH_SIZE):
            yield gather(split, order[np.newaxis, start : start + BATCH_SIZE])

    def steps_per_epoch(split: data.Split, batch_size: int) -> int:
        return -(-len(split.rows) // batch_size)

    partial = [
        (data, "training_batches", training_batches),
        (data, "steps_per_epoch", steps_per_epoch),
    ]
    patches = [
        (model_file, "check_model", lambda _: None),
        (model_file, "save_model", lambda *_: None),
        (train, "build_model", remember("model", lambda *_: build_model(case, cfg))),
        (
            train,
            "build_optimizer",
            remember("optimizer", case.build_optimizer or optimizer.build_optimizer),
        ),
        (
            train,
            "build_loss",
            lambda _: case.build_loss() if case.build_loss else losses.build_loss(cfg),
        ),
        (train, "build_metrics", case.build_metrics or metrics.build_metrics),
        (data, "load_dataset", lambda _: load_dataset(case, cfg)),
        (data, "gather", gather),
        (reporting.Report, "epoch", epoch),
        *(partial if case.partial else []),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    try:
        for owner, name, value in patches:
            setattr(owner, name, value)
        with tempfile.TemporaryDirectory() as folder:
            train.train(cfg, Path(folder) / "run")
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)
    write(path, made["model"].variables, made["optimizer"].variables, results)


class Batches(keras.utils.PyDataset):
    """The batches of an epoch as Keras wants them, in the order of the project."""

    def __init__(self, case: Case, cfg: config.Config) -> None:
        super().__init__()
        self.case, self.cfg, self.epoch = case, cfg, 0
        self.arrays = (case.arrays or digits)()

    def __len__(self) -> int:
        return -(-ROWS // BATCH_SIZE) if self.case.partial else STEPS_PER_EPOCH

    def begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> Any:
        order = np.random.default_rng((self.cfg.seed, self.epoch)).permutation(ROWS)
        return self.rows(order[index * BATCH_SIZE : (index + 1) * BATCH_SIZE])

    def rows(self, rows: np.ndarray) -> Any:
        y = take(self.arrays["y"], rows)
        batch = take(self.arrays["x"], rows), np.eye(10)[y] if self.case.one_hot else y
        return batch if self.arrays["w"] is None else (*batch, self.arrays["w"][rows])


def run_keras(case: Case, path: Path) -> None:
    """By compile and fit of Keras alone."""
    cfg = make_config(case)
    keras.utils.set_random_seed(cfg.seed)
    model = build_model(case, cfg)
    model.compile(
        optimizer=case.optimizer(),
        loss=(case.loss or crossentropy)(),
        weighted_metrics=case.metrics(),
    )
    batches = Batches(case, cfg)
    history = model.fit(
        batches,
        epochs=EPOCHS,
        shuffle=False,
        validation_data=batches.rows(np.arange(ROWS, ROWS + VALIDATION_ROWS)),
        validation_batch_size=BATCH_SIZE,
        callbacks=[
            keras.callbacks.LambdaCallback(on_epoch_begin=batches.begin),
            *case.callbacks(),
        ],
        verbose=0,
        **case.fit,
    )
    write(path, model.variables, model.optimizer.variables, history.history)


if __name__ == "__main__":
    driver, folder, *names = sys.argv[1:]
    for name in names or CASES:
        print(name, flush=True)
        {"keras": run_keras, "project": run_project}[driver](
            CASES[name], Path(folder) / f"{name}.npz"
        )
