"""An Optax gradient transformation as an optimizer of Keras, for `build_optimizer` to return."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import optax


class OptaxOptimizer(keras.optimizers.Optimizer):
    """Takes the updates that an Optax gradient transformation makes of the gradients.

    The transformation sees gradients and weights as a dict of arrays by `variable.path`, so that
    masks and labels can tell them apart. Learning rate and weight decay are its own affair; of the
    options of Keras' optimizers it takes the others, such as `gradient_accumulation_steps`,
    `global_clipnorm` and `use_ema`. Its state becomes optimizer variables, like any other.
    """

    def __init__(self, transformation: optax.GradientTransformation, **options: Any) -> None:
        super().__init__(learning_rate=lambda: 1.0, weight_decay=None, **options)
        self.transformation = transformation

    @property
    def learning_rate(self) -> float:
        """What Keras multiplies the updates with; there is no setter, as nothing would change."""
        return 1.0

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the variables of the state, with the values that Optax begins with."""
        super().build(variables)
        params = {variable.path: variable.value for variable in variables}
        if len(params) < len(variables):
            raise ValueError("two weights have the same path: give their layers different names")
        leaves, self.state_structure = jax.tree.flatten(self.transformation.init(params))
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        self.state_keys = [random_key_type(leaf) for leaf in leaves]
        # Copies: some states begin as the weights themselves, and both are donated.
        values = [jnp.copy(to_numbers(leaf)) for leaf in leaves]
        self.state_variables = [
            self.add_variable(
                value.shape,
                initializer=lambda shape, dtype, value=value: value,
                dtype=str(value.dtype),
                name=f"optax_{number}",
            )
            for number, value in enumerate(values)
        ]

    def _backend_update_step(
        self, grads: Sequence[jax.Array], trainable_variables: Sequence[keras.Variable], _: Any
    ) -> None:
        # The one method of Keras' optimizers that sees all gradients at once, clipped, accumulated.
        paths = [variable.path for variable in trainable_variables]
        params = {variable.path: variable.value for variable in trainable_variables}
        leaves = [
            variable.value if key is None else jax.random.wrap_key_data(variable.value, impl=key)
            for variable, key in zip(self.state_variables, self.state_keys, strict=True)
        ]
        state = jax.tree.unflatten(self.state_structure, leaves)
        updates, state = self.transformation.update(
            dict(zip(paths, grads, strict=True)), state, params
        )
        params = optax.apply_updates(params, updates)
        for variable in trainable_variables:
            variable.assign(params[variable.path])
        for variable, leaf in zip(self.state_variables, jax.tree.leaves(state), strict=True):
            variable.assign(to_numbers(leaf))


def random_key_type(leaf: jax.Array) -> Any:
    """The generator of a random key, or None for an array of numbers."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_impl(leaf) if is_key else None


def to_numbers(leaf: jax.Array) -> jax.Array:
    """A random key as the array of numbers that a variable can hold."""
    return leaf if random_key_type(leaf) is None else jax.random.key_data(leaf)
