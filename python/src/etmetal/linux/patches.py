"""What torch has to be taught on Linux to compile for ``mps``: one function a lesson.

Each takes the stack that undoes it. :func:`etmetal.linux.exporting` applies them all and undoes
them in the opposite order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
import torch._tensor_str
import torch.backends.mps
import torch.mps
from torch._inductor.codegen.mps import MetalKernel
from torch._inductor.utils import get_gpu_type
from torch._prims_common import suggest_memory_format
from torch.utils._ordered_set import OrderedSet
from torch.utils._pytree import tree_map, tree_map_only

from etmetal.linux import guard
from etmetal.linux.relabel import to_cpu, to_mps
from etmetal.replaced import replaced

Patch = Callable[[ExitStack], None]

#: GPU cores that Inductor assumes when it splits reductions: those of the smallest M-series chip
#: with a full GPU. Kernels are right on any number.
CORE_COUNT = 10


def _library(undo: ExitStack, namespace: str) -> torch.library.Library:
    """A library whose registrations end with ``undo``."""
    library = torch.library.Library(namespace, "IMPL")
    undo.callback(library._destroy)
    return library


def device_guard(undo: ExitStack) -> None:
    """``torch.device("mps")`` is a device that tensors can be on.

    The only native code: see ``guard.cpp``.
    """
    library = guard.load()
    if library.etmetal_guard_install() == 0:
        undo.callback(library.etmetal_guard_remove)


def eager_on_cpu(undo: ExitStack) -> None:
    """An operator that is really run on an ``mps`` tensor runs on the CPU.

    Inductor reads small constants with ``item()`` and ``tolist()``, and folds constants.
    """
    _library(undo, "_").fallback(_on_cpu, "MPS")
    aten = _library(undo, "aten")
    # These have an implementation on every device, which the fallback would not replace.
    for name in ("_to_copy", "copy_", "clone"):
        operator = getattr(torch.ops.aten, name).default
        aten.impl(name, functools.partial(_on_cpu, operator), "MPS")


def _on_cpu(operator: Any, *args: Any, **kwargs: Any) -> Any:
    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return to_cpu(value)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    values = [*args, *kwargs.values()]
    to_the_cpu = any(isinstance(v, torch.device) and v.type == "cpu" for v in values)
    result = operator(*tree_map(moved, args), **tree_map(moved, kwargs))
    return result if to_the_cpu else tree_map_only(torch.Tensor, to_mps, result)


def storage_to_cpu(undo: ExitStack) -> None:
    """The bytes of an ``mps`` tensor can be read: Inductor serialises weights so."""
    original = torch.UntypedStorage.cpu

    def cpu(self: torch.UntypedStorage) -> torch.UntypedStorage:
        if self.device.type != "mps":
            return original(self)
        storage = torch._C._construct_storage_from_data_pointer(
            self.data_ptr(), torch.device("cpu"), self.nbytes()
        )
        storage._owner = self  # The bytes live as long as their owner.
        return storage

    # The class inherits its method: there is nothing of its own to put back.
    torch.UntypedStorage.cpu = cpu  # type: ignore[method-assign]
    undo.callback(delattr, torch.UntypedStorage, "cpu")


def tensor_text(undo: ExitStack) -> None:
    """``repr()`` of an ``mps`` tensor works: Inductor writes small constants into its texts."""
    original = torch._tensor_str._str

    def text(self: torch.Tensor, *, tensor_contents: str | None = None) -> str:
        return original(to_cpu(self), tensor_contents=tensor_contents)

    undo.enter_context(replaced(torch._tensor_str, "_str", text))


def gpu_core_count(undo: ExitStack) -> None:
    """Inductor's heuristic for splitting reductions asks for the number of GPU cores."""
    undo.enter_context(replaced(torch.backends.mps, "get_core_count", lambda: CORE_COUNT))


def gpu_is_mps(undo: ExitStack) -> None:
    """Inductor's one GPU is ``mps``, also where torch has CUDA."""
    undo.callback(get_gpu_type.cache_clear)
    undo.enter_context(replaced(torch.mps, "is_available", lambda: True))
    undo.enter_context(replaced(torch.cuda, "is_available", lambda: False))
    get_gpu_type.cache_clear()


def attention(undo: ExitStack) -> None:
    """Attention becomes the one operator that it is on a Mac.

    There the composite operator hands ``mps`` tensors to
    ``_scaled_dot_product_attention_math_for_mps``; a Linux build ends in an error instead.
    """
    aten = _library(undo, "aten")
    for key in ("MPS", "AutogradMPS"):
        aten.impl("scaled_dot_product_attention", _attention, key)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        shown = torch.zeros((), dtype=query.dtype, device=query.device)
        hidden = torch.full((), float("-inf"), dtype=query.dtype, device=query.device)
        attn_mask = torch.where(attn_mask, shown, hidden)
    return torch.ops.aten._scaled_dot_product_attention_math_for_mps.default(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        None,
        scale=scale,
        enable_gqa=enable_gqa,
    )[0]


def convolution_layout(undo: ExitStack) -> None:
    """A convolution's result is channels-last where it is on a Mac.

    Inductor bakes the strides of the result into the kernels that read it. A Mac's backend gives
    channels-last if the input or the weight is; the one that Linux would choose never does.
    """
    original = torch._C._conv_determine_backend_memory_format
    last = (torch.channels_last, torch.channels_last_3d)

    def memory_format(input: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        if input.device.type != "mps":
            return original(input, weight, backend)
        formats = {suggest_memory_format(input), suggest_memory_format(weight)}
        if weight.dim() not in (4, 5) or formats.isdisjoint(last):
            return torch.contiguous_format
        return torch.channels_last_3d if weight.dim() == 5 else torch.channels_last

    undo.enter_context(replaced(torch._C, "_conv_determine_backend_memory_format", memory_format))


#: In the order of application.
LINUX: tuple[Patch, ...] = (
    device_guard,
    eager_on_cpu,
    storage_to_cpu,
    tensor_text,
    gpu_core_count,
    gpu_is_mps,
    attention,
    convolution_layout,
)


def kernel_headers(undo: ExitStack) -> None:
    """Each kernel names the headers that it needs, and no others; also on a Mac.

    The set is an attribute of the class: what one kernel adds shows in all later ones of the
    process, and the same model exports differently after another one.
    """
    original = MetalKernel.__init__

    def initialise(self: MetalKernel, *args: Any, **kwargs: Any) -> None:
        self.headers = OrderedSet(["utils"])
        original(self, *args, **kwargs)

    undo.enter_context(replaced(MetalKernel, "__init__", initialise))


#: Needed everywhere.
EVERYWHERE: tuple[Patch, ...] = (kernel_headers,)
