"""The models in Flax NNX."""

import jax
import jax.numpy as jnp
from flax import nnx

from benchmarks.workloads import SEED, Weights, Workload


def build(workload: Workload, weights: Weights) -> nnx.Module:
    """A model from inputs [B, ...] to logits [B, classes], in training mode."""
    return (ConvNet if workload.kind == "convnet" else MLP)(workload, weights)


class MLP(nnx.Module):
    def __init__(self, workload: Workload, weights: Weights) -> None:
        indices = range(len(workload.hidden))
        self.hidden = nnx.List([linear(weights, index) for index in indices])
        self.norms = nnx.List()
        if workload.kind == "mlp_batch_norm":
            self.norms = nnx.List([batch_norm(weights, index) for index in indices])
        self.output = linear(weights, len(workload.hidden))

    def __call__(self, x: jax.Array) -> jax.Array:
        for index, layer in enumerate(self.hidden):
            x = layer(x)
            if self.norms:
                x = self.norms[index](x)
            x = nnx.relu(x)
        return self.output(x)


class ConvNet(nnx.Module):
    def __init__(self, workload: Workload, weights: Weights) -> None:
        indices = range(len(workload.hidden))
        self.convolutions = nnx.List([convolution(weights, index) for index in indices])
        self.norms = nnx.List([batch_norm(weights, index) for index in indices])
        self.dropout = nnx.Dropout(workload.dropout, rngs=nnx.Rngs(SEED))
        self.output = linear(weights, 0)

    def __call__(self, x: jax.Array) -> jax.Array:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = nnx.relu(norm(convolution(x)))
            x = nnx.max_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = self.dropout(x.reshape(len(x), -1))
        return self.output(x)


def linear(weights: Weights, index: int) -> nnx.Linear:
    kernel = weights[f"dense_{index}/kernel"]
    layer = nnx.Linear(*kernel.shape, rngs=nnx.Rngs(SEED))
    layer.kernel = nnx.Param(jnp.array(kernel))
    layer.bias = nnx.Param(jnp.array(weights[f"dense_{index}/bias"]))
    return layer


def convolution(weights: Weights, index: int) -> nnx.Conv:
    kernel = weights[f"conv_{index}/kernel"]
    *window, channels, filters = kernel.shape
    layer = nnx.Conv(channels, filters, window, use_bias=False, rngs=nnx.Rngs(SEED))
    layer.kernel = nnx.Param(jnp.array(kernel))
    return layer


def batch_norm(weights: Weights, index: int) -> nnx.BatchNorm:
    name = f"batch_norm_{index}"
    features = len(weights[f"{name}/gamma"])
    layer = nnx.BatchNorm(features, momentum=0.9, epsilon=1e-3, rngs=nnx.Rngs(SEED))
    layer.scale = nnx.Param(jnp.array(weights[f"{name}/gamma"]))
    layer.bias = nnx.Param(jnp.array(weights[f"{name}/beta"]))
    layer.mean = nnx.BatchStat(jnp.array(weights[f"{name}/moving_mean"]))
    layer.var = nnx.BatchStat(jnp.array(weights[f"{name}/moving_variance"]))
    return layer
