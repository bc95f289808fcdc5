"""The modules of `python benchmarks/kernel`."""
