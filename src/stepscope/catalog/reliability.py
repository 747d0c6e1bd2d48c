"""How often does a job of so many GPUs fail, and how long is it gone then? GPU-hours and seconds."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.document import Sourced


class Failures(Sourced, frozen=True, kw_only=True):
    """GPU-hours between two failures of a job."""

    gpu_hours: Annotated[float, Meta(gt=0, le=1e9)]


class Recovery(Sourced, frozen=True, kw_only=True):
    """From failure to the first step that is done again."""

    seconds: Annotated[float, Meta(ge=0, le=1e6)]


class Reliability(Sourced, frozen=True, kw_only=True):
    """Everything of reliability.toml."""

    failures: Failures
    recovery: Recovery


@cache
def reliability() -> Reliability:
    """The catalog's."""
    return document.decode(document.shipped("reliability.toml"), Reliability, "reliability.toml")
