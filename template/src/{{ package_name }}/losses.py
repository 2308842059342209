"""The loss of the data."""

import keras

from .config import Config


def build_loss(config: Config) -> keras.losses.Loss:
    """The loss of logits [B, K] for the classes [B]; a mean over rows, by their weights.

    It has to be by the weights: rows of weight 0 fill up the last batch of an evaluation.
    """
    return Crossentropy(config.label_smoothing, reduction="mean_with_sample_weight")


class Crossentropy(keras.losses.Loss):
    """Cross-entropy of logits [B, K] with the classes [B], of which a share is smoothed."""

    def __init__(self, label_smoothing: float, reduction: str) -> None:
        super().__init__(reduction=reduction)
        self.label_smoothing = label_smoothing

    def call(self, y_true: keras.KerasTensor, y_pred: keras.KerasTensor) -> keras.KerasTensor:
        labels = keras.ops.one_hot(keras.ops.cast(y_true, "int32"), y_pred.shape[-1])
        return keras.losses.categorical_crossentropy(
            labels, y_pred, from_logits=True, label_smoothing=self.label_smoothing
        )
