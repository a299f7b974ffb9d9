"""Market replay on the device: books, orders, fills, positions, stops and lanes (SYSTEM.md section 3)."""

from trainer.market.context import CONTEXT_NAMES, context_features
from trainer.market.lanes import DEFECTS, Lanes, Outcome, Trades, defect_counts, defects_text, reset_lanes
from trainer.market.orders import feasible_actions
from trainer.market.step import step_lanes
from trainer.market.stops import risk_stage
from trainer.market.tape import Tape, TapeInfo, build_tape, observe, tape_info

__all__ = [
    "CONTEXT_NAMES",
    "DEFECTS",
    "Lanes",
    "Outcome",
    "Tape",
    "TapeInfo",
    "Trades",
    "build_tape",
    "context_features",
    "defect_counts",
    "defects_text",
    "feasible_actions",
    "observe",
    "reset_lanes",
    "risk_stage",
    "step_lanes",
    "tape_info",
]
