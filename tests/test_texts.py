"""Any text survives: what someone answers is what stands in the files, whatever it is."""

import tomllib

import pytest
import yaml
from helpers import parse_files, run_python

TEXTS = {
    "quotes": """Ada's "fast" net, `quick`""",
    "triple quotes": '''A """docstring""" and \'\'\'another\'\'\'''',
    "backslash": r"C:\new\table \u0041 \" \\",
    "trailing backslash": "ends with \\",
    "emoji": "Trains 🚀 fast 👩‍🔬",
    "accents": "Čapek & Søn, naïve",
    "right to left": "רשת נוירונים של עדה",
    "braces": "{{ project_name }} {% if %} {# comment #} {x!r}",
    "statement": "# {% endif %} # {# comment #}",
    "workflow": "${{ secrets.TOKEN }} $HOME $(id)",
    "percent": "100 % of %s and %(name)s",
    "yaml": "- key: value # no comment",
    "yaml null": "null",
    "yaml number": "0x10",
    "yaml anchor": "&a *b !c @d",
    "toml": 'x" # = [table]',
    "html": "<b>bold</b> <!-- comment -->",
    "markdown": "*a* _b_ [c](d) > e | f",
    "long": "word " * 60 + "end",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_any_text_survives(render, tmp_path, text):
    """In the metadata, the README, the license and the recorded answers."""
    project = render(tmp_path / "my-project", description=text, user_name=text)
    configuration = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert configuration["description"] == text
    assert configuration["authors"] == [{"name": text}]
    assert f"\n\n> {text}\n\n" in (project / "README.md").read_text()
    assert f" {text}\n" in (project / "LICENSE").read_text()
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert (answers["description"], answers["user_name"]) == (text, text)
    parse_files(project)
    run_python(project, "-m", "ruff", "check", "--no-cache")
    run_python(project, "-m", "ruff", "format", "--check", "--no-cache")


@pytest.mark.parametrize("question", ["description", "user_name"])
@pytest.mark.parametrize("character", "\0\t\n\r\x1b\x1f\x7f\x85\u2028\u2029")
def test_control_characters_are_refused(render, tmp_path, question, character):
    """TOML cannot hold most of them, and none belongs in one line of text."""
    with pytest.raises(ValueError, match="Use one line of text"):
        render(tmp_path / "my-project", **{question: f"one{character}two"})


@pytest.mark.parametrize("question", ["description", "user_name"])
@pytest.mark.parametrize("text", [" text", "text ", "text\n"])
def test_blanks_at_the_ends_are_refused(render, tmp_path, question, text):
    """They would be lost, or be white space at the end of a line."""
    with pytest.raises(ValueError, match="Use one line of text"):
        render(tmp_path / "my-project", **{question: text})


def test_an_empty_description_is_refused(render, tmp_path):
    with pytest.raises(ValueError, match="Describe it"):
        render(tmp_path / "my-project", description="")


@pytest.mark.parametrize(
    ("answers", "authors"),
    [
        ({}, None),
        ({"user_name": "Ada"}, [{"name": "Ada"}]),
        ({"user_email": "ada@example.org"}, [{"email": "ada@example.org"}]),
        (
            {"user_name": "Ada", "user_email": "o'ada+x@mail.example.org"},
            [{"name": "Ada", "email": "o'ada+x@mail.example.org"}],
        ),
    ],
    ids=str,
)
def test_authors(render, tmp_path, answers, authors):
    """Name and address are optional, each for itself."""
    project = render(tmp_path / "my-project", **answers)
    configuration = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert configuration.get("authors") == authors


@pytest.mark.parametrize(
    "email",
    [
        "ada",
        "ada@",
        "ada@example",
        "@example.org",
        "ada lovelace@example.org",
        "ada@example..org",
        ".ada@example.org",
        "ada.@example.org",
        "a..da@example.org",
        "ada@example.org\n",
        "ada@example.org, b@example.org",
        "<ada@example.org>",
        'ada"@example.org',
        "ädä@example.org",
    ],
)
def test_a_bad_address_is_refused(render, tmp_path, email):
    with pytest.raises(ValueError, match=r"Use an address such as ada@example\.org"):
        render(tmp_path / "my-project", user_email=email)
