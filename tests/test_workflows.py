"""The workflows of this repository, of a project and of the documentation are valid, and run what
the READMEs say."""

import os
import sys
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, commit, fenced_blocks, run

WORKFLOWS = ["project", "test", "render", "updates"]
BIN = Path(sys.executable).parent


@pytest.fixture
def workflow(request, render, tmp_path):
    """The file of a workflow, below .github/workflows as the tools want it."""
    file = tmp_path / ".github/workflows/test.yml"
    if request.param == "project":
        return render(tmp_path / "my-project") / ".github/workflows/test.yml"
    if request.param == "updates":
        blocks = fenced_blocks((ROOT / "docs/updates.md").read_text(encoding="utf-8"))
        (text,) = [code for _, language, code in blocks if language == "yaml"]
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


@pytest.mark.parametrize("version", ["", "v1.0.0"])
def test_the_called_workflow_renders(repository, tmp_path, version):
    """Its script does, where GitHub would run it; the newest version unless told otherwise."""
    commit(repository, "v2.0.0")
    script, _ = scripts(ROOT / ".github/workflows/render.yml")
    inputs = {
        "TEMPLATE": str(repository),
        "VERSION": version,
        "ANSWERS": 'training_loop: scratch\ndescription: "Quotes: \'\\" and $HOME"',
    }
    folder = tmp_path / "runner"
    folder.mkdir()
    run("bash", "-e", "-c", script, cwd=folder, env=os.environ | inputs)
    answers = yaml.safe_load((folder / "my-project/.copier-answers.yml").read_text())
    assert answers["_commit"] == (version or "v2.0.0")
    assert answers["training_loop"] == "scratch"
    assert answers["description"] == "Quotes: '\" and $HOME"
