"""The dimension legend and the few enumerations every package shares.

Shapes are written `[B, K, F] float32` in docstrings, with these letters:

    B  lanes: parallel market replays (default 1024)
    K  window length: book rows an observation looks back over (default 32)
    F  snapshot features of one book row (40)
    C  context features of one lane (16)
    D  hidden channels of the encoder (default 128)
    A  actions (11)
    Z  atoms of the C51 value distribution (21)
    H  label horizons (3)
    S  label sources (5); in the replay and its losses, sampled transitions (default 1024)
    L  book levels (10)
    U  pyramid units of a position (4)
    N  replay capacity (default 65,536)
    n  n-step return length (default 5)
    R  rows of a tape (a window's valid book states, in time order)
    T  decisions of a joined evaluation account
"""

from enum import IntEnum

NUM_LEVELS = 10
NUM_FEATURES = 40
NUM_CONTEXT = 16
NUM_ACTIONS = 11
NUM_LABEL_SOURCES = 5


class Action(IntEnum):
    """The 11 actions of a lane (SYSTEM.md section 3)."""

    HOLD = 0
    OPEN_LONG = 1
    OPEN_SHORT = 2
    FLAT_FROM_LONG = 3
    FLAT_FROM_SHORT = 4
    ADD_LONG = 5
    ADD_SHORT = 6
    TRAIL_TIGHTEN = 7
    TRAIL_LOOSEN = 8
    REVERSE = 9
    HALF_FLAT = 10


class LabelSource(IntEnum):
    """Columns of the label tensor `[R, H, S]` (SYSTEM.md section 1)."""

    DIRECTION = 0
    LONG_PROFIT = 1
    SHORT_PROFIT = 2
    LONG_SIZE = 3
    SHORT_SIZE = 4
