"""What several test files need: the variants, processes, git, and a look into files."""

import ast
import contextlib
import fcntl
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import copier
import h5py
import pexpect
import yaml

ROOT = Path(__file__).parent.parent
SETTINGS = yaml.safe_load((ROOT / "copier.yml").read_text(encoding="utf-8"))
QUESTIONS = {key: value for key, value in SETTINGS.items() if not key.startswith("_")}

# Every combination of the answers that change the code.
VARIANTS = [
    {"training_loop": training_loop, "metrics": metrics, "add_loss": add_loss}
    for training_loop, metrics, add_loss in itertools.product(
        ("fit", "scratch"), (True, False), (False, True)
    )
]


def variant_id(variant):
    """Name a variant, as in fit+metrics+add_loss."""
    return "+".join([variant["training_loop"], *(key for key in variant if variant[key] is True)])


# Processes


def run(*command, cwd, status=0, **kwargs):
    """Run a command, which must end with `status`, and return it; it has nothing to read."""
    process = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        **kwargs,
    )
    assert process.returncode == status, f"{command}\n{process.stdout}\n{process.stderr}"
    return process


def run_copier(*arguments, cwd, status=0):
    """Run the command of Copier, with nobody to ask."""
    return run(sys.executable, "-m", "copier", *arguments, cwd=cwd, status=status)


def spawn(*command, cwd=None, **environment):
    """Start a command in a terminal."""
    program, *arguments = map(str, command)
    return pexpect.spawn(
        program,
        arguments,
        cwd=cwd,
        env=os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"} | environment,
        encoding="utf-8",
        dimensions=(40, 200),
        timeout=60,
    )


def end(process, status=0):
    """Wait for what was started in a terminal, which must end with `status`."""
    process.expect(pexpect.EOF)
    process.wait()
    assert process.exitstatus == status


def run_python(project, *arguments):
    """Run Python in a project, whose package need not be installed; it must warn of nothing."""
    environment = os.environ | {"PYTHONPATH": str(project / "src")}
    process = run(sys.executable, *arguments, cwd=project, env=environment)
    assert process.stderr == ""
    return process


@contextlib.contextmanager
def locked(path):
    """Let one process of a test run at a time into the block, by a lock on the file `path`."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def git(folder, *arguments):
    """Run git in `folder` and return what it prints."""
    return run("git", *arguments, cwd=folder).stdout


def commit(folder, tag=None):
    """Commit all of `folder`, making it a repository if it is none yet."""
    if not (folder / ".git").exists():
        git(folder, "init", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--allow-empty", "--message=commit")
    if tag:
        git(folder, "tag", tag)


def find_releases():
    """The commit of each tag; until there are tags, of a few versions from the first on."""
    if tags := git(ROOT, "tag", "--list", "v*", "--merged=HEAD", "--sort=version:refname").split():
        return dict(zip(tags, tags, strict=True))
    source = ("copier.yml", "includes", "template", "variants")
    commits = git(ROOT, "rev-list", "--first-parent", "--reverse", "HEAD", "--", *source).split()
    return {
        f"v0.{number}": commit for number, commit in enumerate(commits[:: len(commits) // 5 + 1])
    }


RELEASES = find_releases()


# Updates


def update(project, **answers):
    """Update as `copier update --defaults` does, and return the files with conflicts."""
    copier.run_update(
        project,
        data=answers,
        defaults=True,
        overwrite=True,
        quiet=True,
        settings=copier.Settings(),
    )
    assert list(project.rglob("*.rej")) == []
    return git(project, "diff", "--name-only", "--diff-filter=U").split()


def edit(path, old, new):
    """Replace a text that is there exactly once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} holds {old} {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")


# What a user changes first: the lines exist in every release.
EDITS = {
    "src/my_project/model.py": ("for filters in (32, 64):", "for filters in (48, 96):"),
    "src/my_project/data.py": ("test = len(table) // 5", "test = len(table) // 4"),
    "src/my_project/steps.py": (
        "    trainable_variables, optimizer_variables = optimizer.stateless_apply(\n",
        "    gradients = [1.0 * gradient for gradient in gradients]\n"
        "    trainable_variables, optimizer_variables = optimizer.stateless_apply(\n",
    ),
    "src/my_project/config.py": ("learning_rate: float = 2e-3", "learning_rate: float = 1e-3"),
    "README.md": ("## Make it yours\n", "## What we found\n\nIt learns.\n\n## Make it yours\n"),
    "pyproject.toml": ('  "tyro>=1.0,<2",\n', '  "scipy>=1.11",\n  "tyro>=1.0,<2",\n'),
}


def make_it_ones_own(project):
    """Edit model, data, step, configuration, README and dependencies."""
    for name, (old, new) in EDITS.items():
        edit(project / name, old, new)


# Files


def copy_work_tree(target):
    """Copy to `target` what git would commit: tracked or new, not ignored."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def read_files(folder):
    """The content of every file below `folder`, by its path; git's own are left out."""
    paths = {path.relative_to(folder): path for path in sorted(folder.rglob("*"))}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in paths.items()
        if path.is_file() and name.parts[0] != ".git"
    }


def fenced_blocks(markdown):
    """The fenced blocks of a Markdown text: the line before, the language and the code of each."""
    pattern = r"^([^\n]*)\n```(\w*)\n(.*?)^```$"
    return re.findall(pattern, "\n" + markdown, re.MULTILINE | re.DOTALL)


def parse_markdown(text):
    for _, language, code in fenced_blocks(text):
        PARSERS[language](code)


def parse_shell(text):
    run("bash", "-n", "-c", text, cwd=ROOT)


# By the ending of a file, or the language of a block in a Markdown file.
PARSERS = {
    "ipynb": json.loads,
    "json": json.loads,
    "md": parse_markdown,
    "py": ast.parse,
    "python": ast.parse,
    "sh": parse_shell,
    "text": str,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
    "yml": yaml.safe_load,
}


def parse_files(folder):
    """Raise an error if a file of a language we know is not well-formed."""
    for name, content in read_files(folder).items():
        PARSERS.get(name.rpartition(".")[2], str)(content.decode())


def read_weights(model):
    """The bytes of each array in a .keras file, by name; this loads neither Keras nor JAX."""
    weights = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            weights[name] = item[()].tobytes()

    with zipfile.ZipFile(model) as archive:
        file = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(file) as group:
        group.visititems(visit)
    return weights
