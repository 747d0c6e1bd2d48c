"""What a rank is called."""

from __future__ import annotations

from stepscope.model.breakdown import Breakdown, Communication, StepParts
from stepscope.model.words import PARTS
from stepscope.show.names import Names
from stepscope.show.sentence import sentence


def test_a_rank_is_called_by_its_number_and_its_place_where_that_is_known() -> None:
    names = Names({3: "node1/gpu3", 4: "rank 4 on node2", 5: "rank 5"})
    assert [names(r) for r in (2, 3, 4, 5)] == ["rank 2", "rank 3 (node1/gpu3)", "rank 4 on node2", "rank 5"]


def test_the_sentence_names_the_place_of_the_rank_that_stands_out() -> None:
    def step(rank: int, wait: int) -> StepParts:
        parts = dict.fromkeys(PARTS, 0) | {"comm_wait": wait, "forward": 100_000_000 - wait}
        return StepParts(rank, 0, 100_000_000, parts, 100_000_000)

    steps = tuple(step(r, 5_000_000 if r == 2 else 60_000_000) for r in range(4))
    communication = tuple(Communication(r, 10, 5, 5, 5, 0) for r in range(4))
    said = sentence(Breakdown(steps, communication, places={2: "node0/gpu2"}))
    assert "rank 2 (node0/gpu2) spends the least time in communication" in said
