"""A project trains as Keras' own compile and fit do: with each option, and each style of model.

`parity.py` has the cases, and says both sides of each. Weights, optimizer variables (moments,
averages, counters, loss scales) and seeds are compared at the end, results after each epoch.
"""

import ast
import json

import numpy as np
import pytest
from helpers import ROOT, locked, run_python

SCRIPT = ROOT / "tests/parity.py"
# Read, not imported: it would load Keras into the process of the tests.
(TABLE,) = [
    statement.value
    for statement in ast.parse(SCRIPT.read_text()).body
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "CASES"
]
CASES = [key.value for key in TABLE.keys]


@pytest.fixture(scope="session")
def outcomes(render, shared):
    """A function that returns the folder with what came of the cases; one process computes all."""

    def outcomes(side):
        loop = "scratch" if side == "keras" else side
        folder = shared / f"parity-{side}"
        with locked(shared / f"parity-{side}.lock"):
            if not folder.exists():
                project = render(shared / f"parity-{side}-project/my-project", training_loop=loop)
                folder.mkdir()
                driver = "keras" if side == "keras" else "project"
                run_python(project, SCRIPT, driver, folder)
        return folder

    return outcomes


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("training_loop", ["fit", "scratch"])
def test_a_project_trains_as_keras_does(outcomes, training_loop, case):
    ours, theirs = (np.load(outcomes(side) / f"{case}.npz") for side in (training_loop, "keras"))
    tolerance = float(ours["tolerance"])
    names = set(ours.files) - {"history"}
    assert names == set(theirs.files) - {"history"}
    for name in names:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=tolerance, err_msg=name)

    results, expected = (json.loads(str(side["history"])) for side in (ours, theirs))
    if "row_loss" in expected:
        # Keras weighs the batches of an epoch by their rows, a project by the weight of the rows.
        for prefix in ("", "val_"):
            row_loss = expected.pop(f"{prefix}row_loss")
            np.testing.assert_allclose(results[f"{prefix}loss"], row_loss, rtol=1e-6)
            del results[f"{prefix}loss"], expected[f"{prefix}loss"]
    for name in results:
        np.testing.assert_allclose(
            results[name], expected[name], rtol=0, atol=max(tolerance, 1e-6), err_msg=name
        )


def test_both_loops_end_alike(outcomes):
    """To the last bit in every case, whatever the number of steps in a call."""
    for case in CASES:
        fit, scratch = (np.load(outcomes(loop) / f"{case}.npz") for loop in ("fit", "scratch"))
        assert json.loads(str(fit["history"])) == json.loads(str(scratch["history"])), case
        for name in set(fit.files) - {"history"}:
            assert fit[name].tobytes() == scratch[name].tobytes(), f"{case}: {name}"


def test_the_cases_differ(outcomes):
    """No two end alike on the side of Keras, to which Optax is SGD: each option has an effect."""
    ends = {}
    for case in CASES:
        if "optax" not in case:
            with np.load(outcomes("keras") / f"{case}.npz") as arrays:
                names = [name for name in arrays.files if "weight" in name]
                ends[case] = b"".join(arrays[name].tobytes() for name in names)
    assert len(set(ends.values())) == len(ends)
