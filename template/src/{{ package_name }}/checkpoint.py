"""The checkpoints of a run: its whole state, from time to time, for another process to go on from.

Each is a folder that Orbax writes, named by the number of steps that led to it. It holds the arrays
of the state under the paths of their variables, and the position; not who drives the steps. The
newest are kept, and that of the best epoch.
"""

import hashlib
import logging
import math
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import keras
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import preservation_policy

from . import early_stopping, run_directory, steps
from .config import Config
from .early_stopping import EarlyStopping
from .errors import UserError, reason
from .interruption import Interrupted, Interruption

CHECKSUMS = "SHA256SUMS"
MEBIBYTE = 2**20


class Position(NamedTuple):
    """How far a run has come."""

    step: int = 0  # steps taken
    stopping: EarlyStopping = EarlyStopping()


class Checkpoints:
    """Those of a run. Entered, it sets the variables to what was saved last, if anything was."""

    def __init__(
        self,
        run_dir: Path,
        config: Config,
        steps_per_epoch: int,
        interruption: Interruption,
        *,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        metrics: Sequence[keras.metrics.Metric],
    ) -> None:
        self.run_dir = run_dir
        self.config = config
        self.steps_per_epoch = steps_per_epoch
        self.interruption = interruption
        self.model = model
        self.optimizer = optimizer
        self.metrics = metrics
        self.variables = name_variables(model, optimizer, metrics)
        self.position = Position()
        self.kept = NewestAndBest(config.keep_checkpoints)

    def __enter__(self) -> Self:
        folder = self.run_dir.absolute() / "checkpoints"
        set_damaged_aside(folder)
        options = ocp.CheckpointManagerOptions(
            preservation_policy=self.kept,
            cleanup_tmp_directories=True,  # of saves that were broken off
        )
        handlers = ocp.handlers.DefaultCheckpointHandlerRegistry()
        handler = HandlerWithChecksums()
        handlers.add("state", ocp.args.PyTreeSave, handler)
        handlers.add("state", ocp.args.PyTreeRestore, handler)
        self.manager = ocp.CheckpointManager(folder, options=options, handler_registry=handlers)
        try:
            self.go_on()
        except UserError:
            self.manager.close()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        failure = None
        try:
            self.wait()
        except UserError as found:
            failure = found
        step = self.manager.latest_step()
        with suppress(Exception):  # which raises the same again
            self.manager.close()
        problem = error or failure
        if problem and step is not None and not isinstance(problem, Interrupted):
            problem.add_note(f"the checkpoint of step {step} is whole: {self.how_to_go_on()}")
        if failure and not error:
            raise failure

    def how_to_go_on(self) -> str:
        run_dir = shlex.quote(str(self.run_dir))
        return f"go on with python -m {__package__} train --resume --run-dir {run_dir}"

    # Save

    def execution(self, step: int, state: steps.TrainState) -> None:
        """The run has taken `step` steps, which led to `state`: save it, if it is time to.

        If a signal has come, the state is saved in any case, and `Interrupted` raised. The last
        steps of an epoch do not count as taken before `epoch`.
        """
        if step % self.steps_per_epoch:
            self.position = self.position._replace(step=step)
            if self.is_due() or self.interruption.number:
                self.save(state)
            self.stop_if_interrupted()

    def epoch(self, step: int, state: steps.TrainState, stopping: EarlyStopping) -> None:
        """An epoch of the run is over, validated and reported; otherwise as `execution`."""
        self.position = Position(step, stopping)
        self.remember_best()
        over = step == self.config.epochs * self.steps_per_epoch or early_stopping.is_over(
            stopping, self.config
        )
        if (
            not self.config.checkpoint_steps
            or self.is_due()
            or step == self.kept.best
            or over
            or self.interruption.number
        ):
            metrics_variables = steps.initial_metrics(self.metrics)  # of the epoch to come
            self.save(state._replace(metrics_variables=metrics_variables))
        if not over:
            self.stop_if_interrupted()

    def is_due(self) -> bool:
        every = self.config.checkpoint_steps
        return every > 0 and self.position.step // every > self.saved // every

    def remember_best(self) -> None:
        step, stopping = self.position
        if not math.isnan(stopping.best):
            self.kept.best = (step // self.steps_per_epoch - stopping.wait) * self.steps_per_epoch

    def save(self, state: steps.TrainState) -> None:
        """Begin to write the state; returns once it may change."""
        if not self.config.keep_checkpoints:
            return
        arrays = dict(zip(self.variables, jax.tree.leaves(state), strict=True))
        args = ocp.args.PyTreeSave(arrays | position_arrays(self.position))
        # To find it out by writing would leave pages of messages of many threads.
        needed = sum(array.nbytes for array in arrays.values()) + MEBIBYTE
        if shutil.disk_usage(self.run_dir).free < needed:
            raise UserError(
                f"the disk of {self.run_dir} is full: a checkpoint takes up to "
                f"{needed / MEBIBYTE:.0f} MiB"
            )
        try:
            self.manager.save(self.position.step, args=ocp.args.Composite(state=args))
        except Exception as error:  # what was raised in the background, too
            raise self.failure(error) from error
        self.saved = self.position.step

    def wait(self) -> None:
        try:
            self.manager.wait_until_finished()
        except Exception as error:
            raise self.failure(error) from error

    def failure(self, error: Exception) -> UserError:
        for name in ("absl", "asyncio"):  # where each of Orbax's tasks would go on to say the same
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return UserError(f"cannot write a checkpoint in {self.run_dir}: {reason(error)}")

    def stop_if_interrupted(self) -> None:
        if self.interruption.number is None:
            return
        self.wait()
        total = self.config.epochs * self.steps_per_epoch
        message = f"interrupted after {self.position.step} of {total} steps"
        if self.config.keep_checkpoints:
            message += f", saved: {self.how_to_go_on()}"
        raise Interrupted(message, self.interruption.number)

    # Restore

    def go_on(self) -> None:
        """Set the variables, and the position, to the newest checkpoint, if there is one."""
        step = self.manager.latest_step()
        if step is not None:
            begun = -(-step // self.steps_per_epoch)
            if begun > self.config.epochs:
                raise UserError(
                    f"--epochs must be {begun} or more, as {self.run_dir} has begun so many"
                )
            self.position = self.restore(step)
        self.saved = self.position.step
        self.remember_best()

    def restore(self, step: int) -> Position:
        """Set the variables to what was saved, or raise a `UserError` that says what differs."""
        self.check(step)
        like = {name: variable.value for name, variable in self.variables.items()}
        like |= position_arrays(Position())
        args = ocp.args.PyTreeRestore(
            like, restore_args=ocp.checkpoint_utils.construct_restore_args(like)
        )
        try:
            arrays = self.manager.restore(step, args=ocp.args.Composite(state=args))["state"]
        except Exception as error:
            raise UserError(
                f"cannot read the checkpoint of step {step}: {reason(error)}"
            ) from error
        for name, variable in self.variables.items():
            variable.assign(arrays[name])
        best, wait = float(arrays["position/best"]), int(arrays["position/wait"])
        return Position(int(arrays["position/step"]), EarlyStopping(best, wait))

    def check(self, step: int) -> None:
        """Raise a `UserError` that names each variable that is not as it was saved."""
        metadata = self.manager.item_metadata(step)["state"].tree
        saved = {
            name: f"{array.dtype} {list(array.shape)}"
            for name, array in metadata.items()
            if not name.startswith("position/")
        }
        now = {
            name: f"{variable.dtype} {list(variable.shape)}"
            for name, variable in self.variables.items()
        }
        differences = [
            f"{name} was {saved.get(name, 'not there')} and is {now.get(name, 'not there')}"
            for name in saved | now
            if saved.get(name) != now.get(name)
        ]
        if differences:
            raise UserError(
                f"{self.run_dir} cannot go on, as the model or the optimizer has changed since "
                f"step {step}: {'; '.join(differences)}"
            )

    def restore_best(self) -> bool:
        """Set the trained model to what was evaluated after the best epoch, if that was kept."""
        self.wait()
        best = self.kept.best
        if best is None or best not in self.manager.all_steps():
            return False
        if best != self.position.step:
            self.restore(best)
            self.optimizer.finalize_variable_values(self.model.trainable_variables)
        return True


class NewestAndBest(preservation_policy.PreservationPolicy):
    """Which checkpoints Orbax does not delete."""

    def __init__(self, newest: int) -> None:
        self.newest = newest
        self.best: int | None = None  # the step after the best epoch

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        steps = [checkpoint.step for checkpoint in checkpoints]
        newest = sorted(steps)[-self.newest :]
        return [step in newest or step == self.best for step in steps]


def position_arrays(position: Position) -> dict[str, np.ndarray]:
    step, stopping = position
    values = {"step": step, "best": stopping.best, "wait": stopping.wait}
    return {f"position/{name}": np.asarray(value) for name, value in values.items()}


def name_variables(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    metrics: Sequence[keras.metrics.Metric],
) -> dict[str, keras.Variable]:
    """The variables of a `TrainState`, in its order, by their paths.

    The numbers that Keras gives to names depend on what else the process has built; they are left
    out, and those that are then named alike are counted here.
    """
    state = steps.TrainState(
        model.trainable_variables,
        model.non_trainable_variables,
        optimizer.variables,
        [variable for metric in metrics for variable in metric.variables],
    )
    named: dict[str, keras.Variable] = {}
    seen: Counter[str] = Counter()
    for group, variables in state._asdict().items():
        for variable in variables:
            name = f"{group}/{re.sub(r'_[0-9]+(?=[/_]|$)', '', variable.path)}"
            seen[name] += 1
            named[f"{name}#{seen[name]}" if seen[name] > 1 else name] = variable
    return named


class HandlerWithChecksums(ocp.PyTreeCheckpointHandler):
    """Adds, before a checkpoint counts as complete, what sha256sum says of its files."""

    def finalize(self, directory: Any) -> None:
        super().finalize(directory)
        folder = Path(directory)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        lines = [f"{checksum(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
        (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_whole(checkpoint: Path) -> bool:
    """Whether all files of a checkpoint are as they were written."""
    folder = checkpoint / "state"
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
        pairs = [line.split("  ", 1) for line in lines]
        return bool(pairs) and all(checksum(folder / name) == digest for digest, name in pairs)
    except (OSError, ValueError):
        return False


def exists(run_dir: Path | None) -> bool:
    """Whether a run has a checkpoint."""
    return run_dir is not None and bool(find(run_dir / "checkpoints"))


def find(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    if not folder.is_dir():
        return []
    numbered = [path for path in folder.iterdir() if path.name.isdecimal()]
    return sorted(numbered, key=lambda path: int(path.name), reverse=True)


def set_damaged_aside(folder: Path) -> None:
    """Rename the newest checkpoints as far as they are damaged, and say so.

    Raises a `UserError` if all are.
    """
    damaged = []
    for checkpoint in find(folder):
        if is_whole(checkpoint):
            break
        damaged.append(checkpoint)
    else:
        if damaged:
            raise UserError(f"none of the checkpoints in {folder} is whole: begin a new run")
    for checkpoint in damaged:
        aside = run_directory.unused(checkpoint.with_name(f"damaged-{checkpoint.name}"))
        checkpoint.rename(aside)
        print(f"{checkpoint} is damaged: it is now {aside.name}, and not used", file=sys.stderr)
