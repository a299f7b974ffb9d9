"""An agent small enough to be trained or traced in a test."""

SMALL_AGENT = {
    "hidden": 12,
    "buckets": (4, 4, 4),
    "ssd_blocks": 1,
    "ssd_heads": 2,
    "ssd_state": 4,
    "head_hidden": 8,
}
