"""Files read side by side: a process per file at a time, fed by threads that wait for it.

A worker that dies (out of memory) loses its file, not the import; an interrupt ends them all.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event, local
from typing import Final

import msgspec

from stepscope.sources.file_name import shown
from stepscope.sources.kineto.stream import GZIP_MAGIC
from stepscope.sources.kineto.worker import Job, Result, do

OWN_GROUP = 0 if os.name == "posix" else None
Progress = Callable[[int, int, str], None]

# Starting a process costs about 0.3 s of one core (interpreter and polars); less text than this is read faster without.
WORTH_A_PROCESS: Final = 48 << 20
GZIP_SHARE: Final = 12  # text is about 12 times its gzip (measured over the handed traces); only weighs work


def run(work: list[Job], count: int, progress: Progress | None) -> list[Result]:
    """Results in the order of the jobs."""
    results: list[Result] = [Result()] * len(work)
    if count <= 1:
        for at, job in enumerate(work):
            results[at] = do(job)
            if progress:
                progress(at + 1, len(work), shown(job.path))
        return results
    own = local()
    started: list[subprocess.Popen[bytes]] = []
    stopping = Event()

    def ask(job: Job) -> Result:
        if not hasattr(own, "process"):
            command = [sys.executable, "-m", "stepscope.sources.kineto.worker"]
            environment = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
            own.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=OWN_GROUP
            )  # of their own, so that Ctrl-C reaches this process alone, which ends them
            started.append(own.process)
            if stopping.is_set():  # begun while the others were ended: it would write where nobody wants it any more
                own.process.kill()
        process: subprocess.Popen[bytes] = own.process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            del own.process
            why = f"the process reading it died (exit {process.wait()}; out of memory?); read fewer files at once"
            return Result(error=f"{shown(job.path)}: {why}")
        result = msgspec.json.decode(answer, type=Result)
        if result.errno is not None:
            raise OSError(result.errno, result.error or "cannot be written", result.written or job.folder)
        return result

    pool = ThreadPoolExecutor(count)
    try:
        waiting = {pool.submit(ask, job): at for at, job in enumerate(work)}
        for done, future in enumerate(as_completed(waiting), 1):
            at = waiting[future]
            results[at] = future.result()
            if progress:
                progress(done, len(work), shown(work[at].path))
    except BaseException:
        stopping.set()
        for process in list(started):
            process.kill()
        pool.shutdown(wait=True, cancel_futures=True)  # their processes are ended, so this is quick
        raise
    finally:
        for process in started:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            process.wait()
    pool.shutdown()
    return results


def processes(files: Sequence[Path], jobs: int | None) -> int:
    """How many files to read at once: as many as there are cores, one where the whole is small."""
    if jobs is not None:
        return min(max(1, jobs), len(files))
    text = sum(_text_size(f) for f in files)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, len(files)) if text > WORTH_A_PROCESS else 1


def _text_size(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return path.stat().st_size * (GZIP_SHARE if file.read(2) == GZIP_MAGIC else 1)
    except OSError:
        return 0
