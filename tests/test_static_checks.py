"""Linter, formatter and type checker find nothing, in any project and in this repository."""

from helpers import ROOT, locked, run_python


def test_ruff(project):
    run_python(project, "-m", "ruff", "check", "--no-cache")
    run_python(project, "-m", "ruff", "format", "--check", "--no-cache")


def test_mypy(project, shared):
    with locked(shared / "mypy.lock"):
        # The cache holds what mypy knows of NumPy and JAX, which takes it a minute to find out.
        run_python(project, "-m", "mypy", "--cache-dir", shared / "mypy")


def test_this_repository():
    run_python(ROOT, "-m", "ruff", "check", "--no-cache")
    run_python(ROOT, "-m", "ruff", "format", "--check", "--no-cache")
