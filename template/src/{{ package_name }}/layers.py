"""Layers of our own."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package=__package__)
class ActivityRegularization(keras.layers.Layer):
    """Pass the inputs on, and add the penalty `rate * mean(inputs ** 2)` to the loss."""

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        self.add_loss(self.rate * keras.ops.mean(keras.ops.square(inputs)))
        return inputs

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
