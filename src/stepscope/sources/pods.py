"""Places of ranks in `kubectl get pods -o json`: which pod is which part of the job, and the node that it runs on.

A pod's number comes, first found, from RANK or PET_NODE_RANK in its environment (Kubeflow's training operator for PyTorch),
JOB_COMPLETION_INDEX or the label or annotation `batch.kubernetes.io/job-completion-index` (indexed Job), the label
`training.kubeflow.org/replica-index` (in old versions `replica-index`; a worker's comes after those of the masters),
`leaderworkerset.sigs.k8s.io/worker-index`, `apps.kubernetes.io/pod-index` (StatefulSet). Ranks per pod: PET_NPROC_PER_NODE,
else its GPUs (limits of `nvidia.com/gpu` or `amd.com/gpu`), else one. A GPU's number on the node is known only where the
node runs one pod of the job.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from stepscope.model.place import Place
from stepscope.sources.hostlist import MAX_RANKS, WrongList, node_name
from stepscope.sources.placement import Placement

NUMBERS: Final = ("RANK", "PET_NODE_RANK", "NODE_RANK", "GROUP_RANK", "JOB_COMPLETION_INDEX")
INDEX_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
)
ROLE_LABELS: Final = ("training.kubeflow.org/replica-type", "replica-type")
LEADERS: Final = ("master", "chief")
GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")
OVER: Final = ("Failed", "Succeeded")


class _Variable(msgspec.Struct):
    name: str = ""
    value: str | int | None = None  # absent where it is taken from elsewhere


class _Resources(msgspec.Struct):
    limits: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct):
    env: list[_Variable] | None = None
    resources: _Resources | None = None


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")
    containers: list[_Container] = []


class _Metadata(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    kind: str = "Pod"
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Answer(_Pod):
    items: list[_Pod] | None = None


def read(data: bytes) -> Placement:
    """Places of the ranks in the pods of one job. Raises WrongList for what is no such list, or not of one job."""
    try:
        answer = msgspec.json.decode(data, type=_Answer)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise WrongList(f"not the JSON of pods ({str(error)[:100]}); write `kubectl get pods -o json`") from None
    pods: list[_Pod] = [answer] if answer.items is None else answer.items
    if wrong := next((pod.kind for pod in pods if pod.kind != "Pod"), None):
        raise WrongList(f"holds a {wrong[:40]!r}, no pods; write `kubectl get pods -o json`")
    numbered = _numbered(_alive(pods))
    if len({_ranks(pod) for _, pod in numbered}) > 1:
        raise WrongList("the pods have different numbers of GPUs; write lines `rank node gpu`")
    sharing = Counter(pod.spec.node for _, pod in numbered)
    places: dict[int, Place] = {}
    for number, pod in numbered:
        ranks = _ranks(pod)
        if (number + 1) * ranks > MAX_RANKS:
            raise WrongList(f"pod {pod.metadata.name[:60]}: stands for more than {MAX_RANKS:,} ranks; check its number and GPUs")
        node = node_name(pod.spec.node)
        for local in range(ranks):
            places[number * ranks + local] = Place(node, local if sharing[node] == 1 and _gpus(pod) else None)
    return Placement(places)


def _alive(pods: list[_Pod]) -> list[_Pod]:
    """Pods on a node; those that ended only where none runs (a finished job)."""
    placed = [pod for pod in pods if pod.spec.node]
    return [pod for pod in placed if pod.status.phase not in OVER] or [p for p in placed if p.status.phase != "Failed"] or placed


def _numbered(pods: list[_Pod]) -> list[tuple[int, _Pod]]:
    """Each pod of the job with its number, in order."""
    leaders = sum(_is_leader(pod) for pod in pods)
    found = [(number, pod) for pod in pods if (number := _number(pod, leaders)) is not None]
    if not found:
        raise WrongList(
            "no pod on a node says its part of the job (RANK, a completion or replica index); write lines `rank node gpu`"
        )
    owner: dict[int, str] = {}
    for number, pod in found:
        if number in owner:
            names = f"{owner[number][:60]} and {pod.metadata.name[:60]}"
            raise WrongList(f"{names} are both number {number}; give the pods of one job: kubectl get pods -l LABEL -o json")
        owner[number] = pod.metadata.name
    return sorted(found, key=lambda one: one[0])


def _number(pod: _Pod, leaders: int) -> int | None:
    variables = _variables(pod)
    for name in NUMBERS:
        if (number := _whole(variables.get(name))) is not None:
            return number
    for label in INDEX_LABELS:
        if (number := _whole(_label(pod, label))) is not None:
            return number + (leaders if "replica" in label and not _is_leader(pod) else 0)
    return None


def _ranks(pod: _Pod) -> int:
    return _whole(_variables(pod).get("PET_NPROC_PER_NODE")) or _gpus(pod) or 1


def _gpus(pod: _Pod) -> int:
    limits = [c.resources.limits for c in pod.spec.containers if c.resources and c.resources.limits]
    return sum(_whole(limit.get(name)) or 0 for limit in limits for name in GPUS)


def _variables(pod: _Pod) -> dict[str, str | int | None]:
    return {v.name: v.value for c in reversed(pod.spec.containers) for v in c.env or ()}


def _label(pod: _Pod, name: str) -> str | None:
    return (pod.metadata.labels or {}).get(name) or (pod.metadata.annotations or {}).get(name)


def _is_leader(pod: _Pod) -> bool:
    return any((_label(pod, name) or "").lower() in LEADERS for name in ROLE_LABELS)


def _whole(value: str | float | None) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 7 else None
