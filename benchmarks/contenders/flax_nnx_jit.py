"""Flax NNX with `nnx.jit`, as in its tutorial.

https://flax.readthedocs.io/en/latest/mnist_tutorial.html
"""

import optax
from flax import nnx

from benchmarks.contenders import EpochEnded
from benchmarks.models import flax_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload, shuffled_rows


@nnx.jit
def train_step(model, optimizer, metrics, x, y):
    def loss_fn(model):
        logits = model(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), logits

    (loss, logits), gradients = nnx.value_and_grad(loss_fn, has_aux=True)(model)
    optimizer.update(model, gradients)
    metrics.update(loss=loss, logits=logits, labels=y)


def train(
    workload: Workload, data: Data, weights: Weights, epochs: int, epoch_ended: EpochEnded
) -> None:
    model = flax_model.build(workload, weights)
    optimizer = nnx.Optimizer(model, optax.adam(LEARNING_RATE), wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())
    for epoch in range(epochs):
        metrics.reset()
        order = shuffled_rows(data, epoch)
        for start in range(0, len(order), workload.batch_size):
            rows = order[start : start + workload.batch_size]
            train_step(model, optimizer, metrics, data.x[rows], data.y[rows])
        results = metrics.compute()
        epoch_ended(float(results["loss"]), float(results["accuracy"]))
