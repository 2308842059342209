"""Python processes that start alike, and say why they failed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


class ProcessFailed(Exception):
    """A process failed; the message is its last line, and `output` all that it wrote."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


def run_python(*arguments: object, cwd: Path = ROOT, path: tuple[Path, ...] = ()) -> str:
    """Run Python with this package and `path` importable, and return what it printed."""
    environment = os.environ | {
        "KERAS_BACKEND": "jax",
        "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT])),
        # Whether a program was compiled before must not matter.
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    process = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        output = process.stdout + process.stderr
        lines = [line for line in output.splitlines() if any(map(str.isalnum, line))]
        if process.returncode < 0:
            lines.append(f"ended by signal {-process.returncode}")
        raise ProcessFailed(lines[-1].strip() if lines else "no message", output)
    return process.stdout
