"""Workflows on a cluster: submit, follow, stop, retry and check them."""
