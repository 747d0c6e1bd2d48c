"""What does one rank's micro-batch ask of the kernels: shapes, tokens, and how precision and parallel axes cut them?

Tensor parallelism of degree `tp` comes with sequence parallelism: what lies between the sharded products works on tokens / tp.
Context parallelism of degree `cp` gives a rank seq / cp tokens, each attending to the whole sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.catalog.stack import Stack
from stepscope.model.errors import UsageMistake
from stepscope.model.shape import Shape

_WIDTHS = {"fp32": 4, "tf32": 4}
_FP8 = ("fp8", "fp8-rowwise")


@dataclass(frozen=True, slots=True)
class Work:
    """One micro-batch of `batch` sequences of `seq` tokens on one rank."""

    shape: Shape
    stack: Stack
    arch: str
    batch: int
    seq: int
    tp: int = 1
    cp: int = 1
    precision: str = "bf16"

    def __post_init__(self) -> None:
        shape, tp = self.shape, self.tp
        for noun, size in (("heads", shape.heads), ("ffn", shape.ffn)):
            if size % tp:
                raise UsageMistake(f"tp={tp}: {noun} {size} do not divide by it; take a divisor of {size}")

    @property
    def tokens(self) -> int:
        """Tokens of the micro-batch on this rank, before tensor parallelism cuts them."""
        return self.batch * self.seq // self.cp

    @property
    def width(self) -> int:
        """Bytes of an activation."""
        return _WIDTHS.get(self.precision, 2)

    @property
    def linear(self) -> str:
        """Precision of the layers' products."""
        return self.precision

    @property
    def plain(self) -> str:
        """Precision of attention and the output product, which fp8 leaves alone."""
        return "bf16" if self.fp8 else self.precision

    @property
    def fp8(self) -> bool:
        """Whether the layers' products run in fp8."""
        return self.precision in _FP8

    @property
    def query(self) -> int:
        """Width of this rank's query heads."""
        return self.shape.heads * self.shape.head_dim // self.tp

    @property
    def key(self) -> int:
        """Width of this rank's key heads; where there are fewer than ranks, each keeps a whole one."""
        return max(self.shape.kv_heads // self.tp, 1) * self.shape.head_dim

    @property
    def ffn(self) -> int:
        """This rank's share of the MLP's width."""
        return self.shape.ffn // self.tp

    @property
    def vocab(self) -> int:
        """This rank's share of the vocabulary, padded to a whole number."""
        return -(-self.shape.vocab // self.tp)

    @property
    def scores(self) -> int:
        """Query-key pairs of this rank over its heads, the masked half included."""
        return self.tokens * self.seq * self.shape.heads // self.tp

    @property
    def attention_flops(self) -> int:
        """Of the two products of attention forward, of the pairs that the causal mask leaves (half of them)."""
        return 2 * self.scores * self.shape.head_dim

    def moved(self, per_element: float) -> float:
        """Bytes of an element for which the stack says so many at 2 bytes."""
        return per_element * self.width / 2
