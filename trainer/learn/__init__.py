"""Replay, controllers, the learning step, training, evaluation and the gate."""
