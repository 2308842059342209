"""Updates to a newer template: what is new comes, and what the user did stays."""

import difflib
import re

import pytest
import yaml
from helpers import (
    EDITS,
    RELEASES,
    VARIANTS,
    commit,
    edit,
    git,
    make_it_ones_own,
    read_files,
    run,
    run_copier,
    update,
    variant_id,
)

NEWEST = list(RELEASES)[-1]
MODEL, DATA = "src/my_project/model.py", "src/my_project/data.py"


@pytest.mark.parametrize(
    ("release", "variant"),
    [
        pytest.param(
            release,
            variant,
            id=f"{release} {variant_id(variant)}",
            marks=() if variant == VARIANTS[0] or release == NEWEST else pytest.mark.matrix,
        )
        for release in RELEASES
        for variant in VARIANTS
    ],
)
def test_an_unedited_project_becomes_a_fresh_one(history, render, tmp_path, release, variant):
    updated = render(tmp_path / "updated/my-project", history, release, **variant)
    commit(updated)
    assert update(updated) == []
    fresh = render(tmp_path / "fresh/my-project", history, **variant)
    assert read_files(updated) == read_files(fresh)


@pytest.mark.parametrize("release", RELEASES)
def test_edits_stay(history, render, tmp_path, release):
    """As if the user had begun with the newest template, but where both changed the same lines."""
    updated = render(tmp_path / "updated/my-project", history, release)
    fresh = render(tmp_path / "fresh/my-project", history)
    base, theirs = read_files(updated), read_files(fresh)
    for project in (updated, fresh):
        make_it_ones_own(project)
    mine = read_files(updated)
    commit(updated)
    conflicts = update(updated)
    assert conflicts == [
        name for name in sorted(EDITS) if clash(base[name], mine[name], theirs[name])
    ]
    result, expected = read_files(updated), read_files(fresh)
    for name in conflicts:
        text = result.pop(name).decode()
        del expected[name]
        assert "\n<<<<<<< before updating\n" in text
        assert all(line in text for line in EDITS[name][1].splitlines())
    assert result == expected


def clash(base, mine, theirs):
    """Whether two versions of a text differ from `base` in the same lines, or in neighbours."""

    def changed(version):
        sides = {"a": base.split(b"\n"), "b": version.split(b"\n")}
        matcher = difflib.SequenceMatcher(**sides, autojunk=False)
        return [(start, end) for tag, start, end, *_ in matcher.get_opcodes() if tag != "equal"]

    return any(
        start <= their_end and their_start <= end
        for start, end in changed(mine)
        for their_start, their_end in changed(theirs)
    )


@pytest.fixture
def both_changed(repository, render, tmp_path):
    """A project with edits, and a template of which each edited file is newer.

    The model and the README are newer in the lines that the user edited, too.
    """
    project = render(tmp_path / "my-project", repository)
    make_it_ones_own(project)
    commit(project)
    edit(find_source(repository, MODEL), "(32, 64)", "(16, 16)")
    edit(find_source(repository, "README.md"), "## Make it yours\n", "## Make it your own\n")
    publish(repository, *EDITS)
    return project


def find_source(repository, name):
    """The file of the template that a file of my-project comes from."""
    return repository / "template" / name.replace("my_project", "{{ package_name }}")


def publish(repository, *names):
    """Make version 2 of the template, in which these files end with a line more."""
    for name in names:
        with find_source(repository, name).open("a") as file:
            file.write("\n# Theirs\n")
    commit(repository, "v2.0.0")


def test_conflicts_are_where_both_changed_the_same_lines(both_changed):
    """There the file holds both versions; all else is merged."""
    conflicts = update(both_changed)
    assert conflicts == ["README.md", MODEL]
    for name, (_, new) in EDITS.items():
        text = (both_changed / name).read_text()
        assert new.strip() in text
        assert text.count("\n# Theirs\n") == 1
        assert ("\n<<<<<<< before updating\n" in text) == (name in conflicts)
    assert "(16, 16)" in (both_changed / MODEL).read_text()
    assert "## Make it your own\n" in (both_changed / "README.md").read_text()


def test_conflicts_are_not_silent(both_changed):
    """The message names the commands that show them, and a plain commit is refused."""
    printed = run_copier("update", "--defaults", cwd=both_changed).stderr
    assert "my-project now follows v2.0.0" in printed
    assert "git status" in printed
    assert "git diff --check HEAD" in printed
    assert f"both modified:   {MODEL}\n" in git(both_changed, "status")
    run("git", "commit", "--message=merged", cwd=both_changed, status=128)
    for _ in range(2):  # once they are staged, too
        check = run("git", "diff", "--check", "HEAD", cwd=both_changed, status=2).stdout
        assert re.search(rf"^{MODEL}:[0-9]+: leftover conflict marker$", check, re.MULTILINE)
        git(both_changed, "add", "--all")


