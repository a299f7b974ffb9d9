"""Benchmarks: what RESULTS.md claims, as commands."""
