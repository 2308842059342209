"""How fast the generated projects are to be, beside others."""

from typing import NamedTuple


class Goal(NamedTuple):
    workload: str
    contender: str
    rivals: tuple[str, ...]  # of several, the fastest
    factor: float  # the rival's time over the contender's, at least


def both(workload: str, rivals: tuple[str, ...], scratch: float, fit: float) -> list[Goal]:
    return [Goal(workload, "scratch", rivals, scratch), Goal(workload, "fit", rivals, fit)]


PLAIN_JAX = ("jax_optax",)
KERAS_DEFAULT = ("keras_fit",)
KERAS_BEST = ("keras_fit", "keras_fit_64")
GOALS = [
    *both("Z", PLAIN_JAX, 0.85, 0.7),
    *both("S", PLAIN_JAX, 0.95, 0.9),
    *both("M", PLAIN_JAX, 0.95, 0.9),
    *both("Z", KERAS_BEST, 4, 2.5),
    *both("S", KERAS_BEST, 1.5, 1.4),
    *both("S", KERAS_DEFAULT, 2, 1.9),
    *both("M", KERAS_DEFAULT, 1.25, 1.15),
    *both("S", ("keras_loop",), 1.8, 1.7),
    *both("S", ("flax_nnx",), 2, 1.9),
    *both("S", ("flax_nnx_jit",), 8, 7.5),
    *both("S", ("torch_slices",), 3.3, 3),
    *both("S", ("lightning",), 9, 8.5),
]
