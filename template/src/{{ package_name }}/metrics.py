"""Which metrics are reported beside the loss."""

import keras


def build_metrics() -> list[keras.metrics.Metric]:
    """The metrics; each is updated with classes [B], logits [B, K] and weights [B].

    A row of weight 0 must not count: such rows fill up the last batch of an evaluation.
    """
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
