"""One run of a contender in a process of its own; prints its epochs as a line of JSON.

python -m benchmarks.train_contender CONTENDER WORKLOAD_FOLDER EPOCHS
"""

import importlib
import json
import sys
import time
from pathlib import Path

from benchmarks import workloads
from benchmarks.contenders import Epoch


def main() -> None:
    contender, folder, epochs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    train = importlib.import_module(f"benchmarks.contenders.{contender}").train
    workload = workloads.read_workload(folder)
    data, weights = workloads.read_data(folder), workloads.read_weights(folder)
    print(json.dumps(timed_epochs(train, workload, data, weights, epochs)))


def timed_epochs(train, workload, data, weights, epochs: int) -> list[Epoch]:
    """Call a contender's `train`, and take the time of each epoch."""
    ended = []
    began = time.perf_counter()

    def epoch_ended(loss: float, accuracy: float) -> None:
        nonlocal began
        now = time.perf_counter()
        ended.append(Epoch(now - began, float(loss), float(accuracy)))
        began = now

    train(workload, data, weights, epochs, epoch_ended)
    return ended


if __name__ == "__main__":
    main()
