"""The questions and messages, as a person at a terminal meets them."""

import os
import sys

import pexpect
import pytest
import yaml
from helpers import QUESTIONS, read_files, run

KEY_DOWN = "\x1b[B"
ERASE_LINE = "\x15"


@pytest.fixture
def ask(template, tmp_path):
    """A function that starts `copier copy` in a terminal; the project goes to tmp_path."""
    processes = []

    def ask(folder="my-project"):
        process = pexpect.spawn(
            sys.executable,
            ["-m", "copier", "copy", str(template), str(tmp_path / folder)],
            env=os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            encoding="utf-8",
            dimensions=(40, 200),
            timeout=60,
        )
        processes.append(process)
        return process

    yield ask
    for process in processes:
        process.close(force=True)


def expect_question(process, name):
    process.expect_exact(QUESTIONS[name]["help"].split("?")[0])


def test_enter_takes_every_default(ask, render, tmp_path):
    """Whoever has no opinion presses Enter, and gets what --defaults gives."""
    process = ask()
    for name, question in QUESTIONS.items():
        if question.get("ask", True):
            expect_question(process, name)
            process.send("\r")
    process.expect_exact("my-project is ready")
    process.expect(pexpect.EOF)
    process.wait()
    assert process.exitstatus == 0
    fresh = render(tmp_path / "fresh/my-project")
    assert read_files(tmp_path / "my-project") == read_files(fresh)


def test_a_person_answers(ask, tmp_path):
    """A refused name is asked again; an arrow key picks the other loop; y and n need no Enter."""
    process = ask("another")
    expect_question(process, "project_name")
    process.send(f"{ERASE_LINE}My Project\r")
    process.expect_exact("Use lower-case letters")
    process.send(f"{ERASE_LINE}my-project\r")
    for name in ("description", "user_name", "user_email", "license"):
        expect_question(process, name)
        process.send("\r")
    expect_question(process, "training_loop")
    process.send(f"{KEY_DOWN}\r")
    expect_question(process, "metrics")
    process.send("n")
    expect_question(process, "add_loss")
    process.send("y")
    expect_question(process, "ci")
    process.send("n")
    process.expect(pexpect.EOF)
    process.wait()
    assert process.exitstatus == 0
    answers = yaml.safe_load((tmp_path / "another/.copier-answers.yml").read_text())
    expected = {
        "project_name": "my-project",
        "package_name": "my_project",
        "training_loop": "scratch",
        "metrics": False,
        "add_loss": True,
        "ci": False,
    }
    assert {name: answers[name] for name in expected} == expected


def test_ctrl_c_leaves_nothing_behind(ask, tmp_path):
    process = ask()
    expect_question(process, "project_name")
    process.send("\r")
    expect_question(process, "description")
    process.sendintr()
    process.expect(pexpect.EOF)
    process.wait()
    assert process.exitstatus != 0
    assert list(tmp_path.iterdir()) == []


def test_an_answer_to_no_question_is_named(template, render, tmp_path):
    """Copier ignores it silently; a misspelt answer would go unnoticed."""
    recorded = (render(tmp_path / "my-project") / ".copier-answers.yml").read_text()
    answers = {name: yaml.safe_load(recorded)[name] for name in QUESTIONS} | {"loop": "scratch"}
    data = [f"--data={name}={value}" for name, value in answers.items()]
    command = ("-m", "copier", "copy", "--defaults", *data, template, tmp_path / "another")
    printed = run(sys.executable, *command, cwd=tmp_path).stderr
    assert [line for line in printed.splitlines() if line.startswith("Ignored")] == [
        'Ignored: there is no question "loop".'
    ]


def test_next_commands_are_printed(template, tmp_path):
    """They may be pasted, also where the folder has blanks in its name."""
    folder = tmp_path / "My Project"
    command = ("-m", "copier", "copy", "--defaults", template, folder)
    printed = run(sys.executable, *command, cwd=tmp_path).stderr
    assert f"cd '{folder}'\n" in printed
    assert "-m my_project train\n" in printed
