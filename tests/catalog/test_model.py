"""Models: parameters that follow from shapes, against what their authors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.catalog.model import load_model, model_names
from stepscope.model.errors import BadInput, UsageMistake

SHAPE = """
name = "mine"
title = "Mine"
family = "llama"
[shape]
layers = 2
hidden = 64
heads = 4
kv_heads = 2
ffn = 128
vocab = 100
context = 32
tied_embeddings = false
activation = "swiglu"
norm = "rmsnorm"
attention = "gqa"
positions = "rope"
"""


@pytest.mark.parametrize("name", model_names())
def test_parameters_are_as_published(name: str) -> None:
    model = load_model(name)

    assert model.published is not None
    assert abs(model.parameters / model.published.count - 1) < 0.01


@pytest.mark.parametrize(
    ("name", "context", "count"),  # llm-foundry's tables, counted by its own code
    [
        ("mpt-125m", 512, 124131840),
        ("mpt-125m", 32768, 148904448),
        ("mpt-1b", 65536, 1445974016),
        ("mpt-7b", 8192, 6684024832),
        ("mpt-13b", 16384, 12927354880),
        ("mpt-30b", 4096, 29989894144),
    ],
)
def test_learned_positions_grow_with_the_context(name: str, context: int, count: int) -> None:
    shape = load_model(name).shape

    assert shape is not None
    assert shape.parameters(context) == count


def test_the_pieces_of_a_model_add_up() -> None:
    shape = load_model("llama3-8b").shape

    assert shape is not None
    assert shape.head_dim == 128
    assert shape.layer_matmul_parameters() == 4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336
    assert shape.layer_parameters() == shape.layer_matmul_parameters() + 2 * 4096
    assert shape.head_parameters() == shape.embedding_parameters() == 128256 * 4096
    assert shape.parameters() == 32 * shape.layer_parameters() + 2 * 128256 * 4096 + 4096
    assert shape.matmul_parameters() == shape.parameters() - 128256 * 4096 - 65 * 4096


def test_a_tied_head_is_counted_once_and_multiplied_with_all_the_same() -> None:
    shape = load_model("llama3.2-1b").shape

    assert shape is not None
    assert shape.head_parameters() == 0
    assert shape.matmul_parameters() == 16 * shape.layer_matmul_parameters() + 128256 * 2048


def test_a_model_without_shapes() -> None:
    model = load_model("illustrative-3b")

    assert (model.shape, model.parameters) == (None, 3_000_000_000)


def test_a_users_own_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SHAPE)

    assert load_model(path).parameters == 2 * (64 * (2 * 64 + 2 * 32) + 3 * 64 * 128 + 2 * 64) + 2 * 6400 + 64
    assert load_model(str(path)) == load_model(path)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("kv_heads = 2", "kv_heads = 3", "shape.kv_heads: 4 heads do not divide among 3; give a divisor of heads"),
        ("hidden = 64", "hidden = 66", "shape.heads: 66 is not a multiple of 4; mend hidden or heads, or give head_dim_given"),
        ('"gqa"', '"mha"', "shape.attention: 2 KV heads for 4 heads are gqa, not mha; mend one of them"),
        ("layers = 2", "layers = 0", "shape.layers: expected int >= 1; mend that value"),
        ("layers = 2", 'layers = "2"', "shape.layers: expected int, got str; mend that value"),
        ("layers = 2\n", "", "shape.layers: missing; add it"),
        ("ffn = 128", "fnn = 128", "shape.fnn: no such key; rename it to ffn (known here: "),
        (SHAPE[SHAPE.index("[shape]") :], "", "neither shape nor published; give the shapes, or published.count"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, old: str, new: str, line: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SHAPE.replace(old, new))

    with pytest.raises(BadInput) as caught:
        load_model(path)

    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)


def test_a_name_that_is_almost_one() -> None:
    with pytest.raises(UsageMistake, match=r"^llama3-9b: no such model; did you mean llama3-8b\? known: gpt-1\.3b, "):
        load_model("llama3-9b")
