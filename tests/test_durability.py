"""Runs survive: they are killed, stopped, starved of disk, and go on to the same end."""

import csv
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pexpect
import pytest
from helpers import ROOT, read_weights, run, run_python

LOOPS = pytest.mark.parametrize("training_loop", ["fit", "scratch"])
OTHER = {"fit": "scratch", "scratch": "fit"}
# Five steps an epoch, two in a call; with all that has a memory, and checkpoints in mid-epoch.
OPTIONS = (
    *("--epochs", 4, "--batch-size", 256, "--steps-per-execution", 2, "--checkpoint-steps", 2),
    *("--warmup-steps", 2, "--gradient-accumulation-steps", 2, "--ema-momentum", 0.9),
    *("--patience", 3, "--keep-checkpoints", 2),
)
TRAIN = ("-m", "my_project", "train")
RESUME = (*TRAIN, "--resume", "--run-dir", "runs/a")


@pytest.fixture(scope="session")
def projects(render, tmp_path_factory):
    """A project with each training loop."""
    folder = tmp_path_factory.mktemp("durability")
    return {loop: render(folder / loop / "my-project", training_loop=loop) for loop in OTHER}


@pytest.fixture(scope="session")
def whole(projects):
    """A run that nothing interrupts."""
    run_python(projects["fit"], *TRAIN, *OPTIONS, "--run-dir", "runs/whole")
    return projects["fit"] / "runs/whole"


@pytest.fixture
def project(projects, training_loop, tmp_path):
    """A project of the test's own."""
    return shutil.copytree(projects[training_loop], tmp_path / "my-project")


def environment(project):
    return os.environ | {"PYTHONPATH": str(project / "src")}


def attempt(project, *arguments, **options):
    """Run Python in a project, whatever comes of it."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=project,
        env=environment(project),
        capture_output=True,
        encoding="utf-8",
        check=False,
        **options,
    )


def read_rows(run_dir):
    """metrics.csv, without the one column that depends on the clock."""
    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][-1] == "examples_per_second"
    return [row[:-1] for row in rows]


def assert_alike(run_dir, other):
    """To the last bit: every row, and the weights of the last epoch and the best."""
    assert read_rows(run_dir) == read_rows(other)
    for name in ("model.keras", "best.keras"):
        assert read_weights(run_dir / name) == read_weights(other / name)


def checkpoints(run_dir):
    """The steps of the checkpoints that are complete."""
    folder = run_dir / "checkpoints"
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    return sorted(int(name) for name in names if name.isdecimal())


def assert_checkpoints_are_whole(run_dir):
    """By sha256sum, as anyone can check it."""
    for step in checkpoints(run_dir):
        run(
            "sha256sum",
            "--check",
            "--quiet",
            "SHA256SUMS",
            cwd=run_dir / f"checkpoints/{step}/state",
        )


# kill -9


def train_and_be_killed(projects, runs, seed, kills=100):
    """Train; at random calls be killed, and go on with the other driver, until the run ends.

    `runs` is where both have their runs. Returns how many were killed, and how many while saving.
    """
    generator = np.random.default_rng(seed)
    drivers = list(projects.values())
    killed = saving = 0
    while True:
        call = int(generator.integers(1, 60_000)) if killed < kills else 0
        script = ROOT / "tests/train_and_die.py"
        arguments = ("train", "--resume", "--run-dir", runs / "a", *OPTIONS)
        process = attempt(drivers[killed % 2], script, call, *arguments)
        assert_checkpoints_are_whole(runs / "a")
        if process.returncode == 0:
            return killed, saving
        assert process.returncode == -signal.SIGKILL, process.stderr
        killed += 1
        saving += any((runs / "a/checkpoints").glob("*tmp*"))


def test_killed_runs_end_as_if_they_had_not_been(projects, whole, tmp_path):
    """Three times, at random, from one driver to the other."""
    killed, _ = train_and_be_killed(projects, tmp_path, seed=1, kills=3)
    assert killed == 3
    assert_alike(tmp_path / "a", whole)


@pytest.mark.kills
def test_fifty_kills(projects, whole, tmp_path):
    """At random, at least ten of them in the middle of a save."""
    total = total_saving = 0
    for seed in range(1000):
        killed, saving = train_and_be_killed(projects, tmp_path / str(seed), seed)
        assert_alike(tmp_path / str(seed) / "a", whole)
        total, total_saving = total + killed, total_saving + saving
        print(f"{total} killed, {total_saving} of them while saving")
        if total >= 50:
            break
    assert total_saving >= 10


# Signals


def spawn(project, *arguments):
    """Train in a terminal."""
    return pexpect.spawn(
        sys.executable,
        [*map(str, arguments)],
        cwd=str(project),
        env=environment(project) | {"TERM": "xterm"},
        encoding="utf-8",
        dimensions=(40, 200),
        timeout=120,
    )


# Waits, in a step of the second epoch, for a line.
HOLD = """
from my_project import __main__, reporting

