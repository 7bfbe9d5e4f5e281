"""Which parts of a program go to the Metal delegate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, final

import torch
from executorch.backends.aoti import aoti_partitioner
from executorch.backends.aoti.aoti_partitioner import AotiPartitioner
from executorch.exir._warnings import experimental
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import PartitionResult
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export.exported_program import ExportedProgram

from etmetal.backend import MetalBackend
from etmetal.kernels import MissingKernelsError
from etmetal.replaced import replaced
from etmetal.specs import EXTERNAL_WEIGHTS, TARGET, spec
from etmetal.targets import Target

Fallback = Literal["error", "portable"]


@final
@experimental("The Metal backend is experimental.")
class MetalPartitioner(AotiPartitioner):
    """Gives everything that is not taken yet to :class:`MetalBackend`.

    Args:
        compile_spec: As ``MetalBackend.generate_method_name_compile_spec`` makes them.
        target: Where the model is to run; ``None``: this machine.
        external_weights: Whether the weights go into a ``.ptd`` file, or the name of that file
            without ``.ptd``.
        fallback: What becomes of operators without a kernel: ``"error"`` refuses the model,
            ``"portable"`` leaves them to ExecuTorch's own kernels.

    """

    def __init__(
        self,
        compile_spec: Sequence[CompileSpec],
        *,
        target: Target | str | None = None,
        external_weights: bool | str = False,
        fallback: Fallback = "error",
    ) -> None:
        specs = list(compile_spec)
        if target is not None:
            name = target.value if isinstance(target, Target) else Target.named(target).value
            specs.append(spec(TARGET, name))
        if external_weights:
            name = external_weights if isinstance(external_weights, str) else "aoti_metal_blob"
            specs.append(spec(EXTERNAL_WEIGHTS, name))
        if fallback not in ("error", "portable"):
            raise ValueError(f'fallback={fallback!r}: "error" or "portable" is meant')
        super().__init__(MetalBackend.__name__, specs)
        self.fallback = fallback

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags what goes to the delegate: one part, or several around what is left out."""
        left_out = self._unsupported(exported_program)
        if not left_out:
            return super().partition(exported_program)
        non_lowered = aoti_partitioner.get_non_lowered_nodes

        def kept(graph: torch.fx.Graph) -> list[torch.fx.Node]:
            return [node for node in non_lowered(graph) if _name(node) not in left_out]

        with replaced(aoti_partitioner, "get_non_lowered_nodes", kept):
            return super().partition(exported_program)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """All: Inductor decomposes itself. But for those that it has no kernel for, which
        ExecuTorch may decompose into some that have one.
        """
        kept, check = super().ops_to_not_decompose(ep)
        if any(node.target is executorch_call_delegate for node in ep.graph.nodes):
            # Asked again after the parts were compiled: what is left is not ours.
            return [], check
        left_out = self._unsupported(ep, composites=True)
        return [operator for operator in kept if str(operator) not in left_out], check

    def _unsupported(self, program: ExportedProgram, composites: bool = False) -> set[str]:
        """The operators of ``program`` to leave to ExecuTorch; with ``composites`` also those
        that are made of such.
        """
        if self.fallback == "error":
            return set()
        specs = self.delegation_spec.compile_specs
        missing = MetalBackend.missing_kernels(program, specs)
        names = {_name(node) for node in program.graph.nodes}
        left_out = {name for kernel in missing for name in kernel.operators}
        for kernel in missing if not composites else ():
            if names.isdisjoint(kernel.operators):
                # Inductor makes it of something that has another name: nothing to leave out.
                raise MissingKernelsError(
                    MetalBackend.method_name_from_compile_specs(specs), [kernel]
                )
        if composites and left_out:
            nodes = [node for node in program.graph.nodes if _is_composite(node)]
            left_out.update(_name(node) for node in nodes)
        return left_out


def _is_composite(node: torch.fx.Node) -> bool:
    """Whether a node's operator is defined by others."""
    operator = node.target
    return isinstance(operator, torch._ops.OpOverload) and operator.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CompositeImplicitAutograd
    )


def _name(node: torch.fx.Node) -> str:
    """A node's operator as ``aten.cdist.default``, of the edge dialect or not."""
    operator = node.target
    return str(operator._op if isinstance(operator, EdgeOpOverload) else operator)
