"""Who is timed. Each module has a function

    train(workload, data, weights, epochs, epoch_ended)

that trains a workload as the guides of its library do. It calls `epoch_ended(loss, accuracy)` with
the means over an epoch, as floats, once the epoch is computed, and is timed by these calls.
"""

from collections.abc import Callable
from typing import NamedTuple

EpochEnded = Callable[[float, float], None]


class Epoch(NamedTuple):
    seconds: float  # of the first epoch with all that precedes it, compilation included
    loss: float
    accuracy: float


class Contender(NamedTuple):
    title: str
    packages: tuple[str, ...]  # that it imports
    own_order: bool = False  # whether its library shuffles, in an order of its own


KERAS = ("keras", "jax")
PROJECT = (*KERAS, "copier", "tyro", "rich")
CONTENDERS = {
    "jax_optax": Contender("JAX and Optax, k steps a call", ("jax", "optax")),
    "jax_optax_1": Contender("JAX and Optax, one step a call", ("jax", "optax")),
    "scratch": Contender("this template, scratch", PROJECT),
    "fit": Contender("this template, fit", PROJECT),
    "keras_fit": Contender("Keras' fit", KERAS, own_order=True),
    "keras_fit_64": Contender("Keras' fit, steps_per_execution=64", KERAS, own_order=True),
    "keras_train_step": Contender("Keras' guide to train_step", KERAS, own_order=True),
    "keras_loop": Contender("Keras' guide to loops", KERAS),
    "flax_nnx": Contender("Flax NNX, functional", ("jax", "flax", "optax")),
    "flax_nnx_jit": Contender("Flax NNX, nnx.jit", ("jax", "flax", "optax")),
    "torch_slices": Contender("PyTorch, slices of tensors", ("torch",)),
    "torch_loader": Contender("PyTorch, DataLoader", ("torch",), own_order=True),
    "lightning": Contender("Lightning", ("torch", "lightning"), own_order=True),
}
OURS = ("scratch", "fit")  # the projects, which benchmarks/projects.py renders and trains
