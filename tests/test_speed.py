"""What makes a project fast, counted: calls of the device, copies between it and the host, memory.

That a shape is traced once, and a state donated, the project's own tests see to.
"""

import json
import os
import platform
import sys

import numpy as np
import pytest
from helpers import run, run_python

import benchmarks.processes

LOOPS = pytest.mark.parametrize("training_loop", ["fit", "scratch"])

COUNT = """
import json, os, sys, tempfile
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
import jax
from jax._src.array import ArrayImpl
from keras.src.backend.jax import trainer
from keras.src.utils.tracking import Tracker

counts = {"calls": [], "donated": [], "reads": [], "tracked": []}
began = False
jit, read, track = jax.jit, ArrayImpl._value.fget, Tracker.track

class Watched:
    def __init__(self, function, **options):
        self.jitted = jit(function, **options)

    def __getattr__(self, name):
        return getattr(self.jitted, name)

    def __call__(self, *args, **kwargs):
        leaves = jax.tree.leaves(args)
        if len(leaves) < 15 or isinstance(leaves[0], jax.core.Tracer):  # not a state and a batch
            return self.jitted(*args, **kwargs)
        # What is put on the device on purpose may pass; all else that is copied there is an error.
        state, batch = args[0], jax.device_put(args[1])
        with jax.transfer_guard("disallow"):
            result = self.jitted(state, batch, *args[2:], **kwargs)
        counts["calls"].append(self.jitted.__name__)
        counts["donated"].append(all(leaf.is_deleted() for leaf in jax.tree.leaves(state)))
        return result

def count_reads(array):
    if began:
        counts["reads"].append(array.shape)
    return read(array)

def count_tracked(tracker, value):
    if began and jax.tree.leaves(value):
        counts["tracked"].append(str(type(value)))
    return track(tracker, value)

jax.jit = trainer.jit = Watched
ArrayImpl._value = property(count_reads)
Tracker.track = count_tracked

from my_project import train
from my_project.config import Config
from my_project.reporting import Report

execution = Report.execution

def watched_execution(report, results):
    global began
    execution(report, results)
    # From the first to the last step of the second epoch; in the first, constants are compiled.
    began = report.steps_per_epoch < report.step < 2 * report.steps_per_epoch

Report.execution = watched_execution
config = Config(
    epochs=2, batch_size=128, validation_fraction=0, steps_per_execution=4, keep_checkpoints=0
)
train.train(config, Path(tempfile.mkdtemp()) / "run")
print(json.dumps(counts))
"""


@LOOPS
def test_the_device_does_not_wait_for_the_host(render, tmp_path, training_loop):
    """11 steps an epoch: two calls of four, three of one, each of which overwrites its state and
    copies its batch alone to the device; nothing is read from there before the epoch ends, and
    Keras does not go through the arrays of the state."""
    project = render(tmp_path / "my-project", training_loop=training_loop)
    counts = json.loads(run_python(project, "-c", COUNT).stdout.splitlines()[-1])
    assert len(counts["calls"]) == 2 * (2 + 3)
    assert len(set(counts["calls"])) == 1
    assert all(counts["donated"])
    assert counts["reads"] == []
    assert counts["tracked"] == []


# In a terminal; what the bar reads is read at most every half second.
DRAW = """
import sys, time
from pathlib import Path

from my_project import reporting
from my_project.config import Config
from my_project.optimizer import build_schedule
import keras

class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now

class Result:
    def __float__(self):
        reads.append(clock.now)
        return 1.5

    def block_until_ready(self):
        pass

reporting.time = clock = Clock()
reads = []
config = Config(epochs=1)
metrics = [keras.metrics.Mean(name="loss")]
schedule = build_schedule(config, 800)
with reporting.Report(Path(sys.argv[1]), config, schedule, 800, metrics, 0) as report:
    report.bar.disable = False
    for _ in range(4 + 96):
        clock.now += 1 / 16
        report.execution({"loss": Result()})
print(len(reads), "loss 1.5000" in report.bar.tasks[0].fields["results"])
"""


