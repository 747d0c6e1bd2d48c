"""Places of ranks in what Slurm prints: its environment in a job, `scontrol show job`, `sacct`.

Forms: SLURM_JOB_NODELIST=node[01-04] with SLURM_TASKS_PER_NODE=8(x4) (environment, sbatch(1) "OUTPUT ENVIRONMENT VARIABLES");
`NodeList=… NumTasks=… NtasksPerN:B:S:C=…` (scontrol(1)); a table with the column NodeList (sacct(1)). The variables of the
step, which say where srun put the tasks, win over those of the job.
"""

from __future__ import annotations

import re
from typing import Final

from stepscope.sources.hostlist import MAX_NODES, WrongList, expand
from stepscope.sources.placement import Placement

_SET: Final = re.compile(r"^\s*(?:export\s+|declare\s+-x\s+)?(SLURM_\w+)=(.*)$", re.MULTILINE)
_LISTS: Final = (("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"), ("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"),
                 ("SLURM_NODELIST", "SLURM_TASKS_PER_NODE"))  # fmt: skip
_TASKS: Final = re.compile(r"(\d{1,8})(?:\(x(\d{1,8})\))?")
_NONE: Final = ("", "(null)", "None", "None assigned", "Unknown")
ROUND_ROBIN: Final = "cyclic"
IN_BLOCKS: Final = ("", "block", "nopack", "pack", "unknown")


def read(text: str) -> Placement | None:
    """What Slurm's text says; None where it is none of Slurm's. Raises WrongList where it names no nodes or too many."""
    if variables := {name: value.strip().strip("'\"") for name, value in _SET.findall(text)}:
        if not any(nodes in variables for nodes, _ in _LISTS):  # the list itself may stand beside the counts
            variables["SLURM_JOB_NODELIST"] = ",".join(_SET.sub("", text).split())
        return _environment(variables)
    if re.search(r"\bJobId=\d", text):
        return _scontrol(text)
    if heading := re.search(r"^[^#\n]*\bNodeList\b.*$", text, re.MULTILINE):
        return _sacct(text[heading.start() :].splitlines())
    return None


def _environment(variables: dict[str, str]) -> Placement:
    nodes, tasks = next(((n, t) for n, t in _LISTS if variables.get(n, "") not in _NONE), ("", ""))
    if not nodes:
        raise WrongList("holds no SLURM_JOB_NODELIST; write it with `env | grep SLURM_` inside the job")
    way = re.split("[:,]", variables.get("SLURM_DISTRIBUTION", "").lower())[0]
    if way != ROUND_ROBIN and way not in IN_BLOCKS:
        raise WrongList(f"tasks are distributed {way[:20]!r}; give the output of `srun --label hostname` instead")
    names = expand(variables[nodes])
    if not variables.get(tasks):
        return Placement.in_order(((n, 1) for n in names), counted=False, round_robin=way == ROUND_ROBIN)
    counts = _tasks_per_node(variables[tasks])
    if len(counts) != len(names):
        raise WrongList(f"{nodes} has {len(names)} nodes but {tasks} counts {len(counts)}; write both from the same job")
    return Placement.in_order(zip(names, counts, strict=True), counted=True, round_robin=way == ROUND_ROBIN)


def _tasks_per_node(text: str) -> list[int]:
    counts: list[int] = []
    for word in text.split(","):
        match = _TASKS.fullmatch(word.strip())
        if not match:
            raise WrongList(f"SLURM_TASKS_PER_NODE: {word[:40]!r} is not understood; it reads for example 8(x4),4")
        times = int(match[2] or 1)
        if len(counts) + times > MAX_NODES:
            raise WrongList(f"SLURM_TASKS_PER_NODE: {text[:40]!r} counts more than {MAX_NODES:,} nodes; check it")
        counts += [int(match[1])] * times
    return counts


def _scontrol(text: str) -> Placement:
    if len(set(re.findall(r"\bJobId=(\d+)", text))) > 1:
        raise WrongList("describes several jobs; write `scontrol show job` with the number of the one")
    found = re.search(r"(?<!\w)NodeList=(\S+)", text)
    if not found or found[1] in _NONE:
        raise WrongList("the job has no NodeList; write `scontrol show job` while it runs, or use sacct")
    names = expand(found[1])
    per_node = re.search(r"\bNtasksPerN:B:S:C=(\d{1,8}):", text)
    tasks = re.search(r"\bNumTasks=(\d{1,8})\b", text)
    each = int(per_node[1]) if per_node else 0
    if not each and tasks and int(tasks[1]) % len(names) == 0:
        each = int(tasks[1]) // len(names)
    return Placement.in_order(((n, each) for n in names), counted=each > 0)


def _sacct(lines: list[str]) -> Placement:
    """The first row of the table with nodes is the job; its steps may say how many tasks it had."""
    rows = _rows(lines)
    jobs = {row.get("JobID", "").split(".")[0] for row in rows}
    if len(jobs - {""}) > 1:
        raise WrongList("lists several jobs; write `sacct -P -o JobID,NodeList,NTasks` with -j and the number of the one")
    nodes = next((row["NodeList"] for row in rows if row.get("NodeList", "") not in _NONE), None)
    if nodes is None:
        raise WrongList("the column NodeList is empty; write `sacct -P -o JobID,NodeList,NTasks` once the job has run")
    if nodes.endswith("+"):
        raise WrongList(f"{nodes[:60]!r} was cut by sacct; write it with -P, or with -o NodeList%1000")
    names = expand(nodes)
    tasks = [
        int(row["NTasks"]) for row in rows if row.get("NodeList") == nodes and re.fullmatch(r"\d{1,8}", row.get("NTasks", ""))
    ]
    each, left = divmod(max(tasks, default=0), len(names))
    return Placement.in_order(((n, each) for n in names), counted=each > 0 and not left)


def _rows(lines: list[str]) -> list[dict[str, str]]:
    """A table of sacct: columns divided by `|`, or as wide as the dashes under the heading."""
    heading, *body = lines
    if "|" in heading:
        names = heading.strip("|").split("|")
        return [dict(zip(names, line.split("|"), strict=False)) for line in body if line.strip()]
    if not body or not re.fullmatch(r"[- ]+", body[0]):
        raise WrongList("no table of sacct; write `sacct -P -o JobID,NodeList,NTasks`")
    spans = [match.span() for match in re.finditer("-+", body[0])]
    names = [heading[start:end].strip() for start, end in spans]
    return [
        {n: line[start:end].strip() for n, (start, end) in zip(names, spans, strict=True)} for line in body[1:] if line.strip()
    ]
