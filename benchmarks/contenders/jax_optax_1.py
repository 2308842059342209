"""Plain JAX and Optax, one step in one device call."""

from functools import partial

from benchmarks.contenders import jax_optax

train = partial(jax_optax.train, steps_per_execution=1)
