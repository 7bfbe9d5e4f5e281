"""Finding libetmetal, and running models with it: needs numpy, but neither torch nor executorch."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from etmetal.errors import EtmetalError

_NAME = "libetmetal.dylib" if sys.platform == "darwin" else "libetmetal.so"

#: Kinds of values in the C API.
_NONE, _TENSOR, _INT, _DOUBLE, _BOOL = range(5)

#: c10::ScalarType of numpy's types.
_DTYPES = {
    0: np.dtype(np.uint8),
    1: np.dtype(np.int8),
    2: np.dtype(np.int16),
    3: np.dtype(np.int32),
    4: np.dtype(np.int64),
    5: np.dtype(np.float16),
    6: np.dtype(np.float32),
    7: np.dtype(np.float64),
    11: np.dtype(np.bool_),
    27: np.dtype(np.uint16),
    28: np.dtype(np.uint32),
    29: np.dtype(np.uint64),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
#: numpy has no such type.
_BFLOAT16 = 15


class RunError(EtmetalError):
    """A model cannot be loaded or run; the text is the runtime's."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a method takes or gives at one place."""

    #: ``tensor``, ``int``, ``float``, ``bool``, ``None`` or ``other``.
    kind: str
    #: Of a tensor: as numpy calls it, or ``bfloat16``.
    dtype: str | None = None
    #: Of a tensor: its sizes, or their upper bounds where they vary.
    shape: tuple[int, ...] = ()


