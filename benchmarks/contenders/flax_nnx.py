"""Flax NNX, as its guide to performance advises: split once, and jit a functional step.

https://flax.readthedocs.io/en/latest/guides/performance.html
"""

from functools import partial

import jax
import optax
from flax import nnx

from benchmarks.contenders import EpochEnded
from benchmarks.models import flax_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload, shuffled_rows


@partial(jax.jit, donate_argnums=1)
def train_step(graphdef, state, x, y):
    model, optimizer, metrics = nnx.merge(graphdef, state)

    def loss_fn(model):
        logits = model(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), logits

    (loss, logits), gradients = nnx.value_and_grad(loss_fn, has_aux=True)(model)
    optimizer.update(model, gradients)
    metrics.update(loss=loss, logits=logits, labels=y)
    return nnx.state((model, optimizer, metrics))


def train(
    workload: Workload, data: Data, weights: Weights, epochs: int, epoch_ended: EpochEnded
) -> None:
    model = flax_model.build(workload, weights)
    optimizer = nnx.Optimizer(model, optax.adam(LEARNING_RATE), wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())
    for epoch in range(epochs):
        metrics.reset()
        graphdef, state = nnx.split((model, optimizer, metrics))
        order = shuffled_rows(data, epoch)
        for start in range(0, len(order), workload.batch_size):
            rows = order[start : start + workload.batch_size]
            state = train_step(graphdef, state, data.x[rows], data.y[rows])
        nnx.update((model, optimizer, metrics), state)
        results = metrics.compute()
        epoch_ended(float(results["loss"]), float(results["accuracy"]))
