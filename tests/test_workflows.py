"""The workflows of this repository, of a project and of the documentation are valid, and run what
the READMEs say."""

import os
import sys
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, commit, fenced_blocks, run

# Of a project, of this repository, and of the documentation.
WORKFLOWS = ["project", "test", "render", "updates-0", "updates-1"]
BIN = Path(sys.executable).parent


@pytest.fixture
def workflow(request, render, tmp_path):
    """The file of a workflow, below .github/workflows as the tools want it."""
    file = tmp_path / ".github/workflows/test.yml"
    if request.param == "project":
        return render(tmp_path / "my-project") / ".github/workflows/test.yml"
    page, _, number = request.param.partition("-")
    if number:
        blocks = fenced_blocks((ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
        text = [code for _, language, code in blocks if language == "yaml"][int(number)]
    else:
        text = (ROOT / f".github/workflows/{request.param}.yml").read_text(encoding="utf-8")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def scripts(workflow):
    """Every `run` of a workflow, in order."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return [step["run"] for job in jobs for step in job.get("steps", ()) if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, indirect=True)
def test_a_workflow_is_valid(workflow):
    """By GitHub's schema, by a linter of workflows, and by a linter of shell scripts."""
    schema = ("--builtin-schema", "vendor.github-workflows")
    run(BIN / "check-jsonschema", *schema, workflow, cwd=ROOT)
    run(BIN / "zizmor", "--offline", "--config", ROOT / "tests/zizmor.yml", workflow, cwd=ROOT)
    for script in scripts(workflow):
        (workflow.parent / "script.sh").write_text(f"#!/bin/bash -e\n{script}")
        run(BIN / "shellcheck", workflow.parent / "script.sh", cwd=ROOT)


@pytest.mark.parametrize("workflow", ["project", "render"], indirect=True)
def test_the_commands_are_those_of_the_readme(workflow, project):
    """Which a test runs: to install, in its first block, and to test, in its last."""
    blocks = fenced_blocks((project / "README.md").read_text(encoding="utf-8"))
    shell = [code for _, language, code in blocks if language == "sh"]
    lines = "".join(script.rstrip("\n") + "\n" for script in scripts(workflow))
    assert lines.endswith(shell[0] + shell[-1])


def call(folder, status=0, **inputs):
    """Run the script that renders as GitHub would, in an empty folder."""
    script, _ = scripts(ROOT / ".github/workflows/render.yml")
    folder.mkdir()
    command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
    return run(*command, cwd=folder, status=status, env=os.environ | inputs)


@pytest.mark.parametrize("version", ["", "v1.0.0"])
def test_the_called_workflow_renders(repository, tmp_path, version):
    """The newest version unless told otherwise; answers are no code."""
    commit(repository, "v2.0.0")
    answers = 'training_loop: scratch\ndescription: "Quotes: \'\\" and $HOME"'
    folder = tmp_path / "runner"
    call(folder, TEMPLATE=str(repository), VERSION=version, ANSWERS=answers)
    answers = yaml.safe_load((folder / "my-project/.copier-answers.yml").read_text())
    assert answers["_commit"] == (version or "v2.0.0")
    assert answers["training_loop"] == "scratch"
    assert answers["description"] == "Quotes: '\" and $HOME"


def test_the_called_workflow_knows_the_questions(repository, tmp_path):
    """A misspelt one would else be a test of the defaults; no answer at all is one."""
    inputs = {"TEMPLATE": str(repository), "VERSION": ""}
    process = call(tmp_path / "misspelt", status=1, ANSWERS="trainingloop: scratch", **inputs)
    assert process.stdout.endswith('Ignored: there is no question "trainingloop".\n')
    process = call(tmp_path / "wrong", status=1, ANSWERS="training_loop: keras", **inputs)
    assert "'keras' is not in ['fit', 'scratch']" in process.stdout
    call(tmp_path / "none", ANSWERS="", **inputs)
    assert (tmp_path / "none/my-project/pyproject.toml").exists()
