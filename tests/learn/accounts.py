"""Comparing accounts."""

from dataclasses import fields

import numpy as np

from trainer.learn.replayer import Account


def same_account(one: Account, other: Account) -> list[str]:
    """Names of what differs, bit for bit; empty for equal accounts."""
    pairs = [(one.decisions, other.decisions), (one.trades, other.trades)]
    found = [] if one.defects == other.defects else ["defects"]
    for a, b in pairs:
        columns = [column.name for column in fields(a)]
        found += [name for name in columns if not _equal(getattr(a, name), getattr(b, name))]
    return found


def _equal(a: object, b: object) -> bool:
    if a is None or b is None:
        return a is b
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))
