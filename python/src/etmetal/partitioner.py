"""Which parts of a program go to the Metal delegate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, final

import torch
from executorch.backends.aoti.aoti_partitioner import AotiPartitioner
from executorch.exir._warnings import experimental
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import PartitionResult
from torch.export.exported_program import ExportedProgram

from etmetal.backend import MetalBackend
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
