"""Figures that we claim, each as a ratio within one run: ``python -m benchmarks.run``."""