def test_the_bar_reads_the_results_twice_a_second(render, tmp_path):
    project = render(tmp_path / "my-project")
    assert run_python(project, "-c", DRAW, tmp_path).stdout.splitlines()[-1] == "12 True"


SHORT = ("--epochs", 1, "--steps-per-execution", 1)
TRAIN_AND_COUNT = """
from my_project import __main__

events = []
set_up_cache = __main__.set_up_cache

def listen(wanted):
    set_up_cache(wanted)
    import jax.monitoring
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))

__main__.set_up_cache = listen
__main__.main()
print(*(events.count(f"/jax/compilation_cache/cache_{kind}") for kind in ("hits", "misses")))
"""


def train_and_count(project, cache, *more):
    """Train with the cache in the folder `cache`; return how often it was hit and missed."""
    environment = os.environ | {"PYTHONPATH": str(project / "src"), "XDG_CACHE_HOME": str(cache)}
    for name in [name for name in environment if "COMPILATION_CACHE" in name or "PERSIST" in name]:
        del environment[name]
    process = run(
        *(sys.executable, "-c", TRAIN_AND_COUNT, "train", *SHORT, *more),
        cwd=project,
        env=environment,
    )
    assert process.stderr == ""
    return [int(number) for number in process.stdout.splitlines()[-1].split()]


def test_what_was_compiled_is_kept(render, tmp_path, monkeypatch):
    """A second run compiles nothing; without the flag, or the folder, a run does without. What
    has not been used for a month is removed."""
    project, cache = render(tmp_path / "my-project"), tmp_path / "cache"
    old = cache / "jax" / (platform.node() or "local") / "old-cache"
    old.parent.mkdir(parents=True)
    old.write_text("of last year")
    os.utime(old, (0, 0))
    hits, misses = train_and_count(project, cache)
    assert misses > 20
    assert not old.exists()
    hits, misses = train_and_count(project, cache)
    assert hits > 20
    assert misses == 0

    assert train_and_count(project, tmp_path / "none", "--no-compilation-cache") == [0, 0]
    assert not (tmp_path / "none/jax").exists()
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked/jax").write_text("a file where the folder should be")
    assert train_and_count(project, tmp_path / "blocked") == [0, 0]

    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "given"))
    run_python(project, "-m", "my_project", "train", *SHORT, "--no-compilation-cache")
    assert not (tmp_path / "given").exists()


def peak_memory(project, dataset, run_dir):
    """The peak of the anonymous memory of a run, in bytes."""
    printed = benchmarks.processes.run_python(  # without a cache: all compile, which takes memory
        *("-m", "benchmarks.peak_memory", "my_project", "train"),
        *("--dataset", dataset, "--run-dir", run_dir, "--epochs", 1, "--batch-size", 256),
        cwd=project,
        path=(project / "src",),
    )
    return json.loads(printed)["anonymous"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@LOOPS
def test_the_data_are_in_memory_once_or_not_at_all(render, tmp_path, training_loop):
    """As much as an .npz file holds, nothing of a folder, which is memory-mapped; but for a quarter
    of the data, as batches and what JAX allocates come and go."""
    project = render(tmp_path / "my-project", training_loop=training_loop)
    rng = np.random.default_rng(0)
    peaks = {}
    for name, rows in (("few", 16_384), ("many", 65_536)):
        arrays = {
            "x_train": rng.random((rows, 1024), np.float32),
            "y_train": rng.integers(0, 10, rows),
        }
        (tmp_path / name).mkdir()
        for key, array in arrays.items():
            np.save(tmp_path / name / f"{key}.npy", array)
        np.savez(tmp_path / f"{name}.npz", **arrays)
    for dataset in ("few", "many", "few.npz", "many.npz"):
        run_dir = tmp_path / "runs" / dataset
        peaks[dataset] = peak_memory(project, tmp_path / dataset, run_dir)
    size = 4 * 1024 * (65_536 - 16_384)
    assert peaks["many.npz"] - peaks["few.npz"] < 1.25 * size
    assert peaks["many"] - peaks["few"] < 0.25 * size
