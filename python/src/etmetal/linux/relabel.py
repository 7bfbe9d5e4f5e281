"""Tensors that claim to be on ``mps:0`` while their bytes stay where they are, in CPU memory.

A tensor's device is part of its DLPack description, and torch takes a tensor from such a
description: changing the device in it is all there is to it.
"""

from __future__ import annotations

import ctypes

import torch
from torch._subclasses import FakeTensor

MPS = torch.device("mps:0")

_DL_CPU = 1
_DL_METAL = 8


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    """The head of DLPack's ``DLTensor``."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def to_mps(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` as if it were on ``mps:0``; it shares the memory of a contiguous ``tensor``."""
    if tensor.device.type == "mps":
        return tensor
    if isinstance(tensor, FakeTensor):
        return tensor.to(MPS)
    source = tensor.detach()
    if not source.is_contiguous():
        # As a real copy to the device would: dense strides stay, gaps go.
        source = source.clone()
    return _relabelled(source, _DL_METAL)


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """What :func:`to_mps` made of a tensor, back on the CPU; shares its memory."""
    if tensor.device.type != "mps" or isinstance(tensor, FakeTensor):
        return tensor
    return _relabelled(tensor.detach(), _DL_CPU)


def _relabelled(source: torch.Tensor, device_type: int) -> torch.Tensor:
    capsule = torch._C._to_dlpack(source)
    description = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    description.device = _Device(device_type, 0)
    for index, stride in enumerate(source.stride()):
        # DLPack's export puts 1 where a dimension has one element; torch's own strides stay.
        description.strides[index] = stride
    return torch._C._from_dlpack(capsule)
