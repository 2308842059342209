"""Keras' own `compile` and `fit`."""

import keras

from benchmarks.contenders import EpochEnded
from benchmarks.models import keras_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload


def train(
    workload: Workload,
    data: Data,
    weights: Weights,
    epochs: int,
    epoch_ended: EpochEnded,
    steps_per_execution: int = 1,
) -> None:
    model = keras_model.build(workload, weights)
    model.compile(
        optimizer=keras.optimizers.Adam(LEARNING_RATE),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        steps_per_execution=steps_per_execution,
    )
    fit(model, workload, data, epochs, epoch_ended)


def fit(
    model: keras.Model, workload: Workload, data: Data, epochs: int, epoch_ended: EpochEnded
) -> None:
    """Fit a compiled model, with no hook on batches, for which `fit` would wait."""
    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: epoch_ended(logs["loss"], logs["accuracy"])
    )
    model.fit(
        data.x,
        data.y,
        batch_size=workload.batch_size,
        epochs=epochs,
        callbacks=[callback],
        verbose=0,
    )
