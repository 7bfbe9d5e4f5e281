"""Running an exported program on the host device, beside the model itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

from etmetal import runtime

#: The largest difference from the model's own results that counts as right, relative to the
#: largest element of the result: sums are taken in another order.
TOLERANCES = {
    torch.float64: 1e-4,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 3e-2,
}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One output beside what it should be."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    #: The largest difference of an element; NaN and infinities are equal to themselves alone.
    error: float
    #: The same, in relation to the largest element expected.
    relative: float

    @property
    def right(self) -> bool:
        """Whether the difference is within :data:`TOLERANCES`; integers have to be equal."""
        return self.relative <= TOLERANCES.get(self.dtype, 0.0)

    def __str__(self) -> str:
        name = str(self.dtype).removeprefix("torch.")
        verdict = "ok" if self.right else "WRONG"
        return (
            f"{name} {list(self.shape)}  max error {self.error:.2e} "
            f"(relative {self.relative:.2e})  {verdict}"
        )


def run(path: Path, data: Sequence[Path], inputs: Sequence[Any], method: str) -> list[Any]:
    """Runs ``method`` of the program at ``path`` on the host device; tensors in, tensors out."""
    given = [_to_array(value) for value in pytree.tree_leaves(tuple(inputs))]
    results = runtime.run(path, *given, method=method, data=data)
    return [torch.as_tensor(value) for value in results]


def _to_array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def compare(expected: Any, results: Sequence[torch.Tensor]) -> list[Comparison]:
    """Compares what came out with ``expected``, the model's own result.

    Raises:
        ValueError: The number of outputs or a shape differs.

    """
    leaves = [torch.as_tensor(value) for value in pytree.tree_leaves(expected)]
    if len(leaves) != len(results):
        raise ValueError(f"{len(results)} outputs came out, {len(leaves)} are expected")
    return [_compare(leaf, result) for leaf, result in zip(leaves, results, strict=True)]


def _compare(expected: torch.Tensor, result: torch.Tensor) -> Comparison:
    if expected.shape != result.shape:
        raise ValueError(f"an output is {list(result.shape)}, expected is {list(expected.shape)}")
    wanted, got = expected.double(), result.double()
    same = (wanted == got) | (wanted.isnan() & got.isnan())
    difference = torch.where(same, 0.0, (wanted - got).abs()).nan_to_num(math.inf, math.inf)
    error = difference.max().item() if difference.numel() else 0.0
    finite = wanted[wanted.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 0.0
    relative = error / scale if scale > 0 else error
    return Comparison(expected.dtype, tuple(expected.shape), error, relative)
