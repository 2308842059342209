"""Times training loops side by side: `python -m benchmarks`, `python -m benchmarks.growth`."""
