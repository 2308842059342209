"""Time from the command to the end of the first steps, without and with a warm cache."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine, projects, report
from benchmarks.__main__ import add_common_flags
from benchmarks.contenders import CONTENDERS, OURS
from benchmarks.measure import create

# Ends the process as soon as the first call of the device has returned.
PROGRAM = """
import os
from my_project import __main__

set_up_cache = __main__.set_up_cache

def execution(report, results):
    results["loss"].block_until_ready()
    os._exit(0)

def then_watch(wanted):  # as JAX has to be loaded after its cache is set up
    set_up_cache(wanted)
    from my_project import reporting

    reporting.Report.execution = execution

__main__.set_up_cache = then_watch
__main__.main()
"""
CASES = {
    "`--help`": ("--help",),
    "1 step a call, nothing cached": ("--steps-per-execution", "1", "--no-compilation-cache"),
    "1 step a call, compiled before": ("--steps-per-execution", "1"),
    "8 steps a call, nothing cached": ("--no-compilation-cache",),
    "8 steps a call, compiled before": (),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start_up", description=__doc__)
    add_common_flags(parser, rounds=5)
    arguments = parser.parse_args()
    output = arguments.output
    create(output)
    projects.render(output / "start_up", model=None)
    seconds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as cache:
        for number in range(arguments.rounds + 1):
            for key in [(case, training_loop) for case in CASES for training_loop in OURS]:
                case, training_loop = key
                time_ = start(output / "start_up" / training_loop, CASES[case], Path(cache))
                print(f"{case}  {training_loop}  {time_:.1f} s", flush=True)
                if number:  # the first round fills the cache
                    seconds.setdefault(key, []).append(time_)
    rows = [
        [
            case,
            *(f"{statistics.median(seconds[case, training_loop]):.1f}" for training_loop in OURS),
        ]
        for case in CASES
    ]
    heads = ["seconds", *(CONTENDERS[training_loop].title for training_loop in OURS)]
    text = (
        f"# Start-up\n\n{machine.conditions(machine.describe())}\n\n{report.table(heads, rows)}\n"
    )
    (output / "start_up.md").write_text(text, encoding="utf-8")
    print(f"wrote {output / 'start_up.md'}")


def start(project: Path, options: tuple[str, ...], cache: Path) -> float:
    """The seconds until the first steps of a run are over, or until its help is shown."""
    environment = os.environ | {"PYTHONPATH": str(project / "src"), "XDG_CACHE_HOME": str(cache)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as run_dir:
        subprocess.run(
            [sys.executable, "-c", PROGRAM, "train", "--run-dir", run_dir, *options],
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
