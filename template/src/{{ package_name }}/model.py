"""The model."""

import keras

from .config import Config
from .data import Dataset
# {% if add_loss %}
from .layers import ActivityRegularization
# {% endif %}

DTYPE_POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}


def build_model(config: Config, dataset: Dataset) -> keras.Model:
    """A small convolutional network, from raw inputs [B, ...] to logits [B, K].

    It takes images of any size and number of channels, or plain rows of numbers, which need no
    convolutions. It normalizes the inputs itself, so whoever loads it feeds it raw ones.
    """
    keras.config.set_dtype_policy(DTYPE_POLICIES[config.dtype])
    inputs = keras.Input(dataset.input_shape)
    # In float32 whatever the other layers compute in, which raw inputs may be too large for.
    normalize = keras.layers.Normalization(
        mean=dataset.mean, variance=dataset.variance, dtype="float32"
    )
    x = normalize(inputs)
    if len(dataset.input_shape) == 3:
        for filters in (32, 64):
            x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = keras.layers.BatchNormalization(momentum=0.9)(x)
            x = keras.layers.ReLU()(x)
            x = keras.layers.MaxPooling2D(padding="same")(x)
        x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(128, use_bias=False)(x)
    x = keras.layers.BatchNormalization(momentum=0.9)(x)
    x = keras.layers.ReLU()(x)
# {% if add_loss %}
    x = ActivityRegularization(config.activity_regularization)(x)
# {% endif %}
    x = keras.layers.Dropout(config.dropout)(x)
    # Logits in float32 whatever the layers compute in, or the loss loses its digits.
    outputs = keras.layers.Dense(dataset.num_classes, dtype="float32")(x)
    return keras.Model(inputs, outputs)
