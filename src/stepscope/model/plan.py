"""How is a job laid over its ranks, and how much does each of them do in a step? What `--plan` says, as a value.

    fsdp=16,mbs=1,seq=8192      hsdp=2x8,ga=4,ac=full      fsdp=8,tp=2      ddp=8,precision=fp16      zero1=64

Sizes are ranks, `mbs` and `seq` are sequences and tokens of one rank's micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from stepscope.model.errors import UsageMistake

Strategy = Literal["fsdp", "hsdp", "ddp", "zero1"]
MAX_RANKS: Final = 1 << 20
MAX_COUNT: Final = 1 << 24
DEFAULT_SEQ: Final = 8192  # what today's models are pre-trained with, however long their context (Llama 3, arXiv 2407.21783)

STRATEGIES: Final[tuple[Strategy, ...]] = ("fsdp", "hsdp", "ddp", "zero1")
CHECKPOINTING: Final = ("none", "selective", "full")
PRECISIONS: Final = ("bf16", "fp16", "fp32", "tf32", "fp8", "fp8-rowwise")
IMPLICIT: Final = -1
"""`prefetch` of a framework left to itself: the next unit's gather is issued while this one computes."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One layout. World size = replicate x shard x tp x pp x cp.

    `reshard` is what becomes of a unit's parameters after forward: 1 = freed and gathered again for backward, 0 = kept, k > 1 =
    re-sharded over k ranks only. `prefetch`: IMPLICIT, 0 = off (a gather starts when it is needed), n = so many units ahead.
    `sync` says which micro-batches of an accumulation exchange gradients. `layers_per_unit` layers are wrapped as one unit.
    """

    strategy: Strategy = "fsdp"
    replicate: int = 1
    shard: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    mbs: int = 1
    ga: int = 1
    seq: int | None = None
    ac: Literal["none", "selective", "full"] = "none"
    precision: str = "bf16"
    reduce: Literal["fp32", "bf16"] = "fp32"
    prefetch: int = IMPLICIT
    reshard: int = 1
    sync: Literal["last", "every"] = "last"
    separate_rs: bool = False
    layers_per_unit: int = 1
    split: int = 1
    optimizer: Literal["adamw", "adam8bit", "sgd"] = "adamw"

    @property
    def sharded(self) -> bool:
        """Whether parameters are gathered from several ranks before they are used."""
        return self.strategy in ("fsdp", "hsdp") and self.shard > 1

    @property
    def data_ranks(self) -> int:
        """Ranks that see different batches."""
        return self.replicate * self.shard

    @property
    def world_size(self) -> int:
        """All ranks."""
        return self.data_ranks * self.tp * self.pp * self.cp

    def sequence(self, context: int) -> int:
        """Tokens of one sequence: as given, else the model's context, at most DEFAULT_SEQ."""
        return self.seq or min(context, DEFAULT_SEQ)

    def tokens(self, context: int) -> int:
        """Tokens of one step over all ranks."""
        return self.data_ranks * self.mbs * self.ga * self.sequence(context)

    def text(self) -> str:
        """The plan in the words of `--plan`, what is not at its default."""
        size = {"fsdp": f"{self.shard}", "hsdp": f"{self.replicate}x{self.shard}"}.get(self.strategy, f"{self.data_ranks}")
        words = [f"{self.strategy}={size}"]
        plain = Plan()
        for key, (field, _) in _KEYS.items():
            value = getattr(self, field)
            if key not in STRATEGIES and value != getattr(plain, field):
                words.append(f"{key}={_word(field, value)}")
        return ",".join(words)


