"""Named starting points: run presets and instruments."""

from decimal import Decimal

from trainer.config import (
    AgentConfig,
    Config,
    DataConfig,
    EvaluateConfig,
    InstrumentConfig,
    LearnConfig,
    MarketConfig,
    RunConfig,
    SyntheticConfig,
)

INSTRUMENTS = {
    "ES": InstrumentConfig(
        name="ES", tick_size=Decimal("0.25"), tick_value=12.50, fee_per_lot=2.00, calendar="CME_Equity"
    ),
    # One lot is one share; an entry orders a round lot of 100. The fee is a typical per-share rate.
    "equity": InstrumentConfig(
        name="equity",
        tick_size=Decimal("0.01"),
        tick_value=0.01,
        fee_per_lot=0.0035,
        calendar="NYSE",
        unit_lots=100,
    ),
    # The generated market (SYSTEM.md section 12): costs, sessions and tick of ES.
    "synthetic": InstrumentConfig(
        name="synthetic", tick_size=Decimal("0.25"), tick_value=12.50, fee_per_lot=2.00, calendar="CME_Equity"
    ),
}


def default() -> Config:
    """The documents' dimensions: 1,024 lanes, D 128, K 32, a decision every 32 rows; one unit."""
    # A market whose signal lives for one decision makes a pyramiding trader order nearly every decision,
    # outside the gate's hold range (docs/decisions/hold-percent.md).
    return Config(market=MarketConfig(num_units=1))


def demo() -> Config:
    """Small enough for two CPU cores in minutes: B 64, D 64, K 16, a decision every 8 rows."""
    return Config(
        preset="demo",
        market_source="planted",
        synthetic=SyntheticConfig(rows_per_session=65_536, noise_ticks=1.2),
        data=DataConfig(decision_rows=8, window_rows=16, horizons=(1, 2, 4)),
        market=default().market,
        agent=AgentConfig(hidden=64, buckets=(22, 21, 21), ssd_state=16, head_hidden=64),
        # 800 steps of 64 lanes pass over the window six times: too few to learn it by heart.
        learn=LearnConfig(n_backtests=64, per_capacity=16_384, batch_size=256, encoder_rate=1.0),
        evaluate=EvaluateConfig(bootstrap_resamples=1000),
        run=RunConfig(n_steps=800, log_every=25, checkpoint_every=100),
    )


def seed() -> Config:
    """The documents' forms at their dimensions, to be compared with (docs/decisions/seed-preset.md)."""
    return Config(
        preset="seed",
        # The market of the default preset, of whose decisions one is 32 rows.
        synthetic=SyntheticConfig(signal_rows=default().data.decision_rows),
        data=DataConfig(decision_rows=1),
        market=MarketConfig(num_units=4, stop_loss_measure="lifetime_peak"),
        agent=AgentConfig(rl_heads="linear"),
        learn=LearnConfig(
            n_step=1,
            importance_beta=0.0,
            encoder_rate=1.0,
            decaying_rates=("q", "pi", "v"),
            reward="at_close",
            advantage="done_only",
            td_cut="done",
            target_max="all",
            entropy_target="all_actions",
        ),
        run=RunConfig(n_steps=25_000, checkpoint_every=5_000),
    )


PRESETS = {"default": default, "demo": demo, "seed": seed}
