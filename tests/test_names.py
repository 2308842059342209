"""Which names a project may have: those that are a distribution, a package and a folder."""

import importlib.metadata
import keyword
import re
import sys
import tomllib

import jinja2
import pytest
from helpers import ROOT, SETTINGS, parse_files, run_python
from packaging.requirements import Requirement

REFUSED = [
    "",
    "-a",
    "../x",
    "3dnet",
    "Abc",
    "a" * 65,
    "a b",
    "a-",
    "a--b",
    "a/b",
    "a_b",
    "abc\n",
    "class",
    "con",
    "docstring-parser",
    "jax",
    "keras",
    "match",
    "my.net",
    "naïve",
    "test",
    "types",
    "пример",
]


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_name_is_refused(render, tmp_path, name):
    """Before anything is written, and with a word on what would be right."""
    with pytest.raises(ValueError, match=r"'project_name': (Use|Choose) "):
        render(tmp_path / "my-project", project_name=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a_", "keras", "my-project", "my_project/..", "Abc"])
def test_a_bad_package_name_is_refused(render, tmp_path, name):
    """It is not asked, but can be given."""
    with pytest.raises(ValueError, match=r"'package_name': (Use|Choose) "):
        render(tmp_path / "my-project", package_name=name)


@pytest.mark.parametrize("name", ["a", "net2", "x-1-2", "a" * 64])
def test_a_good_name_is_used(render, tmp_path, name):
    """For the distribution, the command and, with underscores, for the package."""
    project = render(tmp_path / "folder", project_name=name)
    package = name.replace("-", "_")
    configuration = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert configuration["name"] == name
    assert configuration["scripts"] == {name: f"{package}.__main__:main"}
    assert (project / "src" / package / "train.py").exists()
    parse_files(project)
    run_python(project, "-m", "ruff", "check", "--no-cache")
    run_python(project, "-m", "ruff", "format", "--check", "--no-cache")


@pytest.mark.parametrize(
    ("folder", "name"),
    [("my-project", "my-project"), ("My Project", "my-project"), ("3d_net.", "d-net")],
)
def test_the_folder_proposes_the_name(render, tmp_path, folder, name):
    project = render(tmp_path / folder)
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == name


@pytest.mark.parametrize("folder", ["class", "123", "привет"])
def test_a_folder_that_proposes_no_good_name(render, tmp_path, folder):
    """The question then has no default, rather than one that is refused."""
    with pytest.raises(ValueError, match='Question "project_name" is required'):
        render(tmp_path / folder)


@pytest.fixture(scope="session")
def problem():
    """The template's own rule, which says what is wrong with a name."""
    options = {key: value for key, value in SETTINGS["_envops"].items() if key != "undefined"}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT),
        extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
        **options,
    )
    return environment.get_template("includes/names.jinja").module.problem


def find_allowed(problem, modules):
    """Which of these modules a project could be named like."""
    return {name for name in modules if not problem(name.replace("_", "-")).strip()}


def test_python_keeps_its_names(problem):
    """A package named like a module of Python would hide it; one named like a keyword is none."""
    assert find_allowed(problem, {"my_project", *sys.stdlib_module_names}) == {"my_project"}
    assert find_allowed(problem, [*keyword.kwlist, *keyword.softkwlist]) == set()


def test_dependencies_keep_their_names(problem, render, tmp_path):
    """A package named like a library that it needs would import itself."""
    project = render(tmp_path / "my-project")
    configuration = tomllib.loads((project / "pyproject.toml").read_text())
    wanted = configuration["project"]["dependencies"] + configuration["dependency-groups"]["dev"]
    distributions = closure(Requirement(text).name for text in wanted)
    modules = {
        module
        for module, names in importlib.metadata.packages_distributions().items()
        if {normalize(name) for name in names} & distributions
    }
    assert {"keras", "jax", "numpy", "pytest", "absl"} <= modules
    assert find_allowed(problem, modules) == set()
    assert find_allowed(problem, {name.replace("-", "_") for name in distributions}) == set()


def normalize(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(names):
    """The installed distributions of these names, and all that they require."""
    found, left = set(), [normalize(name) for name in names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            for text in importlib.metadata.requires(name) or []:
                requirement = Requirement(text)
                if not requirement.marker or requirement.marker.evaluate({"extra": ""}):
                    left.append(normalize(requirement.name))
    return found
