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
    slots: Slots

    @staticmethod
    def build(config: Config, instrument: InstrumentConfig, tape: Tape, move_sd: Tensor) -> "Learner":
        agent = Agent.build(config, tape.ts_ns.device)
        index = agent.layout.group_index(tape.ts_ns.device)
        return Learner(config, instrument, agent, tape, move_sd, index, Slots(config))
