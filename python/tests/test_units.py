"""The parts that need no export."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.backends.mps
import torch.mps
from torch._inductor.codegen.mps import MetalKernel

from etmetal import EtmetalError, MetalBackend, MetalPartitioner, cache, linux, quantize, versions
from etmetal.errors import ToolError, UnsupportedVersionError
from etmetal.export.check import compare
from etmetal.export.cli import _dynamic, main
from etmetal.linux.relabel import to_cpu, to_mps
from etmetal.runtime import _rounded, _widened
from etmetal.specs import EXTERNAL_WEIGHTS, TARGET, Settings, spec
from etmetal.targets import Target, check, macos
from etmetal.tools import find, run


def test_a_version_that_is_not_known_is_refused_with_those_that_are() -> None:
    assert versions.require("torch", "2.13.0+cpu") == "2.13.0+cpu"
    with pytest.raises(UnsupportedVersionError, match=r"torch 2\.12\.1 .* works with torch 2\.13"):
        versions.require("torch", "2.12.1")


def test_exporting_refuses_an_unknown_torch_and_patches_nothing(monkeypatch) -> None:
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    before = torch.mps.is_available
    with pytest.raises(UnsupportedVersionError), linux.exporting():
        pass
    assert torch.mps.is_available is before


def _state() -> tuple[object, ...]:
    return (
        torch.mps.__dict__["is_available"],
        torch.cuda.__dict__["is_available"],
        torch.backends.mps.__dict__["get_core_count"],
        torch._tensor_str.__dict__["_str"],
        torch._C.__dict__["_conv_determine_backend_memory_format"],
        torch.UntypedStorage.__dict__.get("cpu"),
        MetalKernel.__dict__["__init__"],
    )


def test_patches_are_undone_also_after_an_error() -> None:
    before = _state()
    with pytest.raises(ZeroDivisionError), linux.exporting():
        with linux.exporting():
            assert all(now is not then for now, then in zip(_state(), before, strict=True))
        assert torch.mps.is_available()
        raise ZeroDivisionError
    assert all(now is then for now, then in zip(_state(), before, strict=True))
    with pytest.raises(RuntimeError):
        torch.empty(1, device="mps")


def test_a_relabelled_tensor_shares_its_memory_and_computes_on_the_cpu() -> None:
    with linux.exporting():
        source = torch.arange(6.0).reshape(2, 3)
        moved = to_mps(source)
        assert moved.device == torch.device("mps:0")
        assert to_cpu(moved).data_ptr() == source.data_ptr()
        assert (moved + 1).device.type == "mps"
        assert to_cpu((moved * 2).sum()).item() == 30
        assert moved[1, 2].item() == 5
        assert "5." in repr(moved)
        assert moved.untyped_storage().cpu().nbytes() == 24
        thin = torch.zeros(4, 1, 3).transpose(0, 1)
        assert to_mps(thin.contiguous()).stride() == thin.contiguous().stride()


@pytest.mark.parametrize("bits", range(1, 8))
def test_packed_weights_come_back(bits: int) -> None:
    weights = torch.randint(0, 2**bits, (3, 32), dtype=torch.uint8)
    packed = quantize._pack(bits, weights)
    assert packed.shape == (3, 32 * bits // 8)
    assert torch.equal(quantize._unpack(bits, packed), weights)


def test_four_bits_lie_low_nibble_first() -> None:
    assert quantize._pack(4, torch.tensor([[1, 2, 15, 0, 0, 0, 0, 3]])).tolist() == [
        [0x21, 0x0F, 0x00, 0x30]
    ]


def test_nothing_to_quantise_is_an_error() -> None:
    with pytest.raises(EtmetalError, match="no linear layer"):
        quantize.quantize(torch.nn.Linear(7, 3))


def test_settings_come_from_compile_specs() -> None:
    method = MetalBackend.generate_method_name_compile_spec("forward")
    assert Settings.of([method]) == Settings(Target.HOST)
    specs = [method, spec(TARGET, "macos-arm64"), spec(EXTERNAL_WEIGHTS, "weights")]
    assert Settings.of(specs) == Settings(Target.MACOS_ARM64, external_weights="weights")
    with pytest.raises(EtmetalError, match="there are host, macos-arm64"):
        Settings.of([spec(TARGET, "windows")])
    with pytest.raises(EtmetalError, match="without folder"):
        Settings.of([spec(EXTERNAL_WEIGHTS, "a/b")])


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac can sign")
def test_signing_needs_a_mac() -> None:
    with pytest.raises(EtmetalError, match="only a Mac can sign"):
        check(Settings(Target.MACOS_ARM64, codesign_identity="Developer ID"))
    with pytest.raises(EtmetalError, match="only libraries for macOS are signed"):
        check(Settings(Target.HOST, codesign_identity="-"))
    check(Settings(Target.MACOS_ARM64, codesign_identity="-"))


def _tags(partitioner: MetalPartitioner, model: torch.nn.Module, *inputs: torch.Tensor) -> set:
    program = torch.export.export(model, inputs)
    result = partitioner.partition(program)
    assert set(result.partition_tags) == {
        node.meta["delegation_tag"] for node in program.graph.nodes if node.op == "call_function"
    }
    assert all(s.backend_id == "MetalBackend" for s in result.partition_tags.values())
    return set(result.partition_tags)


def test_a_program_is_one_part() -> None:
    partitioner = MetalPartitioner([MetalBackend.generate_method_name_compile_spec("forward")])
    layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    assert len(_tags(partitioner, layers, torch.randn(2, 4))) == 1


def test_the_partitioner_takes_the_settings_of_an_export() -> None:
    partitioner = MetalPartitioner([], target="macos-arm64", external_weights=True)
    settings = Settings.of(partitioner.delegation_spec.compile_specs)
    assert settings == Settings(Target.MACOS_ARM64, external_weights="aoti_metal_blob")
    with pytest.raises(ValueError, match=r"fallback='cpu'"):
        MetalPartitioner([], fallback="cpu")


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    values = torch.randn(1000) * 10.0 ** torch.randint(-30, 30, (1000,))
    values[:4] = torch.tensor([float("nan"), float("inf"), -0.0, 1.00390625])
    rounded = torch.from_numpy(_widened(_rounded(values.numpy())))
    torch.testing.assert_close(rounded, values.bfloat16().float(), rtol=0, atol=0, equal_nan=True)


def test_a_wrong_result_is_told_from_a_right_one() -> None:
    expected = torch.tensor([1.0, float("inf"), float("nan"), -100.0])
    (same,) = compare(expected, [expected.clone()])
    assert same.right
    assert same.error == 0
    (near,) = compare(expected, [expected * (1 + 1e-6)])
    assert near.right
    for index, value in ((0, 1.5), (1, 1.0), (2, 0.0), (3, float("nan"))):
        wrong = expected.clone()
        wrong[index] = value
        assert not compare(expected, [wrong])[0].right
    (integers,) = compare(torch.tensor([1, 2]), [torch.tensor([1, 3])])
    assert not integers.right
    with pytest.raises(ValueError, match="expected is"):
        compare(torch.zeros(2), [torch.zeros(3)])


def test_the_cache_holds_whole_files_only(tmp_path: Path) -> None:
    path = tmp_path / "a/b"

    def fails(to: Path) -> None:
        to.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.made_once(path, fails)
    assert list(path.parent.iterdir()) == []
    cache.made_once(path, lambda to: to.write_text("whole"))
    cache.made_once(path, fails)
    assert path.read_text() == "whole"


def test_a_missing_tool_is_told_with_its_remedy(monkeypatch) -> None:
    with pytest.raises(ToolError, match=r"an oracle was not found: pythia .*Install it \(wait\)"):
        find(("ETMETAL_NOT_SET",), ("pythia",), "an oracle", "wait")
    monkeypatch.setenv("ETMETAL_CXX", "/nowhere/c++ -v")
    with pytest.raises(ToolError, match=r"ETMETAL_CXX=/nowhere/c.*no such program"):
        find(("ETMETAL_CXX",), ("c++",), "a compiler", "")
    with pytest.raises(ToolError, match=r"exit status 3\):\n  \| told"):
        run(["sh", "-c", "echo told; exit 3"])


def test_stubs_name_what_a_mac_has(tmp_path: Path) -> None:
    macos.write_stubs(tmp_path)
    text = (tmp_path / "libc++.tbd").read_text()
    assert "install-name: '/usr/lib/libc++.1.dylib'" in text
    table = macos.symbols()
    assert set(table) == {"libc++", "libSystem"}
    assert "_malloc" in table["libSystem"]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("0.1=n", (0, 1, "n", None)), ("2.0=batch:1..64", (2, 0, "batch", (1, 64)))],
)
def test_dynamic_dimensions_are_read(text: str, parsed: tuple) -> None:
    assert _dynamic(text) == parsed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["examples.mlp"], "is not of the form MODULE:FACTORY"),
        (["examples.nothing:model"], "there is no module examples.nothing"),
        (["examples.mlp:nothing"], "has no nothing"),
        (["examples.mlp:model", "--dynamic", "x=1"], "--dynamic x=1"),
        (["examples.mlp:model", "--dynamic", "0.0=n:9..2"], "9 is not less than 2"),
        (["examples.mlp:model", "--dynamic", "3.0=n"], "the model has 1 inputs"),
        (["examples.mlp:model", "--check", "--target", "macos-arm64"], "needs --target host"),
    ],
)
def test_a_wrong_command_line_is_explained(arguments, message, tmp_path, capfd) -> None:
    assert main([*arguments, "--out", str(tmp_path / "m.pte")]) == 1
    assert message in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_models_run_without_torch(tmp_path: Path) -> None:
    fixture = Path(__file__).parents[2] / "tests/fixtures/mlp"
    program = f"""
