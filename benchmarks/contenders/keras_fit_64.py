"""Keras' own `fit` with `steps_per_execution`."""

from functools import partial

from benchmarks.contenders import keras_fit

train = partial(keras_fit.train, steps_per_execution=64)
