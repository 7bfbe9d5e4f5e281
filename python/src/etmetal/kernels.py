"""The operators that have no generated kernel: which ones a runtime has, which ones a model wants.

Inductor generates a kernel for most operators. For the others its code calls a function of the
C ABI, and a model can only be loaded where that function exists.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.codegen.wrapper import (
    ExternKernelAllocLine,
    ExternKernelMultiOutLine,
    ExternKernelOutLine,
)

from etmetal.errors import EtmetalError
from etmetal.replaced import replaced

_FUNCTIONS = (
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_attention_math_for_mps_v2",
    *(f"_linear_fp_act_{bits}bit_weight" for bits in range(1, 8)),
    "addmm_out",
    "bmm_out",
    "convolution",
    "cumprod",
    "cumsum",
    "gated_delta_rule",
    "gather_qmv",
    "mm_out",
    "sort",
    "sort_stable",
    "topk",
)

#: Inductor knows an operator by its C function or by its registered name.
SUPPORTED: dict[str, None] = dict.fromkeys(
    [f"aoti_torch_mps_{name}" for name in _FUNCTIONS]
    + [f"at::_ops::{name}::call" for name in _FUNCTIONS]
    + [f"torchao::_linear_fp_act_{bits}bit_weight" for bits in range(1, 8)]
    + ["metal::gated_delta_rule", "metal::gather_qmv"]
)


@dataclasses.dataclass(frozen=True)
class MissingKernel:
    """An operator in a model that the runtime has no kernel for."""

    #: Inductor's name of it.
    kernel: str
    #: The ATen operators that it comes from, as ``aten.kthvalue.default``.
    operators: tuple[str, ...]
    #: Where the model calls it, as ``model.py:12, in forward: x.kthvalue(2)``; ``""``: unknown.
    source: str

    def __str__(self) -> str:
        operators = ", ".join(self.operators) or self.kernel
        where = f"\n      at {self.source}" if self.source else ""
        return f"{operators} (as {self.kernel}){where}"


class MissingKernelsError(EtmetalError):
    """A model has operators that the runtime has no kernels for."""

    def __init__(self, method: str, missing: Sequence[MissingKernel]) -> None:
        self.method = method
        self.missing = tuple(missing)
        lines = "".join(f"\n  - {kernel}" for kernel in self.missing)
        super().__init__(
            f"method `{method}`: no kernel for {len(self.missing)} "
            f"operator{'s' if len(self.missing) != 1 else ''} of the model:{lines}\n"
            "What to do: write the model without them."
        )


@contextlib.contextmanager
def collected() -> Iterator[list[MissingKernel]]:
    """Collects what code that Inductor generates inside wants and the runtime has not."""
    found: dict[MissingKernel, None] = {}
    result: list[MissingKernel] = []
    nodes: list[torch.fx.Node] = []
    shim_call = CppWrapperCpu.generate_c_shim_extern_kernel_call
    lookup_call = CppWrapperCpu.generate_fallback_kernel_with_runtime_lookup_aot

    def note(kernel: str) -> None:
        if kernel not in SUPPORTED:
            operators = sorted({str(node.target) for node in nodes})
            found[MissingKernel(kernel, tuple(operators), _source(nodes))] = None

    def noting(codegen: Any) -> Any:
        """A call is written when its line is, long after the scheduler came by."""

        def on_line(self: Any, code: Any) -> None:
            nodes[:] = _origins(self.node)
            try:
                codegen(self, code)
            finally:
                nodes.clear()

        return on_line

    def on_shim_call(self: CppWrapperCpu, kernel: str, *args: Any, **kwargs: Any) -> None:
        note(kernel)
        shim_call(self, kernel, *args, **kwargs)

    def on_lookup_call(self: CppWrapperCpu, op_overload: Any, *args: Any, **kwargs: Any) -> None:
        note(getattr(op_overload, "_name", str(op_overload)))
        lookup_call(self, op_overload, *args, **kwargs)

    calls = {
        "generate_c_shim_extern_kernel_call": on_shim_call,
        "generate_fallback_kernel_with_runtime_lookup_aot": on_lookup_call,
    }
    with contextlib.ExitStack() as undo:
        for line in (ExternKernelAllocLine, ExternKernelOutLine, ExternKernelMultiOutLine):
            undo.enter_context(replaced(line, "codegen", noting(line.codegen)))
        for name, call in calls.items():
            undo.enter_context(replaced(CppWrapperCpu, name, call))
        yield result
    result.extend(found)


def _origins(node: Any) -> list[torch.fx.Node]:
    """The nodes of the model that an extern call stands for."""
    origin = getattr(node, "origin_node", None)
    origins = [origin] if origin is not None else list(getattr(node, "origins", ()))
    return [node for node in origins if node.op == "call_function"]


def _source(nodes: Sequence[torch.fx.Node]) -> str:
    """The innermost line of the model that made ``nodes``."""
    for node in nodes:
        lines = str(node.meta.get("stack_trace") or "").strip().splitlines()
        for index in range(len(lines) - 1, -1, -1):
            head = lines[index].strip()
            if head.startswith('File "'):
                path, _, rest = head[len('File "') :].partition('", line ')
                line, _, function = rest.partition(", ")
                code = lines[index + 1].strip() if index + 1 < len(lines) else ""
                return f"{path}:{line}, {function}" + (f": {code}" if code else "")
    return ""
