"""How a verb reads its input: paths and globs to a Run, with marks, a rank map and a progress bar."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.progress import Bar
from stepscope.model.errors import BadInput, UsageMistake

if TYPE_CHECKING:
    from stepscope.model.breakdown import Breakdown
    from stepscope.model.run import Run
    from stepscope.sources.placement import Placement

Mark = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reading:
    """`marks` are (regular expression, phase); `rank_map` says which file is which rank, `hosts` where each rank runs.

    `jobs` None: one per core.
    """

    marks: tuple[Mark, ...] = ()
    rank_map: Path | None = None
    jobs: int | None = None
    quiet: bool = False
    hosts: Path | None = None

    def open(self, words: Sequence[str]) -> Run:
        """A .run folder, or raw input imported into a folder that goes away with the Run: use it in a `with`."""
        from stepscope.analysis.attribution import RULES
        from stepscope.sources.detect import open_run

        paths, ranks, places = expand(words), self.ranks(), self.places()
        if (self.marks or ranks or places) and any((path / "run.json").is_file() for path in paths):
            which = "--mark, --rank-map and --hosts are for traces"
            raise UsageMistake(f"{which}: a .run was read under those of its import; import it again")
        with Bar("reading", self.quiet) as bar:
            return open_run(paths, marks=self.marks, rank_map=ranks, hosts=places, progress=bar.step, jobs=self.jobs, rules=RULES)

    def into(self, words: Sequence[str], out: Path, force: bool) -> Run:
        """The Run folder `out` made from raw input; raises OutputRefused where it exists and `force` is not given."""
        from stepscope.analysis.attribution import RULES
        from stepscope.sources.detect import import_run

        paths, ranks, places = expand(words), self.ranks(), self.places()
        with Bar("reading", self.quiet) as bar:
            return import_run(
                paths,
                out,
                force=force,
                marks=self.marks,
                rank_map=ranks,
                hosts=places,
                progress=bar.step,
                jobs=self.jobs,
                rules=RULES,
            )

    def break_down(self, run: Run) -> Breakdown:
        """The breakdown of an open Run; marks were applied when it was opened."""
        from stepscope.analysis.breakdown import breakdown

        with Bar("breaking down", self.quiet):
            return breakdown(run)

    def ranks(self) -> dict[str, int] | None:
        """The rank map, read; None without one."""
        from stepscope.cli.rank_map import read_rank_map

        return read_rank_map(self.rank_map) if self.rank_map else None

    def places(self) -> Placement | None:
        """What the hosts file says; None without one. Raises BadInput."""
        from stepscope.sources.hosts import read_hosts

        return read_hosts(self.hosts) if self.hosts else None


def expand(words: Sequence[str]) -> list[Path]:
    """Paths of the inputs, each once, globs expanded in order of name. Raises BadInput for what does not exist."""
    paths: list[Path] = []
    for word in words:
        if not word:
            raise UsageMistake("an input has an empty name; give a file or a folder (. is this one)")
        if Path(word).exists():
            paths.append(Path(word))
        elif glob.has_magic(word):
            found = sorted(glob.glob(word, recursive=True))  # noqa: PTH207  # a pattern may be absolute
            if not found:
                raise BadInput(f"{word}: matches no file or folder; check the pattern")
            paths += map(Path, found)
        else:
            raise BadInput(f"{word}: no such file or folder; check the path")
    return list(dict.fromkeys(paths))
