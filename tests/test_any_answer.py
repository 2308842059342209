"""Whatever someone answers comes back exactly, or is refused with a word on what would be right.

Hypothesis makes the answers up; `--hypothesis-profile=explore` has it try others, and more of them.
"""

import contextlib
import email.utils
import importlib.metadata
import os
import re
import tempfile
import tomllib
import unicodedata
from pathlib import Path

import hatchling.build
import yaml
from helpers import parse_files
from hypothesis import example, given
from hypothesis import strategies as st

PIECES = [
    '"', "'", '"""', "'''", "\\", "\\n", "`", "```", "{", "}", "{{", "}}", "{%", "# {% endif %}",
    "{#", "#}", "${{ secrets.X }}", "$HOME", "%", "%s", "#", ": ", "- ", "&a", "*b", "!c", "|", ">",
    "<!--", "</", "[x]", "🚀", "👩‍🔬", "רשת", "\u202e", "\u200f", "\ufeff", "é", "e\u0301", "ﬀ",
    "x" * 300, " ", "null", "true", "0x10", "1e3", "~", "=", ",", ";", "@", "<a@b.org>", "\t", "\n",
    "\x85", "\u2028", "\x00", "\x1b[31m", "\ud800",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=9)), max_size=6).map("".join),
)
NAMES = st.one_of(
    st.from_regex(r"[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,9}){0,5}", fullmatch=True),
    st.text("aZ09-_./ é\n", max_size=12),
    st.text(max_size=5),
)
ADDRESSES = st.one_of(
    st.just(""),
    st.from_regex(
        r"[a-z!#$%&'*+/=?^_`{|}~.-]{1,9}@[a-z0-9-]{1,9}(\.[a-z]{1,9}){0,2}", fullmatch=True
    ),
    st.emails(),
    st.text('a@."<> \\,;é\n', max_size=9),
)


@contextlib.contextmanager
def rendered(render, **answers):
    """A project, for the length of the block; or none, and why the answers were refused."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            project, refusal = render(Path(folder) / "my-project", **answers), ""
        except ValueError as error:
            project, refusal = None, str(error)
            assert os.listdir(folder) == []
        yield project, refusal


def read_metadata(project):
    """What an installer is told of the project, by its build backend."""
    with contextlib.chdir(project), tempfile.TemporaryDirectory() as folder:
        name = hatchling.build.prepare_metadata_for_build_wheel(folder)
        return importlib.metadata.PathDistribution(Path(folder) / name).metadata


def is_one_line(text):
    """Of characters that are no controls, without blanks at the ends."""
    categories = {unicodedata.category(character) for character in text}
    return categories.isdisjoint({"Cc", "Cs", "Zl", "Zp"}) and text == text.strip()


@given(description=TEXTS, user_name=TEXTS)
@example(description='A """docstring""" \\', user_name='Ada, "the" <first>')
@example(description="\ud800", user_name="")
def test_texts(render, description, user_name):
    """In the metadata, the README, the license and the recorded answers."""
    good = description and is_one_line(description) and is_one_line(user_name)
    with rendered(render, description=description, user_name=user_name) as (project, refusal):
        if not good:
            assert re.search("Describe it in a few words|Use one line of text", refusal)
            return
        parse_files(project)
        table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
        assert table["description"] == description
        assert table.get("authors") == ([{"name": user_name}] if user_name else None)
        readme = (project / "README.md").read_text("utf-8")
        assert readme.startswith(f"# my-project\n\n> {description}\n\n")
        license = (project / "LICENSE").read_text("utf-8")
        assert f" {user_name or 'the authors of my-project'}\n" in license
        answers = yaml.safe_load((project / ".copier-answers.yml").read_text("utf-8"))
        assert (answers["description"], answers["user_name"]) == (description, user_name)
        metadata = read_metadata(project)
        assert metadata["Summary"] == description
        assert (metadata["Author"] or "") == user_name
        assert metadata["Description"] == readme


@given(user_name=TEXTS.filter(is_one_line), user_email=ADDRESSES)
@example(user_name="", user_email=".@example.org")  # which no build backend takes
def test_authors(render, user_name, user_email):
    """The address, beside the name, comes back from the metadata."""
    with rendered(render, user_name=user_name, user_email=user_email) as (project, refusal):
        if refusal:
            assert "Use an address such as ada@example.org, or leave it empty." in refusal
            assert not re.fullmatch(r"\w+@(\w+\.)+\w+", user_email, re.ASCII)
            return
        parse_files(project)
        author = {"name": user_name, "email": user_email}
        author = {key: text for key, text in author.items() if text}
        table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
        assert table.get("authors") == ([author] if author else None)
        metadata = read_metadata(project)
        if user_email:
            found = email.utils.parseaddr(metadata["Author-email"])
            assert found == (user_name, user_email)


@given(name=NAMES)
def test_names(render, name):
    """A distribution, a command and a package of this name, or a word on which would do."""
    good = re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]+)*", name) and len(name) <= 64
    with rendered(render, project_name=name) as (project, refusal):
        if refusal:
            taken = f'Choose another name: "{name}" is taken'
            assert (taken if good else "Use ") in refusal
            return
        assert good
        parse_files(project)
        package = name.replace("-", "_")
        assert package.isidentifier()
        assert os.listdir(project / "src") == [package]
        assert read_metadata(project)["Name"] == name
