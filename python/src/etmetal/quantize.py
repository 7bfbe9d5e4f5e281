"""Weights of 1 to 7 bits: torchao's operators for Metal, declared where torchao has them not."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from etmetal.errors import EtmetalError

BITS = range(1, 8)
GROUP_SIZES = (32, 64, 128, 256)


@functools.cache
def declare_operators() -> None:
    """Makes ``torchao.experimental.ops.mps`` importable on Linux.

    On a Mac a library in torchao's wheel registers these operators. Elsewhere they are declared
    here, for tracing and with reference code for the CPU. They stay for the life of the process.
    """
    if sys.platform == "darwin":
        return
    library = torch.library.Library("torchao", "FRAGMENT")
    for bits in BITS:
        linear = f"_linear_fp_act_{bits}bit_weight"
        pack = f"_pack_weight_{bits}bit"
        library.define(
            f"{linear}(Tensor A, Tensor B, int group_size, Tensor S, Tensor Z) -> Tensor"
        )
        library.define(f"{pack}(Tensor W) -> Tensor")
        library.impl(linear, functools.partial(_linear, bits), "CPU")
        library.impl(pack, functools.partial(_pack, bits), "CPU")
    _kept.append(library)


#: A library's registrations end with it.
_kept: list[torch.library.Library] = []


def _pack(bits: int, weights: torch.Tensor) -> torch.Tensor:
    """Rows of weights below ``2**bits``, one after the other from the lowest bit on."""
    rows, columns = weights.shape
    if columns * bits % 8:
        raise EtmetalError(f"rows of {columns} weights of {bits} bits do not fill whole bytes")
    places = torch.arange(bits, dtype=torch.uint8)
    single = (weights.to(torch.uint8).unsqueeze(-1) >> places) & 1
    octets = single.reshape(rows, columns * bits // 8, 8)
    return (octets << torch.arange(8, dtype=torch.uint8)).sum(-1).to(torch.uint8)


def _unpack(bits: int, packed: torch.Tensor) -> torch.Tensor:
    """What :func:`_pack` packed."""
    single = (packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1
    weights = single.reshape(packed.shape[0], -1, bits)
    return (weights << torch.arange(bits, dtype=torch.uint8)).sum(-1).to(torch.uint8)


def _linear(
    bits: int,
    activations: torch.Tensor,
    packed: torch.Tensor,
    group_size: int,
    scales: torch.Tensor,
    zeros: torch.Tensor,
) -> torch.Tensor:
    """The reference: ``activations @ (weights * scale + zero).T``, in float32."""
    weights = _unpack(bits, packed).float()
    scale, zero = (t.float().repeat_interleave(group_size, 1) for t in (scales, zeros))
    product = activations.float() @ (weights * scale + zero).T
    return product.to(activations.dtype)


def c_shims() -> dict[Any, list[str]]:
    """The C functions of operators that torch itself does not know."""
    declare_operators()
    import torchao.experimental.ops.mps  # noqa: F401  (registers the operators' meta kernels)
    from executorch.backends.apple.metal.ops.gated_delta_rule import metal_gated_delta_rule_c_shim
    from executorch.backends.apple.metal.ops.gather_qmv import metal_gather_qmv_c_shim
    from torchao.experimental.ops.mps.cshim import torchao_op_c_shim

    return {**torchao_op_c_shim, **metal_gather_qmv_c_shim, **metal_gated_delta_rule_c_shim}


def quantize(model: torch.nn.Module, bits: int = 4, group_size: int = 32) -> list[str]:
    """Quantises the weights of ``model``'s linear layers in place; gives back their names.

    Layers whose rows cannot be split into groups of ``group_size`` stay as they are.

    Raises:
        EtmetalError: No layer can be quantised.

    """
    declare_operators()
    import torchao.experimental.ops.mps  # noqa: F401
    from torchao.experimental.quant_api import UIntxWeightOnlyConfig
    from torchao.quantization.quant_api import quantize_

    chosen: list[str] = []

    def wanted(module: torch.nn.Module, name: str) -> bool:
        fits = isinstance(module, torch.nn.Linear) and module.weight.shape[1] % group_size == 0
        if fits:
            chosen.append(name)
        return fits

    quantize_(model, UIntxWeightOnlyConfig(bitwidth=bits, group_size=group_size), wanted)
    if not chosen:
        raise EtmetalError(
            f"quantize: the model has no linear layer whose rows are groups of {group_size} weights"
        )
    return chosen