def parse_plan(text: str) -> Plan:
    """The plan that the words mean. UsageMistake for an unknown word, a number out of range, or no data axis."""
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for word in filter(None, (w.strip() for w in text.split(","))):
        key, equals, value = word.partition("=")
        key = key.strip().lower()
        if not equals:
            raise UsageMistake(f"plan: {word[:40]!r} is not KEY=VALUE; write for example fsdp=16,mbs=1,seq=8192")
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            raise UsageMistake(
                f"plan: no such key {key[:40]!r}; {f'did you mean {near[0]}? ' if near else ''}known: {', '.join(_KEYS)}"
            )
        if key in seen or (key in STRATEGIES and "strategy" in values):
            what = f"{key} is given twice" if key in seen else f"both {values['strategy']} and {key} are given"
            raise UsageMistake(f"plan: {what}; keep one")
        seen.add(key)
        field, read = _KEYS[key]
        values[field] = read(key, value.strip().lower())
        if key in STRATEGIES:
            sizes = values.pop("strategy")
            values |= {"strategy": key, **sizes}
    if not seen.intersection((*STRATEGIES, "tp", "pp", "cp")):
        raise UsageMistake(f"plan: {text[:60]!r} says nothing of the ranks; begin with fsdp=N, hsdp=RxS, ddp=N or zero1=N")
    plan = Plan(**values)
    if plan.world_size > MAX_RANKS:
        raise UsageMistake(f"plan: {plan.world_size} ranks; at most {MAX_RANKS} can be planned")
    if plan.reshard > 1 and plan.strategy != "fsdp":
        raise UsageMistake(f"plan: reshard={plan.reshard}: {plan.strategy} keeps all of a unit or nothing; give true or false")
    if plan.shard % max(plan.reshard, 1):
        raise UsageMistake(f"plan: reshard={plan.reshard} does not divide fsdp={plan.shard}; give true, false or a divisor")
    return plan


def _word(field: str, value: Any) -> str:
    if field == "prefetch":
        return {IMPLICIT: "implicit", 0: "off"}.get(value, str(value))
    if field == "reshard":
        return {0: "false", 1: "true"}.get(value, str(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count(key: str, value: str) -> int:
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
    if not 1 <= number <= MAX_COUNT:
        raise UsageMistake(f"plan: {key}={value[:40]}: give a whole number from 1 to {MAX_COUNT}")
    return number


def _sizes(key: str, value: str) -> dict[str, int]:
    if key == "hsdp":
        replicate, cross, shard = value.partition("x")
        if not cross:
            raise UsageMistake(f"plan: hsdp={value[:40]}: give REPLICATExSHARD, for example hsdp=2x8")
        return {"replicate": _count(key, replicate), "shard": _count(key, shard)}
    return {"shard" if key == "fsdp" else "replicate": _count(key, value)}


def _choice(*choices: str) -> Callable[[str, str], str]:
    def read(key: str, value: str) -> str:
        if value not in choices:
            raise UsageMistake(f"plan: {key}={value[:40]}: give one of {', '.join(choices)}")
        return value

    return read


YES: Final = {"true": 1, "yes": 1, "on": 1, "1": 1, "false": 0, "no": 0, "off": 0, "0": 0}


def _switch(key: str, value: str) -> bool:
    if value not in YES:
        raise UsageMistake(f"plan: {key}={value[:40]}: give true or false")
    return bool(YES[value])


def _prefetch(key: str, value: str) -> int:
    if value in ("implicit", "on", "true"):
        return IMPLICIT
    return 0 if value in ("off", "false", "none", "0") else _count(key, value)


def _reshard(key: str, value: str) -> int:
    return YES[value] if value in YES else _count(key, value)


_KEYS: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    **dict.fromkeys(STRATEGIES, ("strategy", _sizes)),
    **{name: (name, _count) for name in ("tp", "pp", "cp", "ep", "mbs", "ga", "seq")},
    "ac": ("ac", _choice(*CHECKPOINTING)),
    "precision": ("precision", _choice(*PRECISIONS)),
    "reduce": ("reduce", _choice("fp32", "bf16")),
    "prefetch": ("prefetch", _prefetch),
    "reshard": ("reshard", _reshard),
    "sync": ("sync", _choice("last", "every")),
    "separate_rs": ("separate_rs", _switch),
    "unit": ("layers_per_unit", _count),
    "split": ("split", _count),
    "optimizer": ("optimizer", _choice("adamw", "adam8bit", "sgd")),
}
