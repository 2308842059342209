"""Run a module, and print the peak of its memory as a line of JSON; Linux only.

python -m benchmarks.peak_memory MODULE ARGUMENTS
"""

import contextlib
import json
import re
import resource
import runpy
import sys
import threading
from pathlib import Path


def main() -> None:
    del sys.argv[0]
    ended = threading.Event()
    peak = 0

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.002):  # seconds
            peak = max(peak, anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    finally:
        ended.set()
        watcher.join()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"anonymous": peak, "resident": resident}))


def anonymous_memory() -> int:
    """The bytes of this process that no file backs: what it needs, whatever else is cached."""
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kilobytes) * 1024


if __name__ == "__main__":
    main()
