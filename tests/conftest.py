"""Fixtures that render this template, as it is in the work tree, and train what they render."""

import os
import shutil

import copier
import hypothesis
import numpy as np
import pytest
from helpers import (
    QUESTIONS,
    RELEASES,
    ROOT,
    VARIANTS,
    commit,
    copy_work_tree,
    git,
    locked,
    run_python,
    variant_id,
)

# By default the same answers each time; --hypothesis-profile=explore tries others, and more.
QUIET = {
    "database": None,
    "deadline": None,
    "phases": set(hypothesis.Phase) - {hypothesis.Phase.shrink},  # it renders for minutes
}
hypothesis.settings.register_profile("default", max_examples=40, derandomize=True, **QUIET)
hypothesis.settings.register_profile("explore", max_examples=1000, derandomize=False, **QUIET)
hypothesis.settings.load_profile("default")


@pytest.fixture(autouse=True, scope="session")
def hermetic(tmp_path_factory):
    """Keep the settings of whoever runs the tests out of them, and compute on one CPU device."""
    home = tmp_path_factory.mktemp("home")
    (home / "copier.yml").write_text("{}\n")
    prefixes = ("COPIER_", "GIT_", "JAX_", "KERAS_", "MYPY", "PYTEST_ADDOPTS", "PYTHON", "XLA_")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(prefixes)]:
            patch.delenv(name)  # a git hook, for one, sets GIT_DIR
        patch.setenv("COPIER_SETTINGS_PATH", str(home / "copier.yml"))
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "Test")
            patch.setenv(f"GIT_{role}_EMAIL", "test@example.org")
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv("KERAS_HOME", str(home / "keras"))
        # What was compiled once is read from disk; the tests of a variant compile much alike.
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "jax"))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
        yield


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """The template as a plain folder: quick to render, and always the work tree."""
    return copy_work_tree(tmp_path_factory.mktemp("template"))


@pytest.fixture
def repository(tmp_path):
    """The template as a git repository: the work tree, tagged v1.0.0."""
    folder = copy_work_tree(tmp_path / "repository")
    commit(folder, "v1.0.0")
    return folder


@pytest.fixture(scope="session")
def history(tmp_path_factory):
    """The template as a git repository with its releases; the work tree is the latest, v1000."""
    folder = tmp_path_factory.mktemp("history")
    git(folder, "clone", "--quiet", "--no-checkout", ROOT, ".")
    for tag, release in RELEASES.items():
        git(folder, "tag", "--force", tag, release)
    copy_work_tree(folder)
    commit(folder, "v1000")
    return folder


@pytest.fixture(scope="session")
def render(template):
    """A function that renders as `copier copy --defaults` does, without --trust."""

    def render(folder, source=template, version=None, **answers):
        if unknown := answers.keys() - QUESTIONS.keys():
            raise TypeError(f"there is no question {', '.join(unknown)}")
        copier.run_copy(
            str(source),
            folder,
            data=answers,
            vcs_ref=version,
            defaults=True,
            quiet=True,
            settings=copier.Settings(),
        )
        return folder

    return render


@pytest.fixture(scope="session", params=VARIANTS, ids=variant_id)
def variant(request):
    """The answers of each variant in turn."""
    return request.param


@pytest.fixture(scope="session")
def project(render, variant, tmp_path_factory):
    """A project of the variant, named my-project, for tests that only read it."""
    return render(tmp_path_factory.mktemp("project") / "my-project", **variant)


@pytest.fixture(scope="session")
def shared(tmp_path_factory, worker_id):
    """A folder that all processes of this test run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder if worker_id == "master" else folder.parent


@pytest.fixture(scope="session")
def trained(render, shared):
    """A function that returns a project of the given variant with a finished run, `runs/short`.

    Whichever test asks first trains it.
    """

    def trained(**variant):
        project = shared / variant_id(variant) / "my-project"
        with locked(shared / f"{variant_id(variant)}.lock"):
            if not (project / "runs/short/model.keras").exists():
                shutil.rmtree(project, ignore_errors=True)
                render(project, **variant)
                write_digits(project)
                options = ("--dataset", "digits.npz", "--epochs", "3", "--run-dir", "runs/short")
                run_python(project, "-m", "my_project", "train", *options)
        return project

    return trained


def write_digits(project):
    """Write the digits as digits.npz, of which a single batch is for validation."""
    table = np.loadtxt(project / "src/my_project/digits.csv", delimiter=",", dtype=np.uint8)
    splits = zip(("train", "validation", "test"), np.split(table, [1400, 1430]), strict=True)
    arrays = {}
    for name, rows in splits:
        arrays |= {f"x_{name}": rows[:, :-1].reshape(-1, 8, 8), f"y_{name}": rows[:, -1]}
    np.savez(project / "digits.npz", **arrays)
