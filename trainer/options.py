"""Command-line options to a validated configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trainer.config import Config
from trainer.errors import InputError
from trainer.presets import PRESETS

# Option name -> section and field it sets.
FIELDS = {
    "folds": ("data", "folds"),
    "instrument": ("data", "instrument"),
    "n_backtests": ("learn", "n_backtests"),
    "per_capacity": ("learn", "per_capacity"),
    "seed": ("learn", "seed"),
    "n_steps": ("run", "n_steps"),
    "checkpoint_every": ("run", "checkpoint_every"),
    "log_every": ("run", "log_every"),
    "device": ("run", "device"),
    "mbp10_data_dir": ("run", "mbp10_data_dir"),
    "trades_data_dir": ("run", "trades_data_dir"),
}


def build_config(preset: str, config_file: Path | None, options: Mapping[str, Any]) -> Config:
    """Preset, then the YAML file's keys over it, then options over both.

    Files replace a preset's synthetic market. Raises InputError naming file and field: an unknown preset, an
    unreadable file, an unknown key or a value that does not fit.
    """
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}", where="--preset", do=f"choose {', '.join(PRESETS)}")
    config = PRESETS[preset]()
    if config_file is not None:
        config = overlaid(config, _read_yaml(config_file), str(config_file))
    body: dict[str, Any] = {}
    for name, (section, field) in FIELDS.items():
        if options.get(name) is not None:
            body.setdefault(section, {})[field] = options[name]
    if options.get("mbp10_data_dir") is not None:
        body["market_source"] = None
    elif options.get("market") is not None:
        body["market_source"] = options["market"]
    return overlaid(config, body, "options")


def overlaid(config: Config, body: Mapping[str, Any], where: str) -> Config:
    """`config` with the keys of `body` replaced, section by section, and validated again."""
    merged = config.model_dump()
    for name, value in body.items():
        known = merged.get(name)
        merged[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        what = (
            "unknown key"
            if first["type"] == "extra_forbidden"
            else first["msg"].removeprefix("Value error, ")
        )
        do = "see trainer/config.py and config_learn.py for the fields, their units and reasons"
        raise InputError(f"{field}: {what}" if field else what, where=where, do=do) from error


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        do = "check --config"
        raise InputError(f"cannot read: {error.strerror or error}", where=str(path), do=do) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"not YAML: {error}", where=str(path)) from error
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise InputError("not a mapping of sections", where=str(path), do="write e.g. `data: {folds: 3}`")
    return body
