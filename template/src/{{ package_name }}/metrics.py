"""Which metrics are reported beside the loss."""

import keras


def build_metrics() -> list[keras.metrics.Metric]:
    """The metrics; each is updated with classes [B], logits [B, K] and weights [B]."""
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
