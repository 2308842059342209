"""When a run ends early; Keras' own callback says when it should."""

import math
from typing import Any

import keras
import pytest

from {{ package_name }} import early_stopping
from {{ package_name }}.config import Config
from {{ package_name }}.errors import UserError

FALLING_THEN_RISING = [3.0, 2.0, 2.5, 1.0, 1.0, 1.5, 0.9, 1.2, 1.1, 1.3, 1.4]


def stops_after(config: Config, values: list[float]) -> int | None:
    memory = early_stopping.EarlyStopping()
    for epoch, value in enumerate(values, start=1):
        name = early_stopping.monitored(config, {"val_loss": value})
        memory = early_stopping.update(memory, config, {"val_loss": value, name: value})
        if early_stopping.is_over(memory, config):
            return epoch
    return None


def keras_stops_after(values: list[float], **options: Any) -> int | None:
    callback = keras.callbacks.EarlyStopping(monitor="value", **options)
    callback.set_model(keras.Sequential())
    callback.model.stop_training = False
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, {"value": value})
        if callback.model.stop_training:
            return epoch + 1
    return None


@pytest.mark.parametrize("patience", [1, 2, 3, 19])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_it_stops_where_keras_does(mode: Any, patience: int) -> None:
    config = Config(patience=patience, monitor_mode=mode)
    for values in (FALLING_THEN_RISING, [-value for value in FALLING_THEN_RISING]):
        expected = keras_stops_after(values, patience=patience, mode=mode)
        assert stops_after(config, values) == expected


def test_auto_is_min_for_a_loss_and_max_for_anything_else() -> None:
    values = [1.0, 2.0, 3.0]
    assert stops_after(Config(patience=1, monitor="loss"), values) == 2
    assert stops_after(Config(patience=1, monitor="val_accuracy"), values) is None


def test_nan_is_no_improvement() -> None:
    assert stops_after(Config(patience=2), [1.0, math.nan, math.nan]) == 3
    assert stops_after(Config(patience=2), [math.nan, 1.0, 0.5, 0.4]) is None
    assert stops_after(Config(patience=2), [math.nan, math.nan, math.nan]) == 2


def test_what_is_monitored_by_itself() -> None:
    """The loss of the validation, or that of the training where there is none."""
    assert early_stopping.monitored(Config(), {"loss": 1.0, "val_loss": 2.0}) == "val_loss"
    assert early_stopping.monitored(Config(), {"loss": 1.0}) == "loss"


def test_no_patience_is_for_ever() -> None:
    assert stops_after(Config(), [1.0] * 100) is None


def test_an_unknown_quantity_is_refused() -> None:
    metrics = [keras.metrics.Mean(name="loss")]
    with pytest.raises(UserError, match="--monitor must be one of loss, not val_loss"):
        early_stopping.check(Config(monitor="val_loss"), metrics, None)