import sys
import numpy as np
import etmetal
(result,) = etmetal.run("{fixture}/model.pte", np.load("{fixture}/input0.npy"))
np.testing.assert_allclose(result, np.load("{fixture}/output0.npy"), rtol=1e-4, atol=1e-5)
module = etmetal.Module("{fixture}/model.pte")
assert module.methods == ["forward"] and module.backends() == ["MetalBackend"]
assert (module.inputs()[0].dtype, module.inputs()[0].shape) == ("float32", (2, 8))
try:
    module.execute(np.zeros(3, np.float32))
except etmetal.EtmetalError as error:
    print("refused:", error)
assert not {{"torch", "executorch"}} & set(sys.modules), "torch was imported"
"""
    shown = subprocess.run(
        [sys.executable, "-c", program],
        env={**_environment(), "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("refused: "), shown.stdout


def test_the_official_runtime_runs_models_after_load(tmp_path: Path) -> None:
    fixture = Path(__file__).parents[2] / "tests/fixtures/mlp"
    program = f"""
import numpy as np, torch
import etmetal
from executorch.runtime import Runtime
etmetal.load()
method = Runtime.get().load_program("{fixture}/model.pte").load_method("forward")
(result,) = method.execute([torch.from_numpy(np.load("{fixture}/input0.npy"))])
np.testing.assert_allclose(result.numpy(), np.load("{fixture}/output0.npy"), rtol=1e-4, atol=1e-5)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program],
        env={**_environment(), "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def test_a_library_that_is_not_there_is_told(monkeypatch) -> None:
    from etmetal import runtime

    monkeypatch.setenv("ETMETAL_LIB", "/nowhere/libetmetal.so")
    with pytest.raises(EtmetalError, match=r"ETMETAL_LIB=/nowhere/libetmetal\.so"):
        runtime.library()


def test_arrays_that_no_model_takes_are_refused() -> None:
    from etmetal.runtime import RunError, _given

    with pytest.raises(RunError, match="input 2: an array of complex128"):
        _given(np.zeros(2, complex), None, 2)
