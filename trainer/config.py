"""The typed, frozen configuration of a walk-forward run. Imports no torch.

Every field states its unit and the reason for its default. Unknown keys are refused. `Config.digest()` names
what a run computes: two runs with equal digests on equal data give equal bits. Fields of `RunConfig` and the
data paths are outside the digest because they change where and how long, not what.
"""

import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from trainer.config_learn import AgentConfig as AgentConfig
from trainer.config_learn import LearnConfig as LearnConfig
from trainer.config_learn import Section
from trainer.location import valid_location

Market = Literal["planted", "martingale"]
# A path, or the text of an s3:// URL.
DataLocation = Annotated[Path | str, PlainValidator(valid_location), PlainSerializer(str, when_used="json")]


class InstrumentConfig(Section):
    """What a lot of the instrument is and what trading it costs."""

    name: str = Field(description="preset or symbol name, shown in reports")
    tick_size: Decimal = Field(gt=0, description="price units; every price must lie on this grid")
    tick_value: float = Field(gt=0, description="currency per tick and lot")
    fee_per_lot: float = Field(ge=0, description="currency per lot and side; 0 is allowed but warned about")
    calendar: str = Field(description="pandas-market-calendars name of the session calendar, or 'always'")
    unit_lots: int = Field(default=1, ge=1, description="lots of one unit: what an entry orders")
    min_price: Decimal | None = Field(default=None, description="price units; rows below are not sane")
    max_price: Decimal | None = Field(default=None, description="price units; rows above are not sane")

    @property
    def tick_size_nanos(self) -> int:
        """Tick size in DBN's price unit (1e-9)."""
        return int(self.tick_size * 1_000_000_000)

    @property
    def fee_ticks(self) -> float:
        """Fee per lot and side in ticks."""
        return self.fee_per_lot / self.tick_value


class SyntheticConfig(Section):
    """The seeded synthetic market (SYSTEM.md section 12). Units are per decision where not said otherwise."""

    generator: Literal[2] = Field(
        default=2,
        description="version, raised when its output changes: an old market is not taken for a new one",
    )
    seed: int = Field(default=7, ge=0, description="of the generator; another seed is another market")
    sessions: int = Field(default=4, ge=1, description="trading sessions written, one file each")
    rows_per_session: int = Field(default=131_072, ge=256, description="valid book rows of a session")
    signal_rows: int | None = Field(
        default=None,
        ge=1,
        description="rows by which the signal leads, the market's own decision; None = data.decision_rows",
    )
    drift_cost_ratio: float = Field(
        default=1.7,
        ge=0,
        description="sd of the predictable move over the round-trip cost; the gate needs 1.25-1.7",
    )
    memory: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="autocorrelation of the signal over one decision; > 0.2 holds too long",
    )
    noise_ticks: float = Field(
        default=1.8, ge=0, description="sd of the unpredictable own noise of the mid per decision"
    )


class DataConfig(Section):
    """Rows, decisions and walk-forward windows (SYSTEM.md sections 1 and 2)."""

    instrument: str = Field(
        default="auto", description="instrument preset, or 'auto' to infer it from the file"
    )
    instrument_id: int | None = Field(
        default=None, description="picks one instrument of a file that holds several"
    )
    decision_rows: int = Field(
        default=32, ge=1, description="valid rows between decisions: the step of everything"
    )
    decision_ms: float | None = Field(
        default=None,
        ge=0.001,
        description="ms between decisions in place of rows: each on the first valid row that much later; "
        "decision_rows then sets the time constants of the regime features only",
    )
    window_rows: int = Field(default=32, ge=2, description="K, rows an observation looks back over")
    horizons: tuple[int, ...] = Field(default=(1, 4, 16), description="label horizons, decisions")
    return_classes: int = Field(default=21, ge=3, description="classes of the forward-return distribution")
    return_class_sd: float = Field(
        default=3.0, gt=0, description="half width of the classes, train-window sd"
    )
    max_gap_s: float = Field(default=60.0, gt=0, description="seconds without a valid row that end a segment")
    folds: int = Field(
        default=3, ge=1, description="trained and judged windows; the data is cut in folds + 1"
    )
    scheme: Literal["rolling", "expanding"] = Field(
        default="rolling", description="train on one or on all earlier windows"
    )
    embargo_s: float = Field(default=0.0, ge=0, description="extra seconds between train and test rows")


