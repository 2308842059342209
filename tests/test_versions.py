"""The project works with each Python, and with the lowest and highest versions it allows.

Long and with downloads, so it runs only when asked for: `python -m pytest -m versions`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import run

pytestmark = pytest.mark.versions


def find_python(version):
    """The first on the PATH that runs; some tools put commands there that only say they do not."""
    for folder in os.get_exec_path():
        command = Path(folder) / f"python{version}"
        if command.exists():
            process = subprocess.run([command, "-c", ""], capture_output=True, check=False)
            if process.returncode == 0:
                return command
    return pytest.skip(f"there is no Python {version} here")


@pytest.mark.parametrize("training_loop", ["fit", "scratch"])
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_versions(render, tmp_path, version, resolution, training_loop):
    """Installed from its own pyproject.toml, its own tests pass."""
    python = find_python(version)
    project = render(tmp_path / "my-project", training_loop=training_loop)
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "--quiet", "--python", python, tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    run(
        *(*uv, "pip", "install", "--quiet", "--python", python, "--resolution", resolution),
        *("--group", "pyproject.toml:dev", "--editable", "."),
        cwd=project,
    )
    run(python, "-m", "pytest", "--quiet", cwd=project)
