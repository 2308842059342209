"""On what the figures were taken: kind of machine and versions, and nothing that names it."""

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.processes import ProcessFailed, run_python

PACKAGES = ("jax", "optax", "keras", "flax", "torch", "lightning", "numpy")


def describe() -> dict[str, object]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "cpu": cpu_model(),
        "jax_device": jax_device(),
        "versions": {"python": platform.python_version()} | versions(),
    }


def conditions(described: dict) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in described["versions"].items())
    return (
        f"{described['date']}: {described['cores']} cores of {described['cpu']} "
        f"({described['architecture']}), JAX on {described['jax_device']}; {versions}."
    )


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def jax_device() -> str | None:
    # In a process of its own, since JAX may take all memory of a device for as long as it runs.
    try:
        return run_python("-c", "import jax; print(jax.devices()[0].device_kind)").strip()
    except ProcessFailed:
        return None


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
