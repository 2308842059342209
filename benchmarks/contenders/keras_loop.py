"""A loop over stateless steps, after Keras' guide "Writing a training loop from scratch in JAX".

https://keras.io/guides/writing_a_custom_training_loop_in_jax/
Mended: arrays in the state instead of variables, training=True, metrics from zero each epoch, and
plain NumPy batches, which cost less than those of the guide's tf.data.
"""

import jax
import keras

from benchmarks.contenders import EpochEnded
from benchmarks.models import keras_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload, shuffled_rows


def train(
    workload: Workload, data: Data, weights: Weights, epochs: int, epoch_ended: EpochEnded
) -> None:
    model = keras_model.build(workload, weights)
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss_metric = keras.metrics.Mean()
    accuracy_metric = keras.metrics.SparseCategoricalAccuracy()

    def compute_loss_and_updates(
        trainable_variables, non_trainable_variables, metric_variables, x, y
    ):
        y_pred, non_trainable_variables = model.stateless_call(
            trainable_variables, non_trainable_variables, x, training=True
        )
        loss = loss_fn(y, y_pred)
        loss_variables, accuracy_variables = metric_variables
        metric_variables = (
            loss_metric.stateless_update_state(loss_variables, loss),
            accuracy_metric.stateless_update_state(accuracy_variables, y, y_pred),
        )
        return loss, (non_trainable_variables, metric_variables)

    grad_fn = jax.value_and_grad(compute_loss_and_updates, has_aux=True)

    @jax.jit
    def train_step(state, batch):
        trainable_variables, non_trainable_variables, optimizer_variables, metric_variables = state
        (loss, (non_trainable_variables, metric_variables)), gradients = grad_fn(
            trainable_variables, non_trainable_variables, metric_variables, *batch
        )
        trainable_variables, optimizer_variables = optimizer.stateless_apply(
            optimizer_variables, gradients, trainable_variables
        )
        return loss, (
            trainable_variables,
            non_trainable_variables,
            optimizer_variables,
            metric_variables,
        )

    optimizer.build(model.trainable_variables)
    variables = tuple(
        [variable.value for variable in group]
        for group in (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    )
    for epoch in range(epochs):
        metric_variables = (
            loss_metric.stateless_reset_state(),
            accuracy_metric.stateless_reset_state(),
        )
        state = (*variables, metric_variables)
        order = shuffled_rows(data, epoch)
        for start in range(0, len(order), workload.batch_size):
            rows = order[start : start + workload.batch_size]
            _, state = train_step(state, (data.x[rows], data.y[rows]))
        *variables, (loss_variables, accuracy_variables) = state
        epoch_ended(
            float(loss_metric.stateless_result(loss_variables)),
            float(accuracy_metric.stateless_result(accuracy_variables)),
        )
