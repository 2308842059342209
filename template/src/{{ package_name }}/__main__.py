"""The command line: train and evaluate."""

import argparse
import functools
import os
import platform
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import tyro

from . import check_backend
from .config import Config
from .errors import UserError
from .interruption import Interrupted

PROGRAM = "python -m {{ package_name }}"

# The commands import what they need when they run: --help loads neither Keras nor JAX, and the
# compilation cache is set up before JAX reads where it is.


def train(
    config: Annotated[Config, tyro.conf.OmitArgPrefixes],
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    resume: bool = False,
    settings: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None,
    compilation_cache: bool = True,
    debug: bool = False,
    debug_nans: bool = False,
) -> None:
    """Train a model.

    Args:
        run_dir: Where to write the run: a new or empty directory, by default runs/<UTC time>.
        resume: Go on with the run in --run-dir, by default the latest in runs/, from its newest
            checkpoint and with its settings; where there is none yet, begin.
        settings: A config.json whose settings take the place of the defaults below.
        compilation_cache: Keep what JAX compiles, in ~/.cache/jax, for runs to come.
        debug: Run the steps as plain Python, singly, to go through with a debugger; slow.
        debug_nans: Take steps singly, stop at the first that gives a NaN, and say where it arises.
    """
    set_up_cache(compilation_cache)
    import jax

    from . import run_directory
    from .debugging import take_single_steps
    from .train import train

    if resume:
        run_dir = run_dir or run_directory.latest()
    if debug:
        config = take_single_steps(config)
    with jax.disable_jit(debug):
        run_dir = train(config, run_dir, resume, debug_nans)
    print(f"saved {run_dir / 'model.keras'}; next: {PROGRAM} evaluate --run-dir {run_dir}")


def evaluate(
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    split: Literal["test", "validation", "train"] = "test",
    best: bool = False,
    compilation_cache: bool = True,
) -> None:
    """Evaluate a trained model; prints its metrics and writes them to evaluation.json.

    Args:
        run_dir: Which run, by default the latest in runs/.
        split: Which part of the data.
        best: Take the model of the best epoch, not that of the last.
        compilation_cache: Keep what JAX compiles, in ~/.cache/jax, for runs to come.
    """
    set_up_cache(compilation_cache)
    from . import data, model_file, run_directory
    from .train import evaluate

    run_dir = run_dir or run_directory.latest()
    config = run_directory.load_config(run_dir)
    splits = data.load_splits(config)
    if split not in splits:
        raise UserError(f"{config.dataset} has no {split} split, only {', '.join(splits)}")
    name = "best.keras" if best else "model.keras"
    results = evaluate(config, model_file.load_model(run_dir / name), splits[split])
    run_directory.save_evaluation(run_dir, {"model": name, "split": split, **results})
    values = "  ".join(f"{name} {value:.4f}" for name, value in results.items())
    print(f"{run_dir / name}  {split}  {values}")


def starting_point(arguments: list[str]) -> Config:
    """The settings that the flags of `train` change: the defaults, of a file, or of a run."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--run-dir", "--run_dir", type=Path)
    parser.add_argument("--resume", action=argparse.BooleanOptionalAction)
    parser.add_argument("--config", type=Path)
    try:
        known, _ = parser.parse_known_args(arguments)
    except argparse.ArgumentError:  # which tyro says better
        return Config()
    from . import run_directory

    if known.config:
        return run_directory.read_config(known.config)
    if known.resume:
        run_dir = known.run_dir or run_directory.latest()
        if run_directory.holds_run(run_dir):
            return run_directory.load_config(run_dir)
    return Config()


def set_up_cache(wanted: bool) -> None:
    """Let JAX keep what it compiles, in a folder of the user's, unless it was told where.

    Each machine has a folder of its own, as another may lack instructions that this one has.
    """
    if not wanted:
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        return
    if os.getenv("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        cache = Path(os.getenv("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "jax" / (platform.node() or "local")
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if file.stat().st_mtime < time.time() - 30 * 24 * 3600:  # seconds
                file.unlink()
    except (OSError, RuntimeError):  # no such folder, or no home
        return
    if os.access(folder, os.W_OK):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def main() -> None:
    """Run the command that the arguments name; exit with 2 if they ask for what cannot be."""
    try:
        check_backend()
        _, command, *arguments = [*sys.argv, ""]
        config = starting_point(arguments) if command == "train" else Config()
        tyro.extras.subcommand_cli_from_dict(
            {"train": functools.partial(train, config=config), "evaluate": evaluate},
            prog=PROGRAM,
            description="Train a model, and evaluate it.",
        )
    except (UserError, OSError) as error:
        print("; ".join([f"error: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        sys.exit(2)
    except Interrupted as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt as error:
        print("; ".join(["interrupted", *getattr(error, "__notes__", [])]), file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
