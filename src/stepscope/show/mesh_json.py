"""mesh/1: axes with their groups and what they exchange, and the seat of every rank. A null is unknown."""

from __future__ import annotations

from stepscope.model.exchange import MeshView
from stepscope.model.table import Column, Table
from stepscope.show import csv
from stepscope.show.json import Document

COLUMNS = ("rank", "node", "gpu", "nic", "rail")


def document(view: MeshView) -> Document:
    """The whole mesh."""
    return {
        "schema": "mesh/1",
        "title": view.title,
        "origin": view.origin,
        "axes": [
            {
                "axis": axis.axis,
                "size": axis.size,
                "groups": [list(group) for group in axis.groups],
                "op": axis.op,
                "holds": axis.holds,
                "bytes_per_step": axis.bytes_per_step,
                "when": axis.when,
                "hidden": axis.hidden,
                "links": list(axis.links),
            }
            for axis in view.axes
        ],
        "ranks": [
            {
                "rank": seat.rank,
                "coordinates": dict(seat.coordinates),
                "node": seat.node,
                "gpu": seat.gpu,
                "nic": seat.nic,
                "rail": seat.rail,
            }
            for seat in view.seats
        ],
        "replicas": [list(ranks) for ranks in view.replicas],
        "warnings": list(view.warnings),
        "notes": list(view.notes),
    }


def rows(view: MeshView) -> str:
    """CSV: a row per rank with its coordinates and seat."""
    names = list(dict.fromkeys(name for seat in view.seats for name in seat.coordinates))
    cells = tuple(
        (seat.rank, *(seat.coordinates.get(name) for name in names), seat.node, seat.gpu, seat.nic, seat.rail)
        for seat in view.seats
    )
    return csv.table(Table("", tuple(Column(name) for name in ("rank", *names, *COLUMNS[1:])), cells))
