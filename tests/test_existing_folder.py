"""A project begins where there are files, or a repository, already."""

import sys

import pytest
from helpers import commit, end, git, read_files, run_copier, spawn, update


@pytest.fixture
def existing(tmp_path):
    """A repository with files; one has the name of a file of the template."""
    folder = tmp_path / "my-project"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("mine\n")
    (folder / "notes.txt").write_text("mine\n")
    (folder / "src/mine.py").write_text("MINE = 1\n")
    commit(folder)
    return folder


@pytest.mark.parametrize("key", ["n", "y"])
def test_a_person_is_asked_before_a_file_is_replaced(repository, render, existing, key):
    """What has another name stays in any case."""
    before = read_files(existing)
    command = ("-m", "copier", "copy", "--defaults", repository, existing)
    process = spawn(sys.executable, *command)
    process.expect_exact("Overwrite README.md?")
    process.send(key)
    end(process)
    expected = read_files(render(existing.parent / "fresh/my-project", repository)) | before
    if key == "y":
        expected["README.md"] = read_files(existing.parent / "fresh/my-project")["README.md"]
    assert read_files(existing) == expected


def test_without_a_person_an_option_says_what_to_do(repository, existing):
    """--skip keeps a file, --overwrite replaces it; without either, it is kept and Copier ends."""
    folders = (repository, existing)
    process = run_copier("copy", "--defaults", *folders, cwd="/", status=1)
    assert "Consider using `--overwrite`" in process.stderr
    assert (existing / "README.md").read_text() == "mine\n"
    run_copier("copy", "--defaults", "--skip", "README.md", *folders, cwd="/")
    assert (existing / "README.md").read_text() == "mine\n"
    run_copier("copy", "--defaults", "--overwrite", *folders, cwd="/")
    assert (existing / "README.md").read_text().startswith("# my-project\n")
    assert (existing / "notes.txt").read_text() == "mine\n"


def test_it_is_updated_like_any_other(repository, existing):
    """The file that was kept is taken for an edit of the template's."""
    run_copier("copy", "--defaults", "--skip", "README.md", repository, existing, cwd="/")
    commit(existing)
    (repository / "template/news.md").write_text("New.\n")
    commit(repository, "v2.0.0")
    assert update(existing) == []
    assert git(existing, "status", "--porcelain").splitlines() == [
        " M .copier-answers.yml",
        "?? news.md",
    ]
