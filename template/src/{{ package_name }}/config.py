"""What a run depends on. Every field is also a flag of `train`."""

import dataclasses
from typing import Literal

from .errors import UserError

LARGEST = 3e38  # in float32

# What a run cannot change when it goes on: it says which rows come when, of which arrays the state
# consists, or what the best epoch was.
FIXED = (
    "dataset",
    "validation_fraction",
    "overfit",
    "init_from",
    "batch_size",
    "optimizer",
    "gradient_accumulation_steps",
    "monitor",
    "monitor_mode",
    "seed",
    "dtype",
)


@dataclasses.dataclass(frozen=True)
class Config:
    """What a run depends on; the same values give the same numbers."""

    dataset: str = "digits"
    """digits, mnist, fashion_mnist, cifar10, an .npz file, or a folder of .npy files."""
    validation_fraction: float = 0.1
    """Share of the training rows held out for validation where the data brings none."""
    overfit: int = 0
    """Train on this many rows alone, over and over, and validate on them; 0 takes all rows."""
    init_from: str = ""
    """A run, or a .keras file, whose weights a new run begins with."""
    epochs: int = 20
    """Passes over the training data."""
    batch_size: int = 32
    """Rows per step; training drops the rows of an epoch that fill no batch."""
    steps_per_execution: int = 8
    """Steps that the device takes in one call; at most those of an epoch."""
    unroll: Literal["auto", "always", "never"] = "auto"
    """Whether these steps are written out, not a loop; auto: where convolutions meet a CPU."""
    optimizer: Literal["adam", "adamw", "lion", "sgd"] = "adam"
    """Rule of the update."""
    momentum: float = 0.9
    """Momentum of sgd."""
    learning_rate: float = 2e-3
    """Peak learning rate."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Course of the learning rate after the warm-up: along a cosine to zero, or at its peak."""
    warmup_steps: int = 0
    """Updates over which the learning rate rises from zero to its peak."""
    weight_decay: float = 0.0
    """Share of each weight, times the learning rate, that an update takes away from it."""
    global_clipnorm: float = 0.0
    """Greatest norm of the gradient of all weights together; 0 leaves gradients as they are."""
    gradient_accumulation_steps: int = 1
    """Batches whose mean gradient makes an update; schedule and warm-up count updates."""
    ema_momentum: float = 0.0
    """Momentum, a batch, of an average of the weights that is evaluated and saved; 0: none."""
    label_smoothing: float = 0.0
    """Share of a label that is spread over all classes."""
    class_weight: tuple[float, ...] = ()
    """Weight of each class in training, one number a class; none if all count alike."""
    dropout: float = 0.3
    """Share of the last hidden units that dropout sets to zero."""
# {% if add_loss %}
    activity_regularization: float = 1e-3
    """Weight of the penalty on the last hidden activations, which a layer adds with add_loss."""
# {% endif %}
    patience: int = 0
    """Epochs without improvement of the monitored quantity that end a run; 0 runs to the end."""
    monitor: str = "auto"
    """The quantity that says which epoch is best: a column of metrics.csv; auto is val_loss, or
    loss where nothing is validated."""
    monitor_mode: Literal["auto", "min", "max"] = "auto"
    """Which values are better; auto is min for a loss, max for anything else."""
    checkpoint_steps: int = 0
    """Steps from one checkpoint to the next; 0 makes one after each epoch."""
    keep_checkpoints: int = 3
    """Number of the newest checkpoints to keep, beside that of the best epoch; 0 makes none."""
    seed: int = 0
    """Seed of the initial weights, the dropout masks and the order of the data."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Arithmetic of the layers; the weights are float32, and float16 has its loss scaled."""

    def __post_init__(self) -> None:
        for name, good, requirement in (
            ("validation_fraction", 0 <= self.validation_fraction < 1, "from 0 to below 1"),
            ("overfit", self.overfit >= 0, "0 or more"),
            ("epochs", self.epochs >= 1, "1 or more"),
            ("batch_size", self.batch_size >= 1, "1 or more"),
            ("steps_per_execution", self.steps_per_execution >= 1, "1 or more"),
            ("momentum", 0 <= self.momentum < 1, "from 0 to below 1"),
            ("learning_rate", 0 <= self.learning_rate <= LARGEST, "from 0 to 3e38"),
            ("warmup_steps", self.warmup_steps >= 0, "0 or more"),
            ("weight_decay", 0 <= self.weight_decay <= LARGEST, "from 0 to 3e38"),
            ("global_clipnorm", 0 <= self.global_clipnorm <= LARGEST, "from 0 to 3e38"),
            ("gradient_accumulation_steps", self.gradient_accumulation_steps >= 1, "1 or more"),
            ("ema_momentum", 0 <= self.ema_momentum <= 0.999999, "from 0 to 0.999999"),
            ("label_smoothing", 0 <= self.label_smoothing < 1, "from 0 to below 1"),
            ("class_weight", all(0 <= w <= LARGEST for w in self.class_weight), "from 0 to 3e38"),
            ("dropout", 0 <= self.dropout < 1, "from 0 to below 1"),
# {% if add_loss %}
            (
                "activity_regularization",
                0 <= self.activity_regularization <= LARGEST,
                "from 0 to 3e38",
            ),
# {% endif %}
            ("patience", self.patience >= 0, "0 or more"),
            ("checkpoint_steps", self.checkpoint_steps >= 0, "0 or more"),
            ("keep_checkpoints", self.keep_checkpoints >= 0, "0 or more"),
            ("seed", 0 <= self.seed < 2**32, "from 0 to 4294967295"),
            # What would have no effect is refused, not ignored.
            ("momentum", self.optimizer == "sgd" or self.momentum == 0.9, "left out without sgd"),
            ("weight_decay", self.optimizer != "adamw" or self.weight_decay, "above 0 for adamw"),
            ("patience", self.patience < self.epochs or not self.patience, "less than --epochs"),
            (
                "unroll",
                self.unroll == "auto" or self.steps_per_execution > 1,
                "left out with --steps-per-execution 1",
            ),
            (
                "checkpoint_steps",
                self.keep_checkpoints or not self.checkpoint_steps,
                "left out with --keep-checkpoints 0",
            ),
        ):
            if not good:
                flag = "--" + name.replace("_", "-")
                raise UserError(f"{flag} must be {requirement}, not {getattr(self, name)}")
