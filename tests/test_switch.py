"""Another answer, later: an update gives what would have been rendered, with what was edited."""

import itertools

import pytest
from helpers import (
    QUESTIONS,
    ROOT,
    commit,
    edit,
    git,
    make_it_ones_own,
    read_files,
    run_python,
    update,
)

OTHER = {
    "training_loop": "scratch",
    "metrics": False,
    "add_loss": True,
    "license": "Apache-2.0",
    "ci": False,
}
DEFAULT = {name: QUESTIONS[name]["default"] for name in OTHER}
# One by one, each with each other, and all together; from the defaults, and back to them.
CASES = [
    pytest.param(
        names,
        back,
        id=f"{'+'.join(names)} {'back' if back else 'there'}",
        marks=pytest.mark.matrix if size == 2 else (),
    )
    for size in (1, 2, len(OTHER))
    for names in itertools.combinations(OTHER, size)
    for back in (False, True)
]


def switch(render, repository, folder, before, after):
    """A project that was answered with `before`, edited, and updated to `after`."""
    project = render(folder, source=repository, **before)
    make_it_ones_own(project)
    commit(project)
    assert update(project, **after) == []
    return project


@pytest.mark.parametrize(("names", "back"), CASES)
def test_the_project_is_as_if_answered_so_from_the_start(repository, render, tmp_path, names, back):
    """With the same edits in the model, the data, the step, and so on."""
    other = {name: OTHER[name] for name in names}
    default = {name: DEFAULT[name] for name in names}
    before, after = (other, default) if back else (default, other)
    switched = switch(render, repository, tmp_path / "switched/my-project", before, after)
    fresh = render(tmp_path / "fresh/my-project", source=repository, **after)
    make_it_ones_own(fresh)
    assert read_files(switched) == read_files(fresh)
    assert (switched / ".github").exists() == (fresh / ".github").exists()


def test_the_tests_of_a_switched_project_pass(repository, render, tmp_path):
    """All answers at once, under edits."""
    project = switch(render, repository, tmp_path / "my-project", DEFAULT, OTHER)
    run_python(project, "-m", "pytest", "--quiet")


@pytest.mark.parametrize("license", QUESTIONS["license"]["choices"])
def test_another_license(repository, render, tmp_path, license):
    """From any to any; the one before is that of no other test."""
    project = render(tmp_path / "my-project", source=repository, license="BSD-3-Clause")
    commit(project)
    assert update(project, license=license) == []
    fresh = render(tmp_path / "fresh/my-project", source=repository, license=license)
    assert read_files(project) == read_files(fresh)


def test_a_file_that_is_left_out_goes_with_its_edits(repository, render, tmp_path):
    """Git has them, as the page on updates says."""
    project = render(tmp_path / "my-project", source=repository)
    metrics = project / "src/my_project/metrics.py"
    edit(metrics, '"""The metrics', '"""My metrics')
    mine = metrics.read_text()
    commit(project)
    assert update(project, metrics=False) == []
    assert not metrics.exists()
    assert " D src/my_project/metrics.py\n" in git(project, "status", "--porcelain")
    git(project, "restore", "src/my_project/metrics.py")
    assert metrics.read_text() == mine


@pytest.mark.parametrize("name", OTHER)
def test_the_page_says_what_an_answer_touches(repository, render, tmp_path, name):
    """How many files, and how many lines come and go, beside the answer in its file."""
    project = render(tmp_path / "my-project", source=repository)
    commit(project)
    update(project, **{name: OTHER[name]})
    git(project, "add", "--all")
    numbers = git(
        project, "diff", "--cached", "--no-renames", "--numstat", "--", ":!.copier-answers.yml"
    )
    lines = [line.split("\t") for line in numbers.splitlines()]
    row = [name, OTHER[name], len(lines), *(sum(int(line[i]) for line in lines) for i in (0, 1))]
    row = (
        "| `{}` | `{}` | {} | {} | {} |".format(*row).replace("False", "no").replace("True", "yes")
    )
    assert f"\n{row} " in (ROOT / "docs/updates.md").read_text()
