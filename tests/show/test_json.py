"""The documents of the contract: keys, units, nulls, exact sums."""

import json

from stepscope.model.breakdown import Breakdown, Collective
from stepscope.model.words import PARTS
from stepscope.show import csv
from stepscope.show import json as as_json
from stepscope.show.contents import Contents, OperationCount
from tests.show.build import MS, examination, info, job, step


def test_breakdown_has_the_keys_of_the_contract() -> None:
    doc = json.loads(as_json.encode(as_json.breakdown(job())))
    assert doc["schema"] == "breakdown/1"
    assert {"steps", "communication", "groups", "collectives", "units", "gaps"} <= set(doc)
    assert {"rank", "step", "duration_s", "duration_ns", "parts", "parts_ns"} <= set(doc["steps"][0])
    assert set(doc["steps"][0]["parts"]) == set(doc["steps"][0]["parts_ns"]) == set(PARTS)
    assert {"rank", "window_s", "compute_s", "total_s", "exposed_s", "hidden_s", "exposed_ns"} <= set(doc["communication"][0])
    wanted = {"id", "step", "group", "op", "bytes", "n_ranks", "wait_s", "transfer_s", "busbw_bytes_per_s", "last_rank", "skew_s"}
    assert wanted <= set(doc["collectives"][0])
    assert doc["groups"] == [{"group": "0", "axis": "fsdp", "ranks": [0, 1, 2, 3]}]
    assert {"unit", "pass", "gather_s", "hidden_s", "blocked_s"} <= set(doc["units"][0])
    assert doc["gaps"] == [{"what": "shapes", "ranks": [0, 1, 2], "why": "record_shapes was off"}]


def test_seconds_sum_to_the_step() -> None:
    for s in as_json.breakdown(job())["steps"]:
        assert abs(sum(s["parts"].values()) - s["duration_s"]) < 1e-9
        assert sum(s["parts_ns"].values()) == s["duration_ns"]
    odd = step(0, 0, **{part: 0.000001 * (i * 7919 + 1) for i, part in enumerate(PARTS)})
    (s,) = as_json.breakdown(Breakdown((odd,), ()))["steps"]
    assert abs(sum(s["parts"].values()) - s["duration_s"]) < 1e-9


def test_unknown_is_null_never_zero() -> None:
    unknown = step(0, 0, forward=10)
    unknown.parts_ns["checkpoint"] = None  # type: ignore[assignment]
    collective = Collective(0, None, None, "all_reduce", None, 2, None, None, None, None, None)
    doc = json.loads(as_json.encode(as_json.breakdown(Breakdown((unknown,), (), collectives=(collective,)))))
    assert doc["steps"][0]["parts"]["checkpoint"] is None
    assert doc["steps"][0]["parts_ns"]["checkpoint"] is None
    assert [k for k, v in doc["collectives"][0].items() if v is not None] == ["id", "op", "n_ranks"]


def test_import_has_the_keys_of_the_contract() -> None:
    doc = json.loads(as_json.encode(as_json.imported(info(), "fri.run")))
    assert doc["schema"] == "import/1"
    assert doc["ranks"] == [0, 1, 2, 3]
    assert doc["missing_ranks"] == [4]
    assert doc["steps"] == [0, 1, 2]
    assert (doc["events"], doc["repaired"], doc["dropped"], doc["clipped"]) == (48_006, 2, 0, 0)
    assert doc["clock"] == {"residual_s": 12e-6, "aligned": True}
    assert doc["gaps"] == [{"what": "rank", "ranks": [4], "why": "no file names it"}]
    assert doc["rank_details"][1]["identified_by"] == "distributed_info"


def test_show_adds_what_the_run_holds() -> None:
    doc = as_json.shown(Contents(info(), (OperationCount("all_reduce", 8, None, 4),)))
    assert doc["schema"] == "show/1"
    assert doc["collectives"] == [{"op": "all_reduce", "calls": 8, "bytes": None, "ranks": 4}]
    assert doc["world_size"] == 5
    json.loads(as_json.encode(doc))


def test_doctor_has_the_keys_of_the_contract() -> None:
    doc = as_json.doctor(examination())
    assert doc == {
        "schema": "doctor/1",
        "can": ["where each rank's step went"],
        "cannot": [
            {"question": "who came last", "missing": "sequence numbers", "how_to_record": "record with torch 2.4 or newer"},
        ],
    }


def test_indented_for_people_compact_for_programs() -> None:
    assert as_json.encode({"a": [1]}) == '{"a":[1]}\n'
    assert as_json.encode({"a": [1]}, indent=True) == '{\n  "a": [\n    1\n  ]\n}\n'


def test_not_a_number_is_null() -> None:
    assert as_json.encode({"a": float("nan"), "b": float("inf")}) == '{"a":null,"b":null}\n'


def test_csv_has_a_row_per_rank_and_step_in_seconds() -> None:
    one = step(3, 7, forward=1500, idle=0.5, naive=2 * MS)
    one.parts_ns["checkpoint"] = None  # type: ignore[assignment]
    head, row = csv.breakdown(Breakdown((one,), ())).splitlines()
    assert head.startswith("rank,step,complete,duration_s,naive_s,input_wait_s,forward_s,")
    cells = dict(zip(head.split(","), row.split(","), strict=True))
    assert cells["rank"] == "3"
    assert cells["duration_s"] == "1.5005"
    assert cells["forward_s"] == "1.5"
    assert cells["checkpoint_s"] == ""
    assert cells["complete"] == "true"
