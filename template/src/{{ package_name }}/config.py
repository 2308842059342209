"""What a run depends on. Every field is also a flag of `train`."""

import dataclasses
import math
from typing import Literal

from .errors import UserError


@dataclasses.dataclass(frozen=True)
class Config:
    """What a run depends on; the same values give the same numbers."""

    dataset: str = "digits"
    """digits, mnist, fashion_mnist, cifar10, an .npz file, or a folder of .npy files."""
    validation_fraction: float = 0.1
    """Share of the training rows held out for validation where the data brings none."""
    epochs: int = 20
    """Passes over the training data."""
    batch_size: int = 64
    """Rows per step; training drops the rows of an epoch that fill no batch."""
    learning_rate: float = 2e-3
    """Peak learning rate of Adam; a cosine takes it to zero over the run."""
    dropout: float = 0.3
    """Share of the last hidden units that dropout sets to zero."""
# {% if add_loss %}
    activity_regularization: float = 1e-3
    """Weight of the penalty on the last hidden activations, which a layer adds with add_loss."""
# {% endif %}
    seed: int = 0
    """Seed of the initial weights, the dropout masks and the order of the data."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the layers; with bfloat16 the weights stay float32."""

    def __post_init__(self) -> None:
        for name, good, requirement in (
            ("validation_fraction", 0 <= self.validation_fraction < 1, "from 0 to below 1"),
            ("epochs", self.epochs >= 1, "1 or more"),
            ("batch_size", self.batch_size >= 1, "1 or more"),
            ("learning_rate", 0 <= self.learning_rate < math.inf, "0 or more"),
            ("dropout", 0 <= self.dropout < 1, "from 0 to below 1"),
# {% if add_loss %}
            ("activity_regularization", 0 <= self.activity_regularization < math.inf, "0 or more"),
# {% endif %}
            ("seed", 0 <= self.seed < 2**32, "from 0 to 4294967295"),
        ):
            if not good:
                flag = "--" + name.replace("_", "-")
                raise UserError(f"{flag} must be {requirement}, not {getattr(self, name)}")
