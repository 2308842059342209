"""Which files a project has, and that each of them is well-formed."""

import re

import pytest
import yaml
from helpers import QUESTIONS, parse_files, read_files, run_copier

FILES = {
    ".copier-answers.yml",
    ".github/workflows/test.yml",
    ".gitignore",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "src/my_project/__init__.py",
    "src/my_project/__main__.py",
    "src/my_project/checkpoint.py",
    "src/my_project/config.py",
    "src/my_project/data.py",
    "src/my_project/debugging.py",
    "src/my_project/digits.csv",
    "src/my_project/early_stopping.py",
    "src/my_project/errors.py",
    "src/my_project/interruption.py",
    "src/my_project/losses.py",
    "src/my_project/model.py",
    "src/my_project/model_file.py",
    "src/my_project/optax_optimizer.py",
    "src/my_project/optimizer.py",
    "src/my_project/reporting.py",
    "src/my_project/run_directory.py",
    "src/my_project/steps.py",
    "src/my_project/train.py",
    "tests/conftest.py",
    "tests/test_checkpoint.py",
    "tests/test_command_line.py",
    "tests/test_data.py",
    "tests/test_early_stopping.py",
    "tests/test_losses.py",
    "tests/test_optax_optimizer.py",
    "tests/test_optimizer.py",
    "tests/test_steps.py",
    "tests/test_train.py",
}


def test_the_files_are_these(project, variant):
    """An answer adds its files and no others."""
    expected = set(FILES)
    if variant["metrics"]:
        expected.add("src/my_project/metrics.py")
    if variant["add_loss"]:
        expected.add("src/my_project/layers.py")
    assert read_files(project).keys() == expected


def test_every_file_is_well_formed(project):
    """Python, TOML, YAML, JSON, and the blocks of code in Markdown."""
    parse_files(project)


def test_every_file_is_clean(project):
    """No trace of the template, no white space at the end of a line, one newline at the end."""
    for name, content in read_files(project).items():
        text = content.decode()
        if name.startswith(".github/"):
            text = re.sub(r"\$\{\{ .*? \}\}", "expression", text)  # GitHub's own syntax
        assert not re.search(r"\{\{|\{%|%\}|\{#|#\}", text), name
        # In Python, two braces may also end a format within a format.
        assert name.endswith(".py") or "}}" not in text, name
        assert [line for line in text.split("\n") if line != line.rstrip()] == [], name
        assert text.endswith("\n"), name
        assert not text.endswith("\n\n"), name


@pytest.mark.parametrize("add_loss", [True, False])
@pytest.mark.parametrize("metrics", [True, False])
def test_the_loops_differ_in_one_file(render, tmp_path, metrics, add_loss):
    """Whoever switches the loop keeps everything but the driver."""
    answers = {"metrics": metrics, "add_loss": add_loss}
    fit = read_files(render(tmp_path / "fit/my-project", training_loop="fit", **answers))
    scratch = read_files(
        render(tmp_path / "scratch/my-project", training_loop="scratch", **answers)
    )
    assert fit.keys() == scratch.keys()
    different = {name for name in fit if fit[name] != scratch[name]}
    assert different == {".copier-answers.yml", "src/my_project/train.py"}


def test_two_renders_are_equal(template, variant, tmp_path, monkeypatch):
    """Byte for byte, in other processes, on another day, in another order of hashing."""
    renders = []
    for number, zone in enumerate(["AAA+12", "BBB-12"]):
        monkeypatch.setenv("TZ", zone)  # 24 hours apart
        monkeypatch.setenv("PYTHONHASHSEED", str(number))
        folder = tmp_path / str(number) / "my-project"
        # The year is an answer, which is recorded.
        answers = variant | {"copyright_year": "1999"}
        data = [f"--data={key}={value}" for key, value in answers.items()]
        run_copier("copy", "--defaults", *data, template, folder, cwd=tmp_path)
        renders.append(read_files(folder))
    assert renders[0] == renders[1]


def test_the_answers_are_recorded(project, variant, template):
    """All of them, and where the template came from, for updates."""
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers.keys() == QUESTIONS.keys() | {"_src_path"}
    assert answers["_src_path"] == str(template)
    assert answers.items() >= variant.items()


def test_without_ci_there_is_no_workflow(render, tmp_path):
    """Nor an empty folder in its place."""
    project = render(tmp_path / "my-project", ci=False)
    assert read_files(project).keys() == {*FILES, "src/my_project/metrics.py"} - {
        ".github/workflows/test.yml"
    }
    assert not (project / ".github").exists()


def test_no_folder_is_empty(project):
    """A file that an answer leaves out takes its folder with it."""
    folders = [path for path in project.rglob("*") if path.is_dir()]
    assert [folder for folder in folders if not any(folder.iterdir())] == []


def test_an_answer_to_no_question_is_an_error(render, tmp_path):
    """In these tests; Copier itself would ignore it."""
    with pytest.raises(TypeError, match="there is no question trainig_loop"):
        render(tmp_path / "my-project", trainig_loop="scratch")
