"""The parts of `python -m benchmarks.learn`: experiments, their measurement, tables and curves."""