class MarketConfig(Section):
    """The market replay (SYSTEM.md section 3)."""

    latency_ns: int = Field(
        default=5_000_000, ge=0, description="ns from decision row to the earliest fill: 5 ms"
    )
    num_units: int = Field(default=4, ge=1, description="U, pyramid units of a position")
    episode_decisions: int = Field(default=1024, ge=8, description="decisions before a lane is re-anchored")
    entry_guard_decisions: int = Field(
        default=2, ge=1, description="no entries in the last decisions of an episode or tile"
    )
    trail_range_multiple: float = Field(
        default=2.0, gt=0, description="initial trail, multiples of the mid's mean range"
    )
    trail_min_ticks: float = Field(default=2.0, gt=0, description="ticks; floor of the initial trail")
    trail_step: float = Field(default=1.25, gt=1, description="factor of one tighten (/) or loosen (x)")
    trail_bounds: tuple[float, float] = Field(
        default=(0.5, 2.0), description="allowed trail over the initial trail"
    )
    range_decay_decisions: float = Field(
        default=32.0, gt=1, description="decisions; time constant of the mid-range EMA"
    )
    stop_loss_ratio: float = Field(
        default=2.0, gt=0, description="open loss over mean |trade P&L| that forces a close"
    )
    stop_loss_floor_ticks: float = Field(default=1.0, gt=0, description="ticks per lot; floor of that mean")
    drawdown_penalty: float = Field(
        default=0.01, ge=0, description="reward per unit of negative unrealized R"
    )
    stop_loss_measure: Literal["open_trade", "lifetime_peak"] = Field(
        default="open_trade",
        description="loss the stop-loss caps; lifetime_peak (documents) locks a losing lane out",
    )
    recent_rate: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="EMA rate of a lane's order share (a decision) and win share (a trade)",
    )


class EvaluateConfig(Section):
    """Out-of-sample evaluation (SYSTEM.md section 10)."""

    tile_decisions: int = Field(
        default=1000, ge=10, description="least decisions of a tile cut from a long segment"
    )
    bootstrap_resamples: int = Field(default=2000, ge=100, description="of the block bootstrap over time")
    bootstrap_block_decisions: int = Field(
        default=50,
        ge=1,
        description="decisions; least block of the bootstrap, lengthened where P&L is dependent",
    )
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="one-sided, of every lower bound")
    sharpe_buckets: int = Field(
        default=50, ge=10, description="equal session-time buckets of the Sharpe ratio in runs under 20 days"
    )
    configurations_tried: int = Field(
        default=1, ge=1, description="N of the deflated Sharpe ratio; 1 = PSR against 0"
    )
    trial_sharpe_sd: float | None = Field(
        default=None, ge=0, description="sd of their Sharpe ratios per bucket; None = the standard error"
    )
    random_traders: int = Field(
        default=32, ge=2, description="random traders of equal turnover averaged as baseline"
    )
    seed: int = Field(default=0, ge=0, description="of baselines and bootstrap")


class GateConfig(Section):
    """Thresholds of the verdict (SYSTEM.md section 10)."""

    min_trades: int = Field(default=200, ge=1, description="fewer in any fold: inconclusive")
    reject_win_rate: float = Field(default=0.50, description="under it in any fold: reject")
    pass_win_rate: float = Field(default=0.55, description="every fold must exceed it")
    hold_percent: tuple[float, float] = Field(
        default=(30.0, 70.0), description="decisions that send no order, %"
    )
    min_entropy: float = Field(
        default=0.05, description="executed entropy / ln(#feasible), last half of training"
    )
    max_entropy_fall: float = Field(
        default=0.2, description="relative fall over that half that counts as a trend"
    )


class RunConfig(Section):
    """How long, where and how fast: outside the digest."""

    n_steps: int = Field(default=3_000, ge=1, description="training steps in total, resumed ones included")
    log_every: int = Field(default=100, ge=1, description="steps between log lines")
    checkpoint_every: int = Field(
        default=1_000, ge=0, description="steps between checkpoints; 0 = only at the end"
    )
    device: str = Field(default="auto", description="cpu, cuda or auto")
    use_graph: bool = Field(default=True, description="capture the step in one CUDA graph (GPU only)")
    use_compile: bool = Field(default=True, description="torch.compile the step (GPU only)")
    mbp10_data_dir: DataLocation | None = Field(
        default=None, description="mbp-10 file or directory, or an s3:// URL of either"
    )
    trades_data_dir: DataLocation | None = Field(
        default=None, description="separate trades directory, or an s3:// URL"
    )


class Config(Section):
    """One walk-forward run, whole."""

    preset: str = Field(default="default", description="name of the preset this began as")
    market_source: Market | None = Field(default=None, description="a synthetic market in place of files")
    synthetic: SyntheticConfig = SyntheticConfig()
    data: DataConfig = DataConfig()
    market: MarketConfig = MarketConfig()
    agent: AgentConfig = AgentConfig()
    learn: LearnConfig = LearnConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    gate: GateConfig = GateConfig()
    run: RunConfig = RunConfig()

    @property
    def signal_rows(self) -> int:
        """Rows by which the synthetic market's signal leads: the decision that its units are per."""
        return self.synthetic.signal_rows or self.data.decision_rows

    def digest(self) -> str:
        """16 hex digits of everything that changes the result: all but `run`."""
        body = self.model_dump(mode="json", exclude={"run"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]

    def replaced(self, **sections: dict[str, Any]) -> "Config":
        """A copy with fields of sections replaced and validated: `replaced(run={"n_steps": 10})`."""
        body = self.model_dump()
        for name, fields in sections.items():
            body[name] = {**body[name], **fields} if isinstance(body[name], dict) else fields
        return Config.model_validate(body)
