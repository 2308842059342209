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
    model.fit(
        data.x,
        data.y,
        batch_size=workload.batch_size,
        epochs=epochs,
        callbacks=[on_epoch_end(epoch_ended)],
        verbose=0,
    )


def on_epoch_end(epoch_ended: EpochEnded) -> keras.callbacks.Callback:
    """A callback without hooks on batches, for which `fit` would wait."""
    return keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: epoch_ended(logs["loss"], logs["accuracy"])
    )
