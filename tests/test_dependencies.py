"""The tests run what the project asks for."""

import importlib.metadata
import tomllib

import pytest
from helpers import ROOT
from packaging.requirements import Requirement


@pytest.fixture
def requirements(render, tmp_path):
    """What the project needs to run and to be tested."""
    project = render(tmp_path / "my-project")
    configuration = tomllib.loads((project / "pyproject.toml").read_text())
    return configuration["project"]["dependencies"] + configuration["dependency-groups"]["dev"]


def test_the_environment_is_what_the_project_asks_for(requirements):
    """Or else the tests would say nothing about the versions that a user gets."""
    for requirement in map(Requirement, requirements):
        assert importlib.metadata.version(requirement.name) in requirement.specifier


def test_this_repository_asks_for_the_same(requirements):
    """A bound is written twice, but never differs."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(requirements) <= set(configuration["dependency-groups"]["dev"])
