"""The loss of the data, against its formula in NumPy."""

import numpy as np
import pytest

from {{ package_name }}.config import Config
from {{ package_name }}.losses import build_loss


@pytest.mark.parametrize("label_smoothing", [0.0, 0.25])
def test_crossentropy(label_smoothing: float) -> None:
    """Of labels of which a share is spread over all classes; a mean over rows, by their weights."""
    rng = np.random.default_rng(0)
    logits, classes, weights = rng.normal(size=(6, 3)), np.arange(6) % 3, np.arange(6.0)
    labels = (1 - label_smoothing) * np.eye(3)[classes] + label_smoothing / 3
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = np.average(-(labels * log_probabilities).sum(axis=1), weights=weights)
    loss_fn = build_loss(Config(label_smoothing=label_smoothing))
    np.testing.assert_allclose(loss_fn(classes, logits, weights), expected, rtol=1e-5)
