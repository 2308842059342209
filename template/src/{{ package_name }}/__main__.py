"""The command line: train and evaluate."""

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

PROGRAM = "python -m {{ package_name }}"

# The commands import what they need when they run: --help loads neither Keras nor JAX, and the
# compilation cache is set up before JAX reads where it is.


def train(
    config: Annotated[Config, tyro.conf.OmitArgPrefixes],
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    compilation_cache: bool = True,
    debug: bool = False,
    debug_nans: bool = False,
) -> None:
    """Train a model.

    Args:
        run_dir: Where to write the run: a new or empty directory, by default runs/<UTC time>.
        compilation_cache: Keep what JAX compiles, in ~/.cache/jax, for runs to come.
        debug: Run the steps as plain Python, singly, to go through with a debugger; slow.
        debug_nans: Take steps singly, stop at the first that gives a NaN, and say where it arises.
    """
    set_up_cache(compilation_cache)
    import jax

    from .debugging import take_single_steps
    from .train import train

    if debug:
        config = take_single_steps(config)
    with jax.disable_jit(debug):
        run_dir = train(config, run_dir, debug_nans)
    print(f"saved {run_dir / 'model.keras'}; next: {PROGRAM} evaluate --run-dir {run_dir}")


def evaluate(
    run_dir: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    split: Literal["test", "validation", "train"] = "test",
    compilation_cache: bool = True,
) -> None:
    """Evaluate a trained model; prints its metrics and writes them to evaluation.json.

    Args:
        run_dir: Which run, by default the latest in runs/.
        split: Which part of the data.
        compilation_cache: Keep what JAX compiles, in ~/.cache/jax, for runs to come.
    """
    set_up_cache(compilation_cache)
    from . import data, run_directory
    from .train import evaluate

    run_dir = run_dir or run_directory.latest()
    config = run_directory.load_config(run_dir)
    splits = data.load_splits(config)
    if split not in splits:
        raise UserError(f"{config.dataset} has no {split} split, only {', '.join(splits)}")
    results = evaluate(config, run_directory.load_model(run_dir), splits[split])
    run_directory.save_evaluation(run_dir, {"split": split, **results})
    values = "  ".join(f"{name} {value:.4f}" for name, value in results.items())
    print(f"{run_dir}  {split}  {values}")


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
        tyro.extras.subcommand_cli_from_dict(
            {"train": train, "evaluate": evaluate},
            prog=PROGRAM,
            description="Train a model, and evaluate it.",
        )
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