execution = reporting.Report.execution

def hold(report, results):
    execution(report, results)
    if report.step in (7, 12):
        input("holds")

reporting.Report.execution = hold
__main__.main()
"""


@LOOPS
def test_sigterm_saves_and_ends(project, training_loop, projects, whole):
    """With exit code 143, and the run goes on in the other driver as if nothing had been."""
    process = spawn(project, "-c", HOLD, "train", *OPTIONS, "--run-dir", "runs/a")
    process.expect_exact("holds")
    process.kill(signal.SIGTERM)
    process.sendline()
    process.expect_exact("interrupted after 7 of 20 steps, saved: go on with python -m my_project ")
    process.expect(pexpect.EOF)
    process.wait()
    assert process.exitstatus == 143
    assert checkpoints(project / "runs/a")[-1] == 7
    other = shutil.copytree(project / "runs", projects[OTHER[training_loop]] / "runs/moved")
    run_python(projects[OTHER[training_loop]], *TRAIN, "--resume", "--run-dir", "runs/moved/a")
    assert_alike(Path(other) / "a", whole)


@LOOPS
def test_ctrl_c_says_how_to_go_on(project, training_loop, whole):
    """And the command that it prints goes on."""
    process = spawn(project, "-c", HOLD, "train", *OPTIONS, "--run-dir", "runs/a")
    process.expect_exact("holds")
    process.sendintr()
    process.expect_exact("stopping with this step; press Ctrl-C again to stop at once")
    process.sendline()
    process.expect(r"interrupted after 7 of 20 steps, saved: go on with python ([^\r]*)\r")
    command = process.match[1].split()
    process.expect(pexpect.EOF)
    process.wait()
    assert process.exitstatus == 130
    run_python(project, *command)
    assert_alike(project / "runs/a", whole)


STOP_AT_ONCE = """
import os, signal
from my_project import __main__, reporting

execution = reporting.Report.execution

def interrupted(report, results):
    execution(report, results)
    if report.step == 7:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

