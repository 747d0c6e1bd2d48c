"""The recorder of this process, if it has one: made at the first thing a hook sees, gone after a fork.

Until then nobody knows the rank: a launcher sets it in the environment, or the job tells torch. A process that never trains
(a launcher, a loader's worker, a tool that the script calls) never opens anything.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, Final

from stepscope.model.errors import OutputRefused
from stepscope.model.segment import FOLDER, Head
from stepscope.recorder.journal import Journal
from stepscope.recorder.settings import Settings

if TYPE_CHECKING:
    from stepscope.recorder.steps import Steps

OPENED: Final = "STEPSCOPE_RECORD_OPENED"  # set in a rank's own environment, so that its children leave it alone
clock = monotonic_ns


class Live:
    """One process's recorder. `journal` and `steps` are None until `open`, and again after `close`."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.journal: Journal | None = None
        self.steps: Steps | None = None
        self.thread = 0  # that trains
        self.failed = False
        self._watch: Any = None

    def arm(self, settings: Settings) -> None:
        """From now on the first hook opens the recorder."""
        self.settings, self.failed = settings, False

    def seen(self) -> Journal | None:
        """The journal, opened where this is the first thing seen; None where this process does not record."""
        if self.journal is not None or self.settings is None or self.failed:
            return self.journal
        try:
            self.open(self.settings)
        except Exception as error:  # the job never dies of the recorder
            self.failed = True
            said: object = f"{type(error).__name__}: {error}"
            if isinstance(error, (OSError, OutputRefused)):
                said = getattr(error, "strerror", None) or error
            print(f"stepscope: not recording ({said}); the job goes on", file=sys.stderr)
        return self.journal

    def open(self, settings: Settings) -> None:
        """Makes the journal and starts the thread that watches. OSError where the folder cannot be written."""
        from stepscope.recorder.steps import Steps
        from stepscope.recorder.watch import Watch

        folder = Path(settings.out) / FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        who = _who()
        if settings.alone and any(folder.glob(f"rank-{who.rank}.{who.attempt}.*")):
            raise OutputRefused(f"{settings.out}: holds a recording of rank {who.rank} already; choose another name")
        stem = f"rank-{who.rank}.{who.attempt}.{who.pid}"
        journal = Journal(folder, stem, settings.keep, who)
        journal.segment.prepare()
        if journal.segment.error:
            print(
                f"stepscope: {settings.out}: {journal.segment.error}; the job goes on, recording begins when it can",
                file=sys.stderr,
            )
        os.environ[OPENED] = str(journal.pid)
        self.thread = threading.get_ident()
        self.steps = Steps(journal)
        self.journal = journal
        self._watch = Watch(settings, journal, self.steps)
        self._watch.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Writes what is left; once."""
        journal, self.journal = self.journal, None
        if journal is None or journal.pid != os.getpid():
            return
        try:
            if self._watch is not None:
                self._watch.stop()
            if self.steps is not None:
                self.steps.finish()
            journal.close(clock())
        except Exception as error:
            print(f"stepscope: the end of the recording is lost ({error})", file=sys.stderr)
        finally:
            self.steps = self._watch = self.settings = None
            os.environ.pop(OPENED, None)

    def forget(self) -> None:
        """In the child of a fork: a rank's child records nothing and leaves its files alone; a launcher's may be a rank."""
        if self.journal is not None:
            self.journal.segment.abandon()
            self.settings = None
        self.journal = self.steps = self._watch = None


LIVE: Final = Live()
os.register_at_fork(after_in_child=LIVE.forget)


def _who() -> Head:
    distributed = sys.modules.get("torch.distributed")
    torch = sys.modules.get("torch")
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    device, name = "cpu", ""
    if torch is not None and torch.cuda.is_available():
        device = "hip" if getattr(torch.version, "hip", None) else "cuda"
        name = torch.cuda.get_device_name()
    versions = {"torch": str(torch.__version__)} if torch is not None else {}
    return Head(
        rank=rank,
        world=world,
        local_rank=int(os.environ.get("LOCAL_RANK", "0")),
        host=socket.gethostname(),
        boot=_boot(),
        pid=os.getpid(),
        attempt=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        part=0,
        monotonic_ns=clock(),
        wall_ns=time_ns(),
        main_thread=threading.get_native_id(),
        device=device,
        device_name=name,
        versions=versions,
    )


def _boot() -> str:
    """Of the machine: two processes with the same one share the monotonic clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
