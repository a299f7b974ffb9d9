"""Everything static that a step needs: configuration, agent, tape, slot names."""

from dataclasses import dataclass

from torch import Tensor

from trainer.agent.agent import Agent
from trainer.config import Config, InstrumentConfig
from trainer.learn.bus import Slots
from trainer.market.tape import Tape


@dataclass(frozen=True)
class Learner:
    """Everything static that a step needs: configuration, agent, tape."""

    config: Config
    instrument: InstrumentConfig
    agent: Agent
    tape: Tape
    move_sd: Tensor  # [H] ticks
    group_index: Tensor  # [P] int64
    rate_scale: Tensor | None  # [P] of the learning rates; None where all are 1
    slots: Slots

    @staticmethod
    def build(config: Config, instrument: InstrumentConfig, tape: Tape, move_sd: Tensor) -> "Learner":
        agent = Agent.build(config, tape.ts_ns.device)
        device, scale = tape.ts_ns.device, config.learn.encoder_rate
        index = agent.layout.group_index(device)
        rate_scale = None if scale == 1.0 else agent.layout.encoder_scale(scale, device)
        return Learner(config, instrument, agent, tape, move_sd, index, rate_scale, Slots(config))
