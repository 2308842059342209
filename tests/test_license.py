"""The license that was chosen, in the name of who chose it."""

import tomllib

import pytest

TITLES = {
    "MIT": "MIT License",
    "Apache-2.0": "Apache License",
    "BSD-3-Clause": "BSD 3-Clause License",
}


@pytest.mark.parametrize(("license", "title"), TITLES.items(), ids=TITLES)
def test_a_license(render, tmp_path, license, title):
    """Its text, with year and name, and its name in the metadata."""
    answers = {"license": license, "copyright_year": "1999", "user_name": "Ada"}
    project = render(tmp_path / "my-project", **answers)
    text = (project / "LICENSE").read_text()
    assert text.lstrip().startswith(title)
    assert "Copyright" in text
    assert "1999" in text
    assert "Ada\n" in text
    configuration = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert configuration["license"] == license
    assert configuration["license-files"] == ["LICENSE"]


def test_no_license(render, tmp_path):
    """No file, and no word of one in the metadata."""
    project = render(tmp_path / "my-project", license="none")
    assert not (project / "LICENSE").exists()
    configuration = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert not {"license", "license-files"} & configuration.keys()


@pytest.mark.parametrize("license", TITLES)
def test_a_license_without_a_name(render, tmp_path, license):
    """It speaks of the authors."""
    project = render(tmp_path / "my-project", license=license)
    assert "the authors of my-project\n" in (project / "LICENSE").read_text()


@pytest.mark.parametrize("year", ["", "99", "1999\n", "in 1999", "now"])
def test_a_bad_year_is_refused(render, tmp_path, year):
    with pytest.raises(ValueError, match="Use four digits"):
        render(tmp_path / "my-project", copyright_year=year)
