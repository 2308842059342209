"""The programs in the documentation run, as they stand there."""

import sys

import pytest
from helpers import ROOT, fenced_blocks, run

PROGRAMS = [
    pytest.param(code, id=f"{path.name}-{number}")
    for path in sorted((ROOT / "docs").rglob("*.md"))
    for number, (_, language, code) in enumerate(fenced_blocks(path.read_text(encoding="utf-8")))
    if language == "python"
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program(tmp_path, code):
    run(sys.executable, "-c", code, cwd=tmp_path)
