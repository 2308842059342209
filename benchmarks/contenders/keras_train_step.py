"""A `train_step` in Keras' fit, after the guide "Customizing what happens in fit() with JAX".

https://keras.io/guides/custom_train_step_in_jax/
"""

import jax
import keras

from benchmarks.contenders import EpochEnded
from benchmarks.contenders.keras_fit import fit
from benchmarks.models import keras_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload


class CustomModel(keras.Model):
    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        self.loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return [self.loss_tracker, self.accuracy]

    def compute_loss_and_updates(self, trainable_variables, non_trainable_variables, x, y):
        y_pred, non_trainable_variables = self.stateless_call(
            trainable_variables, non_trainable_variables, x, training=True
        )
        return self.loss_fn(y, y_pred), (y_pred, non_trainable_variables)

    def train_step(self, state, data):
        trainable_variables, non_trainable_variables, optimizer_variables, metrics_variables = state
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        grad_fn = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)
        (loss, (y_pred, non_trainable_variables)), gradients = grad_fn(
            trainable_variables, non_trainable_variables, x, y
        )
        trainable_variables, optimizer_variables = self.optimizer.stateless_apply(
            optimizer_variables, gradients, trainable_variables
        )
        split = len(self.loss_tracker.variables)
        loss_variables = self.loss_tracker.stateless_update_state(metrics_variables[:split], loss)
        accuracy_variables = self.accuracy.stateless_update_state(
            metrics_variables[split:], y, y_pred
        )
        logs = {
            "loss": self.loss_tracker.stateless_result(loss_variables),
            "accuracy": self.accuracy.stateless_result(accuracy_variables),
        }
        return logs, (
            trainable_variables,
            non_trainable_variables,
            optimizer_variables,
            loss_variables + accuracy_variables,
        )


def train(
    workload: Workload, data: Data, weights: Weights, epochs: int, epoch_ended: EpochEnded
) -> None:
    model = keras_model.build(workload, weights, CustomModel)
    model.compile(optimizer=keras.optimizers.Adam(LEARNING_RATE))
    fit(model, workload, data, epochs, epoch_ended)
