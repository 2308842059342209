"""What Copier says when it cannot update, and what to do then, as the page on updates has it."""

import shutil

import pytest
import yaml
from helpers import ROOT, commit, edit, git, read_files, run, run_copier, update

COPY, UPDATE = ("copy", "--defaults"), ("update", "--defaults")
ANSWERS = ".copier-answers.yml"
RESTORE = f'git checkout "$(git rev-list -1 HEAD -- {ANSWERS})^" -- {ANSWERS}'


@pytest.fixture
def project(repository, render, tmp_path):
    """A project of version 1 of the template, of which there is version 2."""
    project = render(tmp_path / "my-project", source=repository)
    commit(project)
    (repository / "template/news.md").write_text("New.\n")
    commit(repository, "v2.0.0")
    return project


def refuse(project, message, *arguments):
    """An update ends with `message`, and nothing has changed."""
    before = read_files(project)
    process = run_copier(*UPDATE, *arguments, cwd=project, status=1)
    assert process.stderr.rstrip().splitlines()[-1].endswith(message)
    assert read_files(project) == before


def restore_answers(project):
    """As the page on updates says."""
    assert f"`{RESTORE}`" in (ROOT / "docs/updates.md").read_text(encoding="utf-8")
    run("bash", "-c", RESTORE, cwd=project)
    commit(project)


def assert_up_to_date(project):
    run_copier(*UPDATE, cwd=project)
    assert (project / "news.md").exists()


@pytest.mark.parametrize("name", ["README.md", "notes.txt"])
def test_uncommitted_work(project, name):
    """A changed file and a new one alike: a merge could not be told from them."""
    with (project / name).open("a") as file:
        file.write("mine\n")
    message = "Destination repository is dirty; cannot continue."
    refuse(project, f"{message} Please commit or stash your local changes and retry.")
    git(project, "stash", "--include-untracked")
    assert_up_to_date(project)
    commit(project)
    git(project, "stash", "pop")
    assert (project / name).read_text().endswith("mine\n")


def test_no_git(project):
    """Without a repository there is nothing to merge with; to make it one is enough."""
    shutil.rmtree(project / ".git")
    refuse(project, "Updating is only supported in git-tracked subprojects.")
    commit(project)
    assert_up_to_date(project)


def test_no_answers(project):
    """They come back from git."""
    git(project, "rm", ANSWERS)
    commit(project)
    refuse(project, "Template not found")
    restore_answers(project)
    assert_up_to_date(project)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("_src_path:", "source:", "Template not found"),
        ("_commit:", "commit:", f"cannot obtain old template references from `{ANSWERS}`."),
        ("_commit: v1.0.0", "_commit: v1.5.0", "Unknown revision: 'v1.5.0'"),
        ("loop: fit", "loop: nonsense", "'nonsense' is not in ['fit', 'scratch']"),
        ("_src_path: ", "_src_path: /moved", "Local template must be a directory."),
    ],
)
def test_answers_that_were_edited_by_hand(project, old, new, message):
    """What cannot be is refused."""
    edit(project / ANSWERS, old, new)
    commit(project)
    refuse(project, message)
    restore_answers(project)
    assert_up_to_date(project)


def test_an_answer_that_was_edited_by_hand(project, render, repository, tmp_path):
    """It is taken for what the project was rendered with: the code stays as it is.

    Put back and given to the update, it acts.
    """
    edit(project / ANSWERS, "training_loop: fit", "training_loop: scratch")
    commit(project)
    train = (project / "src/my_project/train.py").read_text()
    assert update(project) == []
    assert (project / "src/my_project/train.py").read_text() == train

    git(project, "reset", "--hard")
    git(project, "clean", "--force")
    edit(project / ANSWERS, "training_loop: scratch", "training_loop: fit")
    commit(project)
    assert update(project, training_loop="scratch") == []
    fresh = render(tmp_path / "fresh/my-project", source=repository, training_loop="scratch")
    assert read_files(project) == read_files(fresh)


def test_a_template_at_a_relative_path(repository, tmp_path):
    """Copier records it as it is given, and looks for it from where it runs, later.

    One is told when the project is rendered.
    """
    project = tmp_path / "my-project"
    warning = "Updates will not find the template at"
    printed = run_copier(*COPY, "./repository", "my-project", cwd=tmp_path).stderr
    assert f'{warning} "./repository": write its absolute path' in printed
    assert warning not in run_copier(*COPY, repository, tmp_path / "another", cwd=tmp_path).stderr
    commit(project)
    (repository / "template/news.md").write_text("New.\n")
    commit(repository, "v2.0.0")
    refuse(project, "Local template must be a directory.")
    edit(project / ANSWERS, "_src_path: ./repository", f"_src_path: {repository}")
    commit(project)
    assert_up_to_date(project)
    assert yaml.safe_load((project / ANSWERS).read_text())["_src_path"] == str(repository)


def test_a_template_that_was_not_committed(repository, tmp_path):
    """A project of a version that exists nowhere cannot be updated; Copier warns of it."""
    project = tmp_path / "my-project"
    (repository / "template/news.md").write_text("Draft.\n")
    printed = run_copier(*COPY, "--vcs-ref", "HEAD", repository, project, cwd=tmp_path).stderr
    assert "Dirty template changes included automatically." in printed
    commit(project)
    commit(repository, "v2.0.0")
    version = yaml.safe_load((project / ANSWERS).read_text())["_commit"]
    refuse(project, f"Unknown revision: '{version}'")


def test_an_older_version(project):
    """It never goes back."""
    run_copier(*UPDATE, cwd=project)
    commit(project)
    message = "You are downgrading from 2.0.0 to 1.0.0. Downgrades are not supported."
    refuse(project, message, "--vcs-ref", "v1.0.0")
