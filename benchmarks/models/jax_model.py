"""The models as functions on arrays."""

import jax
import jax.numpy as jnp

from benchmarks.workloads import SEED, Weights, Workload

Arrays = dict[str, jax.Array]


def initial_arrays(workload: Workload, weights: Weights) -> tuple[Arrays, Arrays]:
    """The parameters, and the state that a forward pass updates, both by name."""
    arrays = {name: jnp.array(value) for name, value in weights.items()}
    state = {name: arrays.pop(name) for name in weights if "/moving_" in name}
    if workload.dropout:
        state["key"] = jax.random.key(SEED)
    return arrays, state


def apply(
    workload: Workload, params: Arrays, state: Arrays, x: jax.Array
) -> tuple[jax.Array, Arrays]:
    """The logits [B, classes] of inputs [B, ...] in training, and the updated state."""
    model = convnet if workload.kind == "convnet" else mlp
    return model(workload, params, state, x)


def mlp(
    workload: Workload, params: Arrays, state: Arrays, x: jax.Array
) -> tuple[jax.Array, Arrays]:
    updates: Arrays = {}
    for index in range(len(workload.hidden)):
        x = dense(params, index, x)
        if workload.kind == "mlp_batch_norm":
            x, statistics = batch_norm(params, state, index, x)
            updates |= statistics
        x = jax.nn.relu(x)
    return dense(params, len(workload.hidden), x), state | updates


def convnet(
    workload: Workload, params: Arrays, state: Arrays, x: jax.Array
) -> tuple[jax.Array, Arrays]:
    updates: Arrays = {}
    for index in range(len(workload.hidden)):
        x = jax.lax.conv_general_dilated(
            x,
            params[f"conv_{index}/kernel"],
            window_strides=(1, 1),
            padding="SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        x, statistics = batch_norm(params, state, index, x)
        updates |= statistics
        x = jax.nn.relu(x)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    if workload.dropout:
        updates["key"], key = jax.random.split(state["key"])
        keep = jax.random.bernoulli(key, 1 - workload.dropout, x.shape)
        x = jnp.where(keep, x / (1 - workload.dropout), 0)
    return dense(params, 0, x), state | updates


def dense(params: Arrays, index: int, x: jax.Array) -> jax.Array:
    return x @ params[f"dense_{index}/kernel"] + params[f"dense_{index}/bias"]


def batch_norm(params: Arrays, state: Arrays, index: int, x: jax.Array) -> tuple[jax.Array, Arrays]:
    """Normalize each channel of [..., C] over the batch, and follow its statistics."""
    name = f"batch_norm_{index}"
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    variance = jnp.square(x).mean(axes) - jnp.square(mean)
    scale = params[f"{name}/gamma"] * jax.lax.rsqrt(variance + 1e-3)
    statistics = {
        f"{name}/moving_mean": 0.9 * state[f"{name}/moving_mean"] + 0.1 * mean,
        f"{name}/moving_variance": 0.9 * state[f"{name}/moving_variance"] + 0.1 * variance,
    }
    return (x - mean) * scale + params[f"{name}/beta"], statistics