reporting.Report.execution = interrupted
__main__.main()
"""


def test_ctrl_c_twice_ends_at_once(projects, tmp_path):
    """And says which checkpoint there is."""
    arguments = ("train", *OPTIONS, "--run-dir", tmp_path / "a")
    process = attempt(projects["scratch"], "-c", STOP_AT_ONCE, *arguments)
    assert process.returncode == 130
    assert "Traceback" not in process.stderr
    assert "interrupted; the checkpoint of step 5 is whole: go on with python" in process.stderr


# The disk


def drop_the_right_to_write():
    """Let permissions count for root, too."""
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.fixture
def half(projects, tmp_path):
    """A run of which half is done, as it was interrupted."""
    arguments = ("train", *OPTIONS, "--run-dir", tmp_path / "a")
    assert attempt(projects["fit"], "-c", INTERRUPT, *arguments).returncode == 143
    return tmp_path / "a"


INTERRUPT = (
    STOP_AT_ONCE.replace("range(2)", "range(1)")
    .replace("SIGINT", "SIGTERM")
    .replace("== 7", "== 10")
)


@LOOPS
def test_a_directory_that_cannot_be_written_to_is_refused(projects, training_loop, half):
    """In one sentence, and no file is another."""
    files = [path for path in half.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    folders = [half, *(path for path in half.rglob("*") if path.is_dir())]
    for path in [*files, *folders]:
        path.chmod(0o555)
    try:
        process = attempt(
            projects[training_loop],
            *(*TRAIN, "--resume", "--run-dir", half),
            preexec_fn=drop_the_right_to_write,
        )
    finally:
        for path in [*files, *folders]:
            path.chmod(0o755)
    assert process.returncode == 2
    assert process.stderr == f"error: cannot write to {half}: Permission denied\n"
    assert {path: path.read_bytes() for path in files} == before


# In a namespace of its own, where no rights are needed for that; what is on it is kept in `kept`.
ON_A_SMALL_DISK = """
kept=$PWD/kept && mount -t tmpfs -o size=3m disk /mnt && cd /mnt || exit
"$@"
status=$?
cp -r runs "$kept"
exit $status
"""


@LOOPS
def test_a_full_disk_ends_the_run_in_a_sentence(projects, training_loop, whole, tmp_path):
    """The checkpoints before are whole, and with more space the run goes on to the same end."""
    process = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh"),
            *(sys.executable, *TRAIN, *map(str, OPTIONS), "--run-dir", "runs/a"),
        ],
        cwd=tmp_path,
        env=environment(projects[training_loop]),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    newest = checkpoints(tmp_path / "kept/a")[-1]
    assert process.returncode == 2
    assert process.stderr == (
        "error: the disk of runs/a is full: a checkpoint takes up to 2 MiB; the checkpoint of step "
        f"{newest} is whole: go on with python -m my_project train --resume --run-dir runs/a\n"
    )
    assert_checkpoints_are_whole(tmp_path / "kept/a")
    run_python(projects["fit"], *TRAIN, "--resume", "--run-dir", tmp_path / "kept/a")
    assert_alike(tmp_path / "kept/a", whole)


def limit_files():
    """Let no file grow beyond 30 kB, as a quota might."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


def test_what_fails_in_the_background_ends_the_run(projects, half, whole):
    """A line says what and how to go on, among those of Orbax; the checkpoints before are whole."""
    process = attempt(
        projects["scratch"], *TRAIN, "--resume", "--run-dir", half, preexec_fn=limit_files
    )
    assert process.returncode == 2
    line = (
        f"error: cannot write a checkpoint in {half}: File too large; the checkpoint of step 10 "
        f"is whole: go on with python -m my_project train --resume --run-dir {half}"
    )
    assert line in process.stderr.splitlines()
    assert_checkpoints_are_whole(half)
    run_python(projects["fit"], *TRAIN, "--resume", "--run-dir", half)
    assert_alike(half, whole)


def test_a_second_process_is_refused(projects, half, whole):
    """While the first trains, and not after it."""
    first = spawn(projects["fit"], "-c", HOLD, "train", "--resume", "--run-dir", half)
    first.expect_exact("holds")
    second = attempt(projects["scratch"], *TRAIN, "--resume", "--run-dir", half)
    assert second.returncode == 2
    assert second.stderr == f"error: {half} is in use by another process\n"
    first.sendline()
    first.expect(pexpect.EOF)
    assert_alike(half, whole)
    run_python(projects["scratch"], *TRAIN, "--resume", "--run-dir", half)


def test_a_run_is_repeated_from_its_settings(projects, whole, tmp_path):
    """By config.json alone, in another process and with the other driver."""
    config = whole / "config.json"
    run_python(projects["scratch"], *TRAIN, "--config", config, "--run-dir", tmp_path / "a")
    assert_alike(tmp_path / "a", whole)