class _Value(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("dim", ctypes.c_size_t),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("data", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
    ]


class _ValueInfo(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("dim", ctypes.c_size_t),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("nbytes", ctypes.c_size_t),
        ("shape_dynamism", ctypes.c_int32),
    ]


class _MethodInfo(ctypes.Structure):
    _fields_ = [
        ("num_inputs", ctypes.c_size_t),
        ("inputs", ctypes.POINTER(_ValueInfo)),
        ("num_outputs", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(_ValueInfo)),
        ("num_backends", ctypes.c_size_t),
        ("backends", ctypes.POINTER(ctypes.c_char_p)),
    ]


def library() -> Path:
    """Where libetmetal is: what ``ETMETAL_LIB`` names, else in this package, else what
    ``cargo xtask build`` made in the working copy that this package lies in.

    Raises:
        EtmetalError: It is in none of these places.

    """
    named = os.environ.get("ETMETAL_LIB")
    if named:
        if not Path(named).is_file():
            raise EtmetalError(f"ETMETAL_LIB={named}: there is no such file")
        return Path(named)
    here = Path(__file__).resolve()
    staged = (
        [*here.parents[3].glob(f"target/stage/metal/*/lib/{_NAME}")]
        if len(here.parents) > 3
        else []
    )
    for path in (here.parent / "lib" / _NAME, *staged):
        if path.is_file():
            return path
    raise EtmetalError(
        f"{_NAME} was not found: build it with `cargo xtask build`, or name it with ETMETAL_LIB"
    )


@functools.cache
def _api(path: Path) -> ctypes.CDLL:
    try:
        # Never RTLD_GLOBAL: torch may be in the process, whose functions have the same names.
        api = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
    except OSError as error:
        raise EtmetalError(f"{path} cannot be loaded: {error}") from error
    texts = ("last_error", "executorch_version", "registration_error")
    for name in texts:
        prefix = "etmetal_module_" if name == "last_error" else "etmetal_"
        getattr(api, prefix + name).restype = ctypes.c_char_p
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "load": (
            ctypes.c_uint32,
            [text, ctypes.POINTER(text), size, ctypes.c_int32, ctypes.POINTER(pointer)],
        ),
        "destroy": (None, [pointer]),
        "num_methods": (size, [pointer]),
        "method_name": (text, [pointer, size]),
        "method_info": (
            ctypes.c_uint32,
            [pointer, text, ctypes.POINTER(ctypes.POINTER(_MethodInfo))],
        ),
        "execute": (ctypes.c_uint32, [pointer, text, ctypes.POINTER(_Value), size]),
        "num_outputs": (size, [pointer]),
        "output": (ctypes.c_uint32, [pointer, size, ctypes.POINTER(_Value)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(api, f"etmetal_module_{name}")
        function.restype, function.argtypes = result, arguments
    return api


def load(path: str | os.PathLike[str] | None = None) -> None:
    """Registers the delegate with the ExecuTorch in this process, ``executorch.runtime`` included.

    Args:
        path: The library; ``None``: see :func:`library`.

    Raises:
        EtmetalError: There is no such library, or ExecuTorch does not take it.

    """
    api = _api(Path(path) if path is not None else library())
    error = api.etmetal_registration_error().decode()
    if error:
        raise EtmetalError(f"the delegate is not registered: {error}")


def run(
    path: str | os.PathLike[str],
    *inputs: Any,
    method: str = "forward",
    data: Sequence[str | os.PathLike[str]] = (),
) -> list[Any]:
    """Runs a method of a model once; see :meth:`Module.execute`.

    Args:
        data: ``.ptd`` files with the weights of models that have none of their own.

    """
    with Module(path, data) as module:
        return module.execute(*inputs, method=method)


class Module:
    """A loaded program. Its state, as a cache of keys and values, lives as long as it does."""

    def __init__(
        self, path: str | os.PathLike[str], data: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        self._api = _api(library())
        self._handle = ctypes.c_void_p()
        files = (ctypes.c_char_p * len(data))(*(os.fsencode(file) for file in data))
        self._check(
            self._api.etmetal_module_load(
                os.fsencode(path), files, len(data), 0, ctypes.byref(self._handle)
            )
        )

    def close(self) -> None:
        """Lets go of the program."""
        self._api.etmetal_module_destroy(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> Module:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    @property
    def methods(self) -> list[str]:
        """The names of the program's methods."""
        count = self._api.etmetal_module_num_methods(self._handle)
        names = (self._api.etmetal_module_method_name(self._handle, i) for i in range(count))
        return [name.decode() for name in names]

    def backends(self, method: str = "forward") -> list[str]:
        """The backends that a method delegates to."""
        info = self._info(method)
        return [info.backends[i].decode() for i in range(info.num_backends)]

    def inputs(self, method: str = "forward") -> list[Spec]:
        """What a method takes."""
        info = self._info(method)
        return [_spec(info.inputs[i]) for i in range(info.num_inputs)]

    def outputs(self, method: str = "forward") -> list[Spec]:
        """What a method gives."""
        info = self._info(method)
        return [_spec(info.outputs[i]) for i in range(info.num_outputs)]

    def execute(self, *inputs: Any, method: str = "forward") -> list[Any]:
        """Runs a method.

        Args:
            inputs: Arrays of the types that the method takes, or numbers. numpy has no bfloat16:
                for such an input an array of float32 is rounded.

        Returns:
            Arrays and numbers; bfloat16 as float32.

        Raises:
            RunError: What the runtime says.

        """
        info = self._info(method)
        taken = [info.inputs[i].dtype for i in range(info.num_inputs)]
        values = (_Value * len(inputs))()
        kept = []
        for index, given in enumerate(inputs):
            dtype = taken[index] if index < len(taken) else None
            values[index], *rest = _given(given, dtype, index)
            kept.append(rest)
        name = method.encode()
        self._check(self._api.etmetal_module_execute(self._handle, name, values, len(inputs)))
        outputs = []
        for index in range(self._api.etmetal_module_num_outputs(self._handle)):
            value = _Value()
            self._check(self._api.etmetal_module_output(self._handle, index, ctypes.byref(value)))
            outputs.append(_taken(value))
        return outputs

    def _info(self, method: str) -> _MethodInfo:
        info = ctypes.POINTER(_MethodInfo)()
        self._check(
            self._api.etmetal_module_method_info(self._handle, method.encode(), ctypes.byref(info))
        )
        return info.contents

    def _check(self, status: int) -> None:
        if status != 0:
            text = self._api.etmetal_module_last_error().decode(errors="replace")
            raise RunError(text or f"ExecuTorch error {status}")


def _spec(info: _ValueInfo) -> Spec:
    if info.kind != _TENSOR:
        kinds = {_NONE: "None", _INT: "int", _DOUBLE: "float", _BOOL: "bool"}
        return Spec(kinds.get(info.kind, "other"))
    known = _DTYPES.get(info.dtype)
    name = "bfloat16" if info.dtype == _BFLOAT16 else str(known or info.dtype)
    return Spec("tensor", name, tuple(info.sizes[i] for i in range(info.dim)))


def _given(value: Any, dtype: int | None, index: int) -> tuple[Any, ...]:
    """The C form of an input, and what has to live as long as it."""
    if isinstance(value, bool):
        return (_Value(kind=_BOOL, integer=int(value)),)
    if isinstance(value, int):
        return (_Value(kind=_INT, integer=value),)
    if isinstance(value, float):
        return (_Value(kind=_DOUBLE, number=value),)
    if value is None:
        return (_Value(kind=_NONE),)
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if dtype == _BFLOAT16 and array.dtype == np.float32:
        array, code = _rounded(array), _BFLOAT16
    else:
        if array.dtype not in _CODES:
            raise RunError(f"input {index}: an array of {array.dtype} cannot be given to a model")
        code = _CODES[array.dtype]
    sizes = (ctypes.c_int32 * array.ndim)(*array.shape)
    tensor = _Value(
        kind=_TENSOR,
        dtype=code,
        dim=array.ndim,
        sizes=sizes,
        data=array.ctypes.data,
        nbytes=array.nbytes,
    )
    return tensor, array, sizes


def _taken(value: _Value) -> Any:
    """An output, copied out of the runtime."""
    if value.kind == _TENSOR:
        return _tensor(value)
    if value.kind == _INT:
        return value.integer
    if value.kind == _BOOL:
        return bool(value.integer)
    return value.number if value.kind == _DOUBLE else None


def _tensor(value: _Value) -> np.ndarray[Any, np.dtype[Any]]:
    code = value.dtype
    dtype = np.dtype(np.uint16) if code == _BFLOAT16 else _DTYPES.get(code)
    if dtype is None:
        raise RunError(f"an output has the type {code} of c10::ScalarType, which numpy has not")
    raw = ctypes.string_at(value.data, value.nbytes) if value.nbytes else b""
    order = [value.dim_order[i] for i in range(value.dim)] if value.dim_order else range(value.dim)
    packed = np.frombuffer(raw, dtype).reshape([value.sizes[i] for i in order])
    array = np.ascontiguousarray(packed.transpose(np.argsort(list(order)))).reshape(
        [value.sizes[i] for i in range(value.dim)]
    )
    return _widened(array) if code == _BFLOAT16 else array


def _rounded(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """The bits of float32 as those of bfloat16: to nearest, ties to even."""
    bits = array.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16)


def _widened(bits: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """The bits of bfloat16 as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
