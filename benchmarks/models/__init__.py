"""The models of the workloads, in each library, from the same initial weights."""
