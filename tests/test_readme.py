"""Every command that a README shows works, as it stands there, in a fresh environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers import (
    QUESTIONS,
    ROOT,
    commit,
    copy_work_tree,
    edit,
    end,
    fenced_blocks,
    git,
    read_files,
    run,
    spawn,
)


def blocks_to_run(folder, page="README.md"):
    """The language and code of the blocks of a page, but for those that say why not to run."""
    text = (folder / page).read_text(encoding="utf-8")
    return [
        (language, code)
        for before, language, code in fenced_blocks(text)
        if language in ("sh", "python") and not before.startswith("<!-- not run: ")
    ]


def run_block(language, code, folder):
    """Run a block in `folder`; the first command that fails is an error."""
    if language == "sh":
        run("bash", "-euo", "pipefail", "-c", code, cwd=folder)
    else:
        run(folder / ".venv/bin/python", "-c", code, cwd=folder)


def test_the_first_commands(tmp_path):
    """They render and train, with nothing installed; the new project's README goes on from there,
    from the first block to the last."""
    checkout = copy_work_tree(tmp_path / "keras-jax-template")
    commit(checkout)
    run_block(*blocks_to_run(checkout)[0], checkout)
    project = tmp_path / "my-project"
    assert list(project.glob("runs/*/model.keras"))
    assert list(project.glob("runs/*/evaluation.json"))
    blocks = blocks_to_run(project)
    assert len(blocks) >= 2
    for language, code in blocks:
        run_block(language, code, project)
    assert git(checkout, "status", "--porcelain") == ""


@pytest.fixture
def address(repository, monkeypatch):
    """The placeholder for the address of this repository: git finds the work tree there, as v1.0.0,
    and the shell finds Copier."""
    address = "https://example.org/keras-jax-template.git"
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{repository}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", address)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    return address


def test_start_and_update(repository, address, tmp_path):
    """As the README says, from the first question on."""
    start, take, switch = [code for _, code in blocks_to_run(ROOT)[2:]]

    process = spawn("bash", "-c", start, cwd=tmp_path)
    for question in QUESTIONS.values():
        if question.get("ask", True):
            process.expect_exact(question["help"].split("?")[0])
            process.send("\r")
    end(process)

    project = tmp_path / "my-project"
    commit(project)
    (repository / "template/news.md").write_text("New.\n")
    commit(repository, "v1.1.0")
    run_block("sh", take, project)
    assert (project / "news.md").exists()
    commit(project)
    run_block("sh", switch, project)
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert (answers["_src_path"], answers["_commit"]) == (address, "v1.1.0")
    assert answers["training_loop"] == "scratch"


def test_updates(repository, address, tmp_path):
    """The commands of docs/updates.md, in their order, on a project whose model was edited."""
    blocks = [code for _, code in blocks_to_run(ROOT, "docs/updates.md")]
    take, commit_all, give_up, switch, rename, choose, skip, compare = blocks
    project = tmp_path / "my-project"
    run("copier", "copy", "--defaults", address, project, cwd=tmp_path)
    model = project / "src/my_project/model.py"
    theirs = model.read_text()
    mine = theirs.replace("(32, 64)", "(48, 96)")
    model.write_text(mine)
    commit(project)

    (repository / "template/news.md").write_text("New.\n")
    commit(repository, "v1.1.0")
    run_block("sh", take, project)
    assert (project / "news.md").exists()
    run_block("sh", give_up, project)
    assert not (project / "news.md").exists()
    for command in switch.splitlines():
        run_block("sh", f"{command}\n{commit_all}", project)
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert (answers["training_loop"], answers["license"]) == ("scratch", "Apache-2.0")
    assert not (project / "src/my_project/metrics.py").exists()

    edit(repository / "template/src/{{ package_name }}/model.py", "(32, 64)", "(16, 16)")
    theirs = theirs.replace("(32, 64)", "(16, 16)")
    commit(repository, "v1.2.0")
    run("copier", "update", "--defaults", cwd=project)
    assert "UU src/my_project/model.py\n" in git(project, "status", "--porcelain")
    for command, expected in zip(choose.splitlines(), (mine, theirs), strict=True):
        run_block("sh", command, project)
        assert model.read_text() == expected
    run_block("sh", give_up, project)
    run_block("sh", skip, project)
    assert model.read_text() == mine
    commit(project)
    copy, compare, take = compare.splitlines()
    run_block("sh", copy, project)
    printed = run("bash", "-c", compare, cwd=project, status=1).stdout
    assert "\n-        for filters in (48, 96):\n+        for filters in (16, 16):\n" in printed
    run_block("sh", take, project)
    assert model.read_text() == theirs
    assert read_files(project) == read_files(tmp_path / "fresh")

    commit(project)
    run_block("sh", rename, project)
    commit(project)
    (repository / "template/src/{{ package_name }}/news.py").write_text("")
    commit(repository, "v1.3.0")
    run_block("sh", "copier update --defaults", project)
    copy = copy.replace("../fresh", "../renamed")
    run_block("sh", copy, project)
    assert read_files(project) == read_files(tmp_path / "renamed")


def test_contributing(repository, tmp_path):
    """The commands for maintainers are well-formed; tests are collected, as these run already."""
    for _, language, code in fenced_blocks((ROOT / "CONTRIBUTING.md").read_text()):
        assert language == "sh"
        code = code.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
        code = code.replace("-m pytest", "-m pytest --collect-only -n0")
        run_block("sh", code, repository)
    assert (tmp_path / "trial-project/pyproject.toml").exists()


def test_ci_runs_the_second_commands(tmp_path):
    """And nothing else, in a clean checkout of HEAD; when they fail, it fails."""
    (tmp_path / ".ci").mkdir()
    shutil.copy2(ROOT / ".ci/run", tmp_path / ".ci/run")
    readme = tmp_path / "README.md"
    block = "ls README.md missing.txt || true\npwd\n"
    readme.write_text(f"```sh\necho first\n```\n\n```sh\n{block}```\n\n```sh\necho third\n```\n")
    commit(tmp_path)
    (tmp_path / "missing.txt").write_text("not committed")
    printed = run(tmp_path / ".ci/run", cwd="/").stdout.splitlines()
    assert printed[0] == "README.md"
    assert printed[1] not in (str(tmp_path), "/")
    assert len(printed) == 2

    readme.write_text("```sh\n```\n\n```sh\nfalse\necho not reached\n```\n")
    commit(tmp_path)
    process = subprocess.run([tmp_path / ".ci/run"], capture_output=True, check=False)
    assert process.returncode != 0
    assert process.stdout == b""

    readme.write_text("```sh\necho first\n```\n")
    commit(tmp_path)
    process = subprocess.run([tmp_path / ".ci/run"], capture_output=True, check=False)
    assert process.returncode != 0


def test_the_second_commands_run_the_tests():
    """All of them, with the packages that pyproject.toml lists."""
    language, code = blocks_to_run(ROOT)[1]
    assert language == "sh"
    assert "pip install --group dev" in code
    assert code.endswith("/python -m pytest\n")
