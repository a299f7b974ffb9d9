"""The configuration of what learns: agent, replay, losses and optimizer. Imports no torch.

`trainer.config` puts these sections together with all others. The rules marked (documents) are the forms of
the `seed` preset; each is a switch of its own (docs/decisions/seed-preset.md).
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """Base of all sections: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentConfig(Section):
    """Encoder and heads (SYSTEM.md section 4)."""

    hidden: int = Field(default=128, ge=8, description="D, channels of the encoder")
    ssd_blocks: int = Field(default=2, ge=1, description="Mamba2 (SSD) blocks")
    ssd_expand: int = Field(default=2, ge=1, description="inner width of a block over D")
    ssd_heads: int = Field(default=4, ge=1, description="heads of a block")
    ssd_state: int = Field(default=32, ge=1, description="state size of a head")
    buckets: tuple[int, ...] = Field(default=(43, 43, 42), description="channels per horizon, sum D")
    head_hidden: int = Field(default=128, ge=8, description="hidden width of the Q, policy and value heads")
    atoms: int = Field(default=21, ge=3, description="Z, atoms of C51")
    rl_heads: Literal["context_hidden", "linear"] = Field(
        default="context_hidden",
        description="Q, policy and value read [h, context] through one hidden layer; linear (documents): "
        "h alone, so they see the position only through the encoder",
    )

    @model_validator(mode="after")
    def _buckets_cover_all_channels(self) -> "AgentConfig":
        if sum(self.buckets) != self.hidden or min(self.buckets) < 1:
            raise ValueError(f"buckets {self.buckets} must be positive and sum to hidden = {self.hidden}")
        if (self.hidden * self.ssd_expand) % self.ssd_heads:
            raise ValueError("hidden * ssd_expand must be a multiple of ssd_heads")
        return self


class LearnConfig(Section):
    """Replay, losses and optimizer (SYSTEM.md sections 5 and 6)."""

    seed: int = Field(default=0, ge=0, description="of weights, sampling and anchors")
    n_backtests: int = Field(default=1024, ge=1, description="B, lanes")
    per_capacity: int = Field(default=65_536, ge=1, description="N, transitions kept; a power of two >= B")
    batch_size: int = Field(default=1024, ge=1, description="replayed transitions of one update")
    n_step: int = Field(default=5, ge=1, le=16, description="n, rewards summed before the bootstrap")
    prioritized: bool = Field(default=True, description="proportional prioritized replay; else uniform")
    importance_beta: float = Field(
        default=0.4, ge=0, le=1, description="exponent of the importance weights; 0 = none"
    )
    learning_rate: float = Field(
        default=1e-3,
        ge=1e-4,
        le=1e-2,
        description="start of every head's rate; in the controller's bounds",
    )
    encoder_rate: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="learning rate of the encoder over that of the label heads that teach it; at 1 it learns "
        "the train window by heart; 0: stays as initialised",
    )
    decaying_rates: tuple[Literal["bce", "aux", "q", "pi", "v"], ...] = Field(
        default=("bce", "aux", "q", "pi", "v"),
        description="groups whose rate a plateau of their loss halves; (documents): q, pi, v",
    )
    adam_betas: tuple[float, float] = Field(default=(0.9, 0.999), description="of AdamW")
    adam_eps: float = Field(default=1e-8, gt=0, description="of AdamW")
    weight_decay: float = Field(default=1e-2, ge=0, description="decoupled, of AdamW")
    max_grad_norm: float = Field(default=1.0, gt=0, description="global norm clip")
    reward: Literal["marked_equity", "at_close"] = Field(
        default="marked_equity",
        description="change of equity at mid, every decision; at_close (documents): a trade's net P&L when "
        "it closes, over mean |trade P&L|, clamped",
    )
    advantage: Literal["every_step", "done_only"] = Field(
        default="every_step",
        description="steps that teach the policy, value bootstrapped through a close; done_only "
        "(documents): closes, whose return is their reward alone",
    )
    td_cut: Literal["truncated", "done"] = Field(
        default="truncated",
        description="what ends Q's return: a re-anchored lane; done (documents): also a close",
    )
    target_max: Literal["feasible", "all"] = Field(
        default="feasible", description="actions that the target of Q maximises over; all (documents): all 11"
    )
    entropy_target: Literal["feasible", "all_actions"] = Field(
        default="feasible",
        description="0.7 of mean ln(#feasible), tolerance 1.2; all_actions (documents): 0.7 ln 11, 1.5",
    )
    supervised_weight: float = Field(
        default=1.0, ge=0, description="weight of the label and return losses; 0: they are not computed"
    )
    policy_weight: float = Field(
        default=1.0, ge=0, description="weight of the policy gradient (PPO); 0: not computed"
    )
    value_weight: float = Field(default=0.5, ge=0, description="weight of the value loss; that of Q is 1")
    distill_weight: float = Field(
        default=1.0, ge=0, description="start weight of policy distillation from Q; 0: not computed"
    )
    distill_temperature: float = Field(default=0.3, gt=0, description="start temperature, units of scaled Q")
    encoder_distill: float = Field(
        default=0.0, ge=0, description="weight of distillation on the fresh forward"
    )
    encoder_rl: float = Field(
        default=0.0,
        ge=0,
        description="weight of the replayed losses' gradient into the encoder; > 0: sampled windows are "
        "encoded again, at about three times the encoder's work",
    )
    initial_priority: float = Field(default=1.0, gt=0, description="of the first transitions")

    @model_validator(mode="after")
    def _replay_holds_a_step(self) -> "LearnConfig":
        n = self.per_capacity
        if n & (n - 1) or n < self.n_backtests:
            raise ValueError(f"per_capacity {n} must be a power of two >= n_backtests {self.n_backtests}")
        return self

    @model_validator(mode="after")
    def _something_teaches_the_policy(self) -> "LearnConfig":
        if self.policy_weight == 0 and self.distill_weight == 0:
            raise ValueError("policy_weight and distill_weight are both 0: nothing would teach the policy")
        return self
