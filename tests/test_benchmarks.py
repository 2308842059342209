"""The benchmarks compare what is comparable: contenders that do the same work; and say what is."""

import dataclasses
import importlib.util
import subprocess
import sys

import pytest
from helpers import ROOT

from benchmarks import goals, measure, projects, report, workloads
from benchmarks.contenders import CONTENDERS, OURS, Contender, Epoch
from benchmarks.workloads import Workload

TINY = {
    "mlp": Workload("mlp", "mlp", (5,), (7, 6), batch_size=8, steps=5, steps_per_execution=2),
    "mlp_batch_norm": Workload("deep", "mlp_batch_norm", (5,), (7, 6), batch_size=8, steps=4),
    "convnet": Workload(
        "conv", "convnet", (8, 8, 1), (3, 4), 8, 4, steps_per_execution=2, unroll=True
    ),
}
INSTALLED = [name for name in CONTENDERS if measure.is_installed(name)]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("projects")
    projects.render(folder)
    return folder


@pytest.mark.parametrize("kind", TINY)
def test_contenders_do_the_same(rendered, tmp_path, kind):
    """From the same weights, over the same rows, to the same loss; in another order nearly so.

    But for the epsilon of Adam, which is 1e-7 in Keras and 1e-8 elsewhere.
    """
    workload = TINY[kind]
    folder = workloads.write(workload, tmp_path / "workload")
    # One for each library is enough for all models but the first.
    others = ("jax_optax", "scratch", "flax_nnx", "torch_slices")
    ended = {
        name: measure.run_contender(name, folder, 2, rendered)
        for name in INSTALLED
        if kind == "mlp" or name in others
    }
    reference = ended["jax_optax"]
    for name, epochs in ended.items():
        tolerance = 0.1 if CONTENDERS[name].own_order else 1e-4
        for epoch, expected in zip(epochs, reference, strict=True):
            assert epoch.loss == pytest.approx(expected.loss, rel=tolerance), name
        if not CONTENDERS[name].own_order:
            assert epochs[-1].accuracy == pytest.approx(reference[-1].accuracy, abs=1e-6), name


def test_runs_are_measured_and_reported(tmp_path, monkeypatch, capsys):
    """What runs, what fails and what is not there: each has its row, and the rest goes on."""
    monkeypatch.setitem(CONTENDERS, "absent", Contender("Absent", ("no_such_package",)))
    monkeypatch.setitem(CONTENDERS, "broken", Contender("Broken", ()))
    chosen, contenders = [TINY["mlp"]], ["jax_optax", "absent", "broken"]
    runs = measure.measure(chosen, contenders, rounds=2, epochs=1, output=tmp_path / "out")
    assert [run.contender for run in runs] == [*contenders, "jax_optax"]  # no second try
    text = report.speed_report(chosen, contenders, runs, DESCRIBED, epochs=1)
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if "|" in line}
    assert "1.00" in rows["JAX and Optax, k steps a call"]
    assert "not installed" in rows["Absent"]
    assert "No module named 'benchmarks.contenders.broken'" in rows["Broken"]
    assert "differs" not in text
    assert "µs/step" in capsys.readouterr().out
    assert (tmp_path / "out/.gitignore").read_text() == "*\n"


DESCRIBED = {
    "date": "2020-02-02",
    "architecture": "x86_64",
    "cores": 2,
    "cpu": "a CPU",
    "jax_device": "cpu",
    "versions": {"python": "3.11"},
}


def made_up(contender, *microseconds, loss=1.0):
    return [
        measure.Run("S", contender, number, (Epoch(1.0, loss, 0.5),), value)
        for number, value in enumerate(microseconds, 1)
    ]


def test_ratios_are_those_within_a_round():
    """The median of 400/100, 300/100 and 100/200; the fastest rival of each round counts."""
    runs = [
        *made_up("scratch", 100.0, 100.0, 200.0),
        *made_up("keras_fit", 400.0, 300.0, 100.0),
        *made_up("keras_fit_64", 500.0, 150.0, 900.0),
    ]
    assert report.advantage(runs, "S", "scratch", "keras_fit") == 3.0
    assert report.advantage(runs, "S", "scratch", "keras_fit", "keras_fit_64") == 1.5
    table = report.goals_table(runs)
    assert "| S | this template, scratch | Keras' fit | 2 | 3.00 | reached |" in table


def test_another_loss_is_marked():
    runs = [*made_up("jax_optax", 10.0), *made_up("torch_slices", 1.0, loss=1.2)]
    chosen = [dataclasses.replace(TINY["mlp"], name="S")]
    text = report.speed_report(chosen, ["jax_optax", "torch_slices"], runs, DESCRIBED, epochs=1)
    assert "1.2000 **differs**" in text


def test_every_goal_has_both_loops_and_known_rivals():
    assert {goal.contender for goal in goals.GOALS} == set(OURS)
    assert {goal.workload for goal in goals.GOALS} <= set(workloads.WORKLOADS)
    assert {rival for goal in goals.GOALS for rival in goal.rivals} <= set(CONTENDERS)


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="needs matplotlib")
def test_pictures_are_drawn(tmp_path):
    from benchmarks import figures

    runs = [*made_up("jax_optax", 10.0), *made_up("scratch", 12.0), *made_up("keras_fit", 40.0)]
    chosen = [dataclasses.replace(TINY["mlp"], name="S")]
    contenders = ["jax_optax", "scratch", "keras_fit"]
    figures.draw_speed(chosen, contenders, runs, tmp_path / "speed.png")
    figures.draw_growth({"width": {7: chosen[0]}}, contenders, runs, tmp_path / "growth.png")
    for name in ("speed", "growth"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("benchmarks --rounds 0", "argument --rounds: must be 1 or more"),
        ("benchmarks --contenders tortoise", "invalid choice: 'tortoise'"),
        ("benchmarks.growth --epochs 0", "argument --epochs: must be 1 or more"),
        ("benchmarks.start_up --rounds -1", "argument --rounds: must be 1 or more"),
        ("benchmarks.checkpoints --rounds 0", "argument --rounds: must be 1 or more"),
        ("benchmarks.memory --rounds 1", "unrecognized arguments: --rounds 1"),
    ],
)
def test_a_wrong_flag_is_refused(command, message):
    """In a sentence, with exit code 2, before anything is measured."""
    process = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert process.returncode == 2
    assert message in process.stderr
    assert "Traceback" not in process.stderr
