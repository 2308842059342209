"""The models in Keras, by its Functional API."""

import keras

from benchmarks.workloads import Weights, Workload


def build(
    workload: Workload, weights: Weights, model_class: type[keras.Model] = keras.Model
) -> keras.Model:
    """A model from inputs [B, ...] to logits [B, classes]."""
    inputs = keras.Input(workload.input_shape)
    layers = convnet if workload.kind == "convnet" else mlp
    model = model_class(inputs, layers(workload, inputs))
    for layer in model.layers:
        layer.set_weights([weights[f"{layer.name}/{weight.name}"] for weight in layer.weights])
    return model


def mlp(workload: Workload, x: keras.KerasTensor) -> keras.KerasTensor:
    for index, units in enumerate(workload.hidden):
        if workload.kind == "mlp_batch_norm":
            x = keras.layers.Dense(units, name=f"dense_{index}")(x)
            x = batch_norm(index)(x)
            x = keras.layers.ReLU()(x)
        else:
            x = keras.layers.Dense(units, activation="relu", name=f"dense_{index}")(x)
    return keras.layers.Dense(workload.classes, name=f"dense_{len(workload.hidden)}")(x)


def convnet(workload: Workload, x: keras.KerasTensor) -> keras.KerasTensor:
    for index, filters in enumerate(workload.hidden):
        name = f"conv_{index}"
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False, name=name)(x)
        x = batch_norm(index)(x)
        x = keras.layers.ReLU()(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dropout(workload.dropout)(x)
    return keras.layers.Dense(workload.classes, name="dense_0")(x)


def batch_norm(index: int) -> keras.Layer:
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3, name=f"batch_norm_{index}")
