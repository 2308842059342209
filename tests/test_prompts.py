"""The questions and messages, as a person at a terminal meets them."""

import sys

import pytest
import yaml
from helpers import QUESTIONS, end, read_files, run_copier, spawn

KEY_DOWN = "\x1b[B"
ERASE_LINE = "\x15"


@pytest.fixture
def ask(template, tmp_path):
    """A function that starts `copier copy` in a terminal; the project goes to tmp_path."""
    processes = []

    def ask(folder="my-project", *options, **environment):
        command = ("-m", "copier", "copy", *options, template, tmp_path / folder)
        process = spawn(sys.executable, *command, **environment)
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
    end(process)
    fresh = render(tmp_path / "fresh/my-project")
    assert read_files(tmp_path / "my-project") == read_files(fresh)


def test_a_person_answers(ask, tmp_path):
    """Each question; what is refused is asked again, an arrow key picks, y and n need no Enter."""
    process = ask("another")
    for name, refused, reason, answer in [
        ("project_name", "My Project", "Use lower-case letters", "my-project"),
        ("description", "", "Describe it in a few words", 'Ada\'s "first" net'),
        ("user_name", " ", "Use one line of text", "Ada"),
        ("user_email", "ada", "Use an address such as", "ada@example.org"),
    ]:
        expect_question(process, name)
        process.send(f"{ERASE_LINE}{refused}\r")
        process.expect_exact(reason)
        process.send(f"{ERASE_LINE}{answer}\r")
    expect_question(process, "license")
    process.send(f"{KEY_DOWN}{KEY_DOWN}\r")
    expect_question(process, "training_loop")
    process.send(f"{KEY_DOWN}\r")
    for name, key in {"metrics": "n", "add_loss": "y", "ci": "n"}.items():
        expect_question(process, name)
        process.send(key)
    end(process)
    answers = yaml.safe_load((tmp_path / "another/.copier-answers.yml").read_text())
    del answers["_src_path"], answers["copyright_year"]
    assert answers == {
        "project_name": "my-project",
        "package_name": "my_project",
        "description": 'Ada\'s "first" net',
        "user_name": "Ada",
        "user_email": "ada@example.org",
        "license": "BSD-3-Clause",
        "training_loop": "scratch",
        "metrics": False,
        "add_loss": True,
        "ci": False,
    }


def test_copier_knows_who_is_asked(ask, tmp_path):
    """The settings of Copier that a person has give the defaults of name and address."""
    settings = tmp_path / "settings.yml"
    settings.write_text("defaults: {user_name: Ada, user_email: ada@example.org}\n")
    end(ask("my-project", "--defaults", COPIER_SETTINGS_PATH=str(settings)))
    answers = yaml.safe_load((tmp_path / "my-project/.copier-answers.yml").read_text())
    assert (answers["user_name"], answers["user_email"]) == ("Ada", "ada@example.org")


@pytest.mark.parametrize("last", [name for name in QUESTIONS if QUESTIONS[name].get("ask", True)])
def test_ctrl_c_leaves_nothing_behind(ask, tmp_path, last):
    """At any question."""
    process = ask()
    for name, question in QUESTIONS.items():
        if question.get("ask", True):
            expect_question(process, name)
            if name == last:
                break
            process.send("\r")
    process.sendintr()
    end(process, status=1)
    assert list(tmp_path.iterdir()) == []


# Without a person: --data


def copy(template, folder, *options, status=0):
    command = ("copy", "--defaults", *options, template, folder)
    return run_copier(*command, cwd=folder.parent, status=status).stderr


def test_an_answer_to_no_question_is_named(template, render, tmp_path):
    """Copier ignores it silently; a misspelt answer would go unnoticed."""
    recorded = (render(tmp_path / "my-project") / ".copier-answers.yml").read_text()
    answers = yaml.safe_load(recorded) | {"loop": "scratch"}
    data = [f"--data={name}={value}" for name, value in answers.items()]
    printed = copy(template, tmp_path / "another", *data)
    assert [line for line in printed.splitlines() if line.startswith("Ignored")] == [
        'Ignored: there is no question "loop".'
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("training_loop=keras", "'keras' is not in ['fit', 'scratch']"),
        ("license=GPL", "'GPL' is not in ['MIT', 'Apache-2.0', 'BSD-3-Clause', 'none']"),
        ("metrics=maybe", "'metrics': Answer yes or no."),
        ("add_loss=", "'add_loss': Answer yes or no."),
        ("ci=2", "'ci': Answer yes or no."),
        ("project_name=My Project", "digits and single dashes, and begin with a letter, as in"),
        ("package_name=my-package", "'package_name': Use underscores, as in my_project."),
        ("copyright_year=now", "'copyright_year': Use four digits."),
    ],
)
def test_a_wrong_answer_is_refused(template, tmp_path, answer, message):
    """The last line says what would be right; nothing is written."""
    printed = copy(template, tmp_path / "my-project", f"--data={answer}", status=1)
    assert message in printed.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["yes", "Y", "true", "ON", "1", "no", "n", "False", "off", "0"])
def test_yes_and_no_have_many_names(render, tmp_path, word):
    render(tmp_path / "my-project", metrics=word)
    yes = word.lower() in ("yes", "y", "true", "on", "1")
    assert (tmp_path / "my-project/src/my_project/metrics.py").exists() == yes


def test_an_answer_that_is_not_asked_can_be_given(template, tmp_path):
    """The package may have a name of its own, and the year be another; both are recorded."""
    data = ("--data=package_name=nets", "--data=copyright_year=1999")
    copy(template, tmp_path / "my-project", *data)
    project = tmp_path / "my-project"
    assert (project / "src/nets/train.py").exists()
    assert "Copyright (c) 1999 " in (project / "LICENSE").read_text()
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert (answers["package_name"], answers["copyright_year"]) == ("nets", "1999")


def test_next_commands_are_printed(template, tmp_path):
    """They may be pasted, also where the folder has blanks in its name."""
    folder = tmp_path / "My Project"
    printed = copy(template, folder)
    assert f"cd '{folder}'\n" in printed
    assert "-m my_project train\n" in printed
