"""Encoder, heads and losses. Never imports the market."""
