"""Updates: a project takes what is new in the template, or another answer, and keeps its edits."""

import copier
import pytest
import yaml
from helpers import QUESTIONS, commit, git, read_files

CODE = {"training_loop": "scratch", "metrics": False, "add_loss": True}
OTHER = {**CODE, "license": "none", "ci": False}
DEFAULT = {name: QUESTIONS[name]["default"] for name in OTHER}


def update(project, **answers):
    """Update as `copier update --defaults` does, which must end without a conflict."""
    copier.run_update(
        project,
        data=answers,
        defaults=True,
        overwrite=True,
        quiet=True,
        settings=copier.Settings(),
    )
    assert git(project, "ls-files", "--unmerged") == ""
    assert list(project.rglob("*.rej")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(pytest.param({}, {name: CODE[name]}, id=name) for name in CODE),
        pytest.param({}, OTHER, id="all"),
        pytest.param(OTHER, DEFAULT, id="back"),
    ],
)
def test_another_answer_gives_a_fresh_project(repository, render, tmp_path, before, after):
    """What a user has not edited is afterwards as if it had been answered so from the start."""
    project = render(tmp_path / "updated/my-project", source=repository, **before)
    commit(project)
    update(project, **after)
    fresh = render(tmp_path / "fresh/my-project", source=repository, **{**before, **after})
    assert read_files(project) == read_files(fresh)
    assert (project / ".github").exists() == (fresh / ".github").exists()


def test_another_answer_keeps_edits(repository, render, tmp_path):
    """The model is the user's own work; the answer changes the lines around it."""
    updated, fresh = tmp_path / "updated/my-project", tmp_path / "fresh/my-project"
    model, old, new = "src/my_project/model.py", "(32, 64)", "(48, 96)"
    render(updated, source=repository)
    edit(updated / model, old, new)
    commit(updated)
    update(updated, **CODE)
    render(fresh, source=repository, **CODE)
    edit(fresh / model, old, new)
    assert read_files(updated) == read_files(fresh)


def test_a_new_version_keeps_edits(repository, render, tmp_path):
    """Both sides change one file, each in its own place."""
    project = render(tmp_path / "my-project", source=repository)
    train = project / "src/my_project/train.py"
    with train.open("a") as file:
        file.write("\n\nMINE = 1\n")
    commit(project)
    edit(repository / "variants/training_loop/fit.py", '"""Train and', '"""Theirs and')
    commit(repository, "v2.0.0")
    update(project)
    assert train.read_text().startswith('"""Theirs and')
    assert train.read_text().endswith("\n\nMINE = 1\n")
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers["_commit"] == "v2.0.0"


def test_an_update_without_news_changes_nothing(repository, render, tmp_path):
    """In a later year too, and whatever the texts; the year is recorded as it was answered."""
    project = render(
        tmp_path / "my-project",
        source=repository,
        copyright_year="1999",
        description=r"""{{ "braces" }}, 'quotes', "\n", 100 % 🚀: # ${{ x }}""",
        user_name="null",
    )
    commit(project)
    before = read_files(project)
    commit(repository, "v2.0.0")
    update(project)
    answers = before.pop(".copier-answers.yml").replace(b"v1.0.0", b"v2.0.0")
    assert read_files(project) == {**before, ".copier-answers.yml": answers}


def test_a_new_project_name_moves_no_file(repository, render, tmp_path):
    """The package keeps its name, and imports of it elsewhere go on working."""
    project = render(tmp_path / "my-project", source=repository)
    commit(project)
    before = read_files(project)
    update(project, project_name="renamed")
    after = read_files(project)
    assert before.keys() == after.keys()
    assert b'name = "renamed"' in after["pyproject.toml"]
    assert {name for name in after if after[name] != before[name]} <= {
        ".copier-answers.yml",
        "LICENSE",
        "README.md",
        "pyproject.toml",
    }


def edit(path, old, new):
    """Replace a text that is there exactly once."""
    text = path.read_text()
    assert text.count(old) == 1, f"{path} holds {old} {text.count(old)} times"
    path.write_text(text.replace(old, new))
