"""The alpha-rl trainer: order-book rows in, a judged trading agent out."""

__version__ = "0.1.0"
