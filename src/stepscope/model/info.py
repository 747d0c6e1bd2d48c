"""What a run says of itself: `run.json` with its ranks, steps, groups, clocks and gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stepscope.model.place import Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

SCHEMA = "run/1"


def host_of(info: RankInfo) -> str:
    """The host whose clock a rank's times are on; a rank whose host nobody names stands for itself."""
    return info.host or f"rank {info.rank}"


class Gap(msgspec.Struct, frozen=True):
    """Something that was not recorded: what, on which ranks (empty: the whole run), and why."""

    what: str
    ranks: tuple[int, ...]
    why: str


class Step(msgspec.Struct, frozen=True):
    """One step of one rank: [start_ns, end_ns) on the run's clock; `complete` is False for a cut one."""

    step: int
    start_ns: int
    end_ns: int
    complete: bool = True


class RankInfo(msgspec.Struct):
    """One rank as its files describe it.

    `identified_by` is one of distributed_info, collective_metadata, file_name, rank_map, only_file, simulated, recorder.
    `place` is what --hosts said, `host` its node, or the one that the trace names.
    `device` is cuda, hip, xpu, mtia, other or cpu (no device work recorded). `recorded` names what the profiler wrote
    (`device_kernels`, `shapes`, `python_stacks`, `memory`, `collective_metadata`, …); `steps` are those of the attribution.
    """

    rank: int
    identified_by: str
    files: list[str] = []
    host: str | None = None
    place: Place | None = None
    device: str = "cpu"
    device_name: str | None = None
    main_thread: int | None = None
    windows: list[tuple[int, int]] = []
    steps: list[Step] = []
    events: int = 0
    repaired: int = 0
    dropped: int = 0
    clipped: int = 0
    recorded: dict[str, bool] = {}
    versions: dict[str, str] = {}


class HostClock(msgspec.Struct, frozen=True):
    """One host's clock against the run's: it shows `offset_ns` more at the reference time and gains `drift_ppm` on it.

    Hosts of one `component` can be compared; those of another share no group with them and cannot. `residual_ns` is what
    the offset does not explain (95 % of the ends it was found from lie within it), 0 where ranks share the clock itself.
    """

    offset_ns: int = 0
    drift_ppm: float = 0.0
    residual_ns: int = 0
    component: int = 0


class Clock(msgspec.Struct):
    """Clock alignment of the hosts. `aligned` is None with a single rank, False where some hosts cannot be compared."""

    aligned: bool | None = None
    residual_ns: int | None = None  # the largest of the aligned hosts; null where nothing is aligned
    reference_ns: int = 0  # the time on the run's clock at which the offsets hold
    hosts: dict[str, HostClock] = {}

    def to_common(self, host: str, times: IntArray) -> IntArray:
        """Times (int64 ns) of that host's clock on the common one; unchanged where the host is not aligned."""
        own = self.hosts.get(host)
        if own is None:
            return times
        since = times - (self.reference_ns + own.offset_ns)
        # d = drift * common time: common = since / (1 + drift), exact in float64 as the correction alone is rounded
        gained = (since * (own.drift_ppm * 1e-6 / (1 + own.drift_ppm * 1e-6))).round().astype("int64") if own.drift_ppm else 0
        common: IntArray = times - own.offset_ns - gained
        return common


class Group(msgspec.Struct, frozen=True):
    """A process group: its name, the axis it serves (null where unknown), its ranks in order."""

    group: str
    axis: str | None
    ranks: tuple[int, ...]


class RunInfo(msgspec.Struct):
    """`run.json`. `origin` is trace, live or simulated; `origin_ns` is what was subtracted from every time.

    `good` marks a run that later ones may be compared with: the newest such one is what `last-good` means.
    """

    schema: str = SCHEMA
    origin: str = "trace"
    origin_ns: int = 0
    world_size: int | None = None
    ranks: list[RankInfo] = []
    missing_ranks: list[int] = []
    groups: list[Group] = []
    gaps: list[Gap] = []
    clock: Clock = msgspec.field(default_factory=Clock)
    workload: dict[str, Any] = {}
    cluster: dict[str, Any] = {}
    mesh: dict[str, Any] = {}
    good: bool = False

    def rank(self, rank: int) -> RankInfo:
        """The entry of that rank; KeyError where it is missing."""
        for info in self.ranks:
            if info.rank == rank:
                return info
        raise KeyError(rank)