def test_a_file_that_is_ones_own_is_kept_whole(both_changed):
    """With git, where it conflicts, or by --skip, which leaves it out of the update."""
    mine = (both_changed / MODEL).read_bytes()
    update(both_changed)
    git(both_changed, "checkout", "--ours", "--", MODEL)
    assert (both_changed / MODEL).read_bytes() == mine
    git(both_changed, "checkout", "--theirs", "--", MODEL)
    assert "(16, 16)" in (both_changed / MODEL).read_text()

    git(both_changed, "reset", "--hard")
    run_copier("update", "--defaults", "--skip", MODEL, cwd=both_changed)
    assert (both_changed / MODEL).read_bytes() == mine
    assert "UU README.md" in git(both_changed, "status", "--porcelain")


def test_an_update_without_news_changes_nothing(repository, render, tmp_path):
    """Whatever the texts are, and in a later year too."""
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
    assert update(project) == []
    answers = before.pop(".copier-answers.yml").replace(b"v1.0.0", b"v2.0.0")
    assert read_files(project) == {**before, ".copier-answers.yml": answers}


def test_the_year_is_that_of_the_first_copy(repository, render, tmp_path):
    """For both sides of the merge: or else the line of it, changed here, would conflict."""
    project = render(tmp_path / "my-project", source=repository, copyright_year="1999")
    commit(project)
    edit(repository / "variants/license/MIT.txt", "Copyright (c) ", "Copyright © ")
    commit(repository, "v2.0.0")
    assert update(project) == []
    assert "\nCopyright © 1999 " in (project / "LICENSE").read_text()


def test_a_new_project_name_moves_no_file(repository, render, tmp_path):
    """The package keeps its name, and imports of it elsewhere go on working."""
    project = render(tmp_path / "my-project", source=repository)
    commit(project)
    before = read_files(project)
    assert update(project, project_name="renamed") == []
    after = read_files(project)
    assert before.keys() == after.keys()
    assert b'name = "renamed"' in after["pyproject.toml"]
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {".copier-answers.yml", "LICENSE", "README.md", "pyproject.toml"}


def test_a_deleted_file_stays_deleted(repository, render, tmp_path):
    """Also where the template has a newer version of it."""
    project = render(tmp_path / "my-project", source=repository)
    (project / "src/my_project/optax_optimizer.py").unlink()
    commit(project)
    publish(repository, "src/my_project/optax_optimizer.py")
    assert update(project) == []
    assert not (project / "src/my_project/optax_optimizer.py").exists()


def test_a_moved_file_is_left_alone(repository, render, tmp_path):
    """It gets nothing new, unless it is moved back for the update, as the documentation says."""
    project = render(tmp_path / "my-project", source=repository)
    commit(project)
    git(project, "mv", DATA, "src/my_project/my_data.py")
    commit(project)
    moved = (project / "src/my_project/my_data.py").read_text()
    publish(repository, DATA)
    assert update(project) == []
    assert not (project / DATA).exists()
    assert (project / "src/my_project/my_data.py").read_text() == moved

    git(project, "reset", "--hard")
    git(project, "mv", "src/my_project/my_data.py", DATA)
    commit(project)
    assert update(project) == []
    git(project, "mv", DATA, "src/my_project/my_data.py")
    assert (project / "src/my_project/my_data.py").read_text() == f"{moved}\n# Theirs\n"


def test_a_file_that_both_added(repository, render, tmp_path):
    """A conflict, unless git ignores the user's, which is then replaced, as is documented."""
    project = render(tmp_path / "my-project", source=repository)
    (project / ".gitignore").write_text("ignored.md\n")
    for name in ("news.md", "ignored.md"):
        (project / name).write_text("Mine.\n")
        (repository / "template" / name).write_text("Theirs.\n")
    commit(project)
    commit(repository, "v2.0.0")
    assert update(project) == ["news.md"]
    assert (project / "ignored.md").read_text() == "Theirs.\n"


def test_a_project_in_a_folder_of_a_repository(repository, render, tmp_path):
    """It need not have a repository of its own; what lies beside it is neither touched nor lost."""
    project = render(tmp_path / "all/my-project", source=repository)
    make_it_ones_own(project)
    (tmp_path / "all/pyproject.toml").write_text("# Another\n")
    commit(tmp_path / "all")
    publish(repository, MODEL)
    (tmp_path / "all/pyproject.toml").write_text("# Not committed\n")
    assert update(project) == []
    changed = git(tmp_path / "all", "diff", "--name-only").split()
    assert changed == [
        "my-project/.copier-answers.yml",
        f"my-project/{MODEL}",
        "pyproject.toml",
    ]
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers["_commit"] == "v2.0.0"
    git(project, "restore", "--staged", "--worktree", ".")
    git(project, "clean", "--force", "-d", ".")
    assert git(tmp_path / "all", "status", "--porcelain") == " M pyproject.toml\n"
    assert (tmp_path / "all/pyproject.toml").read_text() == "# Not committed\n"
