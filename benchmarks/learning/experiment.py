"""What is measured: variants of a configuration, on synthetic markets, from several seeds."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from trainer.config import Config, Market
from trainer.errors import InputError
from trainer.options import build_config, overlaid

MARKETS: tuple[Market, ...] = get_args(Market)
SEEDED = ("synthetic", "learn")  # sections whose seed an experiment's seed is added to
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Variant:
    """A configuration under a name that is good for a file: a preset and what is changed in it."""

    name: str
    config: Config


@dataclass(frozen=True)
class Experiment:
    """One run from generated market to verdict: a variant on a market, from one seed."""

    variant: str
    market: Market
    seed: int
    config: Config  # with the market, both seeds, steps and device put in
    folds: int  # the first so many of the configuration's folds are trained and judged
    curve: int  # points of the learning curve of each fold, its end included

    @property
    def name(self) -> str:
        """`<variant>-<market>-s<seed>`: of the result file and of the run directory."""
        return f"{self.variant}-{self.market}-s{self.seed}"

    @property
    def steps(self) -> list[int]:
        """Completed steps at which a fold is evaluated, rising; the last is the end of training."""
        total = self.config.run.n_steps
        return sorted({max(1, total * point // self.curve) for point in range(1, self.curve + 1)})

    def digest(self) -> str:
        """16 hex digits of everything that a result depends on but the code and the device."""
        asked = [self.config.digest(), self.folds, self.steps]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def expand(
    variants: Iterable[Variant],
    markets: Iterable[Market],
    seeds: Sequence[int],
    *,
    folds: int | None = None,
    curve: int = 10,
    run: Mapping[str, Any] | None = None,
) -> list[Experiment]:
    """Every variant on every market from every seed; the seeds of one variant and market follow each other.

    A seed is added to the configuration's own seeds of the agent and of the market, so that another seed is a
    whole new experiment and seed 0 the configuration as it is. `run` holds fields of `RunConfig`. Raises
    InputError for more folds than the configuration has and for a configuration of real data.
    """
    found = []
    for variant in variants:
        _require_synthetic(variant)
        count = variant.config.data.folds if folds is None else folds
        if not 1 <= count <= variant.config.data.folds:
            do = f"{variant.name} has {variant.config.data.folds}"
            raise InputError(f"cannot run {count} folds", where="--folds", do=do)
        for market in markets:
            for seed in seeds:
                seeds_of = {name: {"seed": getattr(variant.config, name).seed + seed} for name in SEEDED}
                body = {"market_source": market, "run": dict(run or {}), **seeds_of}
                config = overlaid(variant.config, body, "options")
                found.append(Experiment(variant.name, market, seed, config, count, curve))
    return found


def _require_synthetic(variant: Variant) -> None:
    if variant.config.run.mbp10_data_dir is not None:
        raise InputError(
            f"variant {variant.name} names order-book files",
            where="run.mbp10_data_dir", do="leave it out: only synthetic markets have known truths",
        )  # fmt: skip


def variant_of(
    name: str, preset: str, config_file: Path | None, overrides: Mapping[str, Any], where: str
) -> Variant:
    """The preset, the YAML file's keys over it, then `overrides`; `preset` among them replaces the preset.

    Keys of `overrides` are sections with a mapping of fields, or `section.field` with a value. Raises
    InputError that names the option or file `where` and the field.
    """
    if not _NAME.fullmatch(name):
        do = "use letters, digits, '.', '_' and '-'"
        raise InputError(f"{name!r} cannot name a file", where=where, do=do)
    body = _nested(overrides, where)
    config = build_config(str(body.pop("preset", preset)), config_file, {})
    return Variant(name, overlaid(config, body, where))


def read_variants(path: Path, preset: str, config_file: Path | None) -> list[Variant]:
    """The variants of a YAML file, `name: {section.field: value, ...}`, in its order."""
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", where=str(path)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"not YAML: {error}", where=str(path)) from error
    if not isinstance(body, dict) or not body:
        do = "write e.g. `no-per: {learn.prioritized: false}`"
        raise InputError("not a mapping of variants", where=str(path), do=do)
    found = []
    for name, overrides in body.items():
        where = f"{path}: {name}"
        if not isinstance(overrides, dict | None):
            raise InputError("not a mapping of fields", where=where, do="write {} for none")
        found.append(variant_of(str(name), preset, config_file, overrides or {}, where))
    return found


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """`section.field=value` each, the value as YAML; InputError for anything else."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key.count(".") != 1:
            do = "write e.g. learn.n_step=3"
            raise InputError(f"{setting!r} is not section.field=value", where="--set", do=do)
        try:
            found[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"{key}: not YAML: {error}", where="--set") from error
    return found


def parse_seeds(text: str) -> list[int]:
    """`0-4` or `0,2,5-7`, in the order given, each once."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InputError(f"{text!r} are no seeds", where="--seeds", do="write e.g. 0-4 or 0,2,5-7")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return list(dict.fromkeys(found))


def _nested(overrides: Mapping[str, Any], where: str) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for key, value in overrides.items():
        section, dot, field = str(key).partition(".")
        fields = {field: value} if dot else value
        known = body.get(section)
        if known is not None and not (isinstance(known, dict) and isinstance(fields, dict)):
            raise InputError(f"{key}: {section} is given twice", where=where)
        body[section] = {**(known or {}), **fields} if isinstance(fields, dict) else fields
    return body
