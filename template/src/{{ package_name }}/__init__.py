"""Importing this package selects JAX as the Keras backend, so import it before Keras."""

import os
import sys

from .errors import UserError

os.environ.setdefault("KERAS_BACKEND", "jax")


def check_backend() -> None:
    """Raise a `UserError` if Keras runs, or is about to run, on another backend than JAX."""
    keras = sys.modules.get("keras")
    backend = keras.backend.backend() if keras else os.environ["KERAS_BACKEND"]
    if backend != "jax":
        raise UserError(
            f"this project trains with Keras on JAX, but the Keras backend is {backend!r}; "
            "set KERAS_BACKEND=jax, or unset it, before Keras is imported"
        )
