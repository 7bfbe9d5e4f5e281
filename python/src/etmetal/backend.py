"""The backend: from a graph to a library, its weights, and what names them."""

from __future__ import annotations

import contextlib
import copy
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import torch
import torch.utils._pytree as pytree
from executorch.backends.aoti.aoti_backend import AotiBackend
from executorch.backends.apple.metal import metal_backend as stock
from executorch.backends.apple.metal.passes.decompose_linear_pass import DecomposeLinearPass
from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._warnings import experimental
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch._inductor import config as inductor_config
from torch.export.exported_program import ExportedProgram
from torch.export.passes import move_to_device_pass

from etmetal import kernels, linux, targets
from etmetal.errors import EtmetalError
from etmetal.kernels import MissingKernel, MissingKernelsError
from etmetal.linux.relabel import MPS, to_mps
from etmetal.quantize import c_shims
from etmetal.specs import CODESIGN_IDENTITY, TRIAL, Settings, spec

#: Where weights begin in a file, so that a GPU can use them without a copy: a page of Apple
#: silicon.
WEIGHTS_ALIGNMENT = 16384

_WEIGHTS_SUFFIX = "_weights_blob"


class _GeneratedError(Exception):
    """C++ was generated, and that was all that was wanted."""


@final
@experimental("The Metal backend is experimental.")
class MetalBackend(AotiBackend, BackendDetails):
    """Compiles graphs for ExecuTorch's Metal delegate, on macOS and on Linux.

    What it makes can be run by etmetal and by ExecuTorch's own Metal backend. ExecuTorch finds
    backends by the names of their classes, and there can be one of a name: importing this one
    puts it in the place of ``executorch.backends.apple.metal.metal_backend.MetalBackend``.
    """

    @classmethod
    def get_device_name(cls) -> str:
        """The name that :class:`AotiBackend` translates to torch's ``mps``."""
        return "metal"

    @classmethod
    def get_supported_fallback_kernels(cls) -> dict[str, Any]:
        """Names of the operators that need no generated kernel."""
        return dict(kernels.SUPPORTED)

    @classmethod
    def get_decomposition_table(cls) -> dict[Any, Any]:
        """None: Inductor's own table is used."""
        return {}

    @classmethod
    def get_custom_passes(cls, compile_specs: list[CompileSpec]) -> list[Any]:
        """Linear layers become products and sums, whatever their bias and batch."""
        return [DecomposeLinearPass()]

    @classmethod
    def get_aoti_compile_options(cls, compile_specs: list[CompileSpec]) -> dict[str, Any]:
        """Inductor's settings: C++ and weights are wanted, their compilation is ours."""
        return {
            "aot_inductor.link_libtorch": False,
            "aot_inductor.package": True,
            "aot_inductor.package_cpp_only": True,
            "aot_inductor.precompile_headers": False,
            "aot_inductor.package_constants_in_so": False,
            "aot_inductor.package_constants_on_disk_format": "binary_blob",
            # The default assembles a file without the note that the stack need not be executable.
            "aot_inductor.use_consts_asm_build": False,
            "aot_inductor.custom_ops_to_c_shims": c_shims(),
            "max_autotune": True,
            # Views of padded tensors would differ from what ExecuTorch plans.
            "padding_stride_threshold": float("inf"),
        }

    @classmethod
    def move_program_to_device(
        cls, edge_program: ExportedProgram, device: str, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The program with weights and graph on ``mps``."""
        if sys.platform == "darwin":
            return move_to_device_pass(edge_program, device)
        for name, value in edge_program.state_dict.items():
            moved = to_mps(value)
            if isinstance(value, torch.nn.Parameter):
                moved = torch.nn.Parameter(moved, requires_grad=False)
            edge_program.state_dict[name] = moved
        for name, value in edge_program.constants.items():
            if isinstance(value, torch.Tensor):
                edge_program.constants[name] = to_mps(value)
        if edge_program.example_inputs is not None:
            edge_program.example_inputs = pytree.tree_map_only(
                torch.Tensor, to_mps, edge_program.example_inputs
            )
        return move_to_device_pass(edge_program, str(MPS))

    @classmethod
    @contextlib.contextmanager
    def collect_unsupported_fallback_kernels(
        cls, missing_fallback_kernels: set[str]
    ) -> Iterator[None]:
        """Raises :class:`MissingKernelsError` at its end if anything is missing.

        The set that :class:`AotiBackend` would make a shorter error of stays empty.
        """
        generated: _GeneratedError | None = None
        with kernels.collected() as missing:
            try:
                yield
            except _GeneratedError as error:
                generated = error
        if missing:
            raise MissingKernelsError("?", missing)
        if generated is not None:
            raise generated

    @classmethod
    def materialize_weights_blob(cls, paths: Any, compile_specs: list[CompileSpec]) -> Any:
        """Compiles what Inductor generated; gives back the library and the weights."""
        settings = Settings.of(compile_specs)
        if settings.trial:
            raise _GeneratedError
        source = _one(paths, ".wrapper.cpp")
        weights = _one(paths, "_weights.blob")
        library = source.with_suffix(".so")
        targets.compile_library(settings, source, weights.stat().st_size, library)
        return [str(library), str(weights)]

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Compiles ``edge_program``.

        Raises:
            MissingKernelsError: The model has operators without kernels.
            EtmetalError: The settings cannot be met, a tool is missing, or a library came out
                that would not load everywhere.

        """
        settings = Settings.of(compile_specs)
        targets.check(settings)
        with _in_a_folder_of_its_own(), linux.exporting():
            try:
                result = super().preprocess(edge_program, compile_specs)
            except MissingKernelsError as error:
                method = cls.method_name_from_compile_specs(compile_specs)
                raise MissingKernelsError(method, error.missing) from None
        store = result.data_store_output
        assert store is not None
        _place_weights(store, settings)
        return result

    @classmethod
    def missing_kernels(
        cls, edge_program: ExportedProgram, compile_specs: Sequence[CompileSpec]
    ) -> tuple[MissingKernel, ...]:
        """The operators of ``edge_program`` that have no kernel; compiles no C++."""
        try:
            cls.preprocess(_twin(edge_program), [*compile_specs, spec(TRIAL, "")])
        except MissingKernelsError as error:
            return error.missing
        except _GeneratedError:
            pass
        return ()

    @classmethod
    def generate_codesign_compile_spec(cls, identity: str) -> CompileSpec:
        """The compile spec that has libraries signed by ``identity``; ``-``: ad hoc."""
        return spec(CODESIGN_IDENTITY, identity)


def _one(paths: Any, suffix: str) -> Path:
    found = [path for path in paths if isinstance(path, str) and path.endswith(suffix)]
    if len(found) != 1:
        raise EtmetalError(f"Inductor made {len(found)} files *{suffix} among {paths}")
    return Path(found[0])


def _twin(program: ExportedProgram) -> ExportedProgram:
    """A program like ``program`` that can be compiled in its place; its weights are zeros.

    Partitioners are given programs with fake weights, which can be neither copied nor compiled.
    """

    def zeros(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).zero_()
        trained = isinstance(value, torch.nn.Parameter)
        return torch.nn.Parameter(made, requires_grad=False) if trained else made

    graph_module = copy.deepcopy(program.graph_module)
    return ExportedProgram(
        root=graph_module,
        graph=graph_module.graph,
        graph_signature=copy.deepcopy(program.graph_signature),
        state_dict={name: zeros(value) for name, value in program.state_dict.items()},
        range_constraints=copy.deepcopy(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph),
        example_inputs=None,
        constants={name: zeros(value) for name, value in program.constants.items()},
        verifiers=[program.verifier],
    )


@contextlib.contextmanager
def _in_a_folder_of_its_own() -> Iterator[None]:
    """Inductor's files lie in a folder that nobody knows and that goes away."""
    with tempfile.TemporaryDirectory(prefix="etmetal-export-") as folder:
        with inductor_config.patch({"aot_inductor.output_path": folder}):
            yield


def _place_weights(store: NamedDataStoreOutput, settings: Settings) -> None:
    """Aligns the weights, and puts them into a file of their own if that is wanted."""
    for key in [key for key in store.pte_data if key.endswith(_WEIGHTS_SUFFIX)]:
        entry = store.pte_data[key]
        entry.alignment = WEIGHTS_ALIGNMENT
        if settings.external_weights is not None:
            del store.pte_data[key]
            store.external_data.setdefault(settings.external_weights, {})[key] = entry


def _take_the_name() -> None:
    """Lookups by the name ``MetalBackend`` end here, in whatever order classes were defined."""

    def preprocess(
        cls: type, edge_program: ExportedProgram, compile_specs: Sequence[CompileSpec]
    ) -> PreprocessResult:
        return MetalBackend.preprocess(edge_program, list(compile_specs))

    stock.MetalBackend.preprocess = classmethod(preprocess)


_take_the_name()
