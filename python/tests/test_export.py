"""Exporting: what is in the files, for this machine and for a Mac."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import lief
import pytest
import torch
from examples import mlp
from torch import nn

from etmetal import EtmetalError, Module
from etmetal.backend import WEIGHTS_ALIGNMENT
from etmetal.errors import LibraryError
from etmetal.export import Options, export, trace
from etmetal.kernels import MissingKernelsError
from etmetal.targets import Target, verify
from programs import compared, library_of, made

PYTHON = Path(__file__).parents[1]


def _shaders(library: bytes) -> list[bytes]:
    """The shader sources in a library, in order."""
    parts = []
    at = library.find(b"kernel void generated_kernel")
    while at >= 0:
        # Text that begins with a newline, behind whatever the linker put there.
        begin = library.find(b"\n", library.rfind(b"\0", 0, at))
        parts.append(library[begin : library.find(b"\0", at)])
        at = library.find(b"kernel void generated_kernel", at + 1)
    return sorted(set(parts))


def _weights(path: Path) -> bytes:
    from executorch.exir._serialize._program import deserialize_pte_binary

    data = deserialize_pte_binary(path.read_bytes()).named_data
    (entry,) = [e for key, e in data.pte_data.items() if key.endswith("_weights_blob")]
    return bytes(data.buffers[entry.buffer_index])


def test_the_command_line_exports_for_both_systems_and_checks(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "etmetal.export", "examples.mlp:model", "--check"),
            *("--dtype", "bfloat16", "--out", str(tmp_path / "model.pte")),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{PYTHON / 'src'}:{PYTHON}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("PASS  max error"), ended.stdout
    host, mac = tmp_path / "model.host.pte", tmp_path / "model.pte"
    assert sorted(tmp_path.iterdir()) == [host, mac]
    # The same model exported elsewhere, and by a process that exported another one before.
    model, inputs = mlp.model()
    made(nn.GELU(), (torch.randn(3, 3),), tmp_path / "before")
    other = tmp_path / "other place"
    other.mkdir()
    again = made(
        model.bfloat16(),
        tuple(x.bfloat16() for x in inputs),
        other,
        targets=(Target.HOST, Target.MACOS_ARM64),
    )
    for first, second in ((host, again[0].path), (mac, again[1].path)):
        assert first.read_bytes() == second.read_bytes(), f"{first.name} differs"
    _same_model(host, mac)


def _same_model(host: Path, mac: Path) -> None:
    """The file for a Mac has the same shaders and weights, in an arm64 Mach-O library."""
    elf, macho = library_of(host), library_of(mac)
    verify.macho(macho, [PYTHON, Path.home()])
    verify.elf(elf, [PYTHON, Path.home()])
    assert _shaders(elf)
    assert _shaders(elf) == _shaders(macho)
    assert _weights(host) == _weights(mac)
    # Symbols live as long as the file they are of.
    fat, linux = lief.MachO.parse(list(macho)), lief.ELF.parse(list(elf))
    mach = fat.at(0)
    exported = {s.name.removeprefix("_") for s in mach.exported_symbols}
    assert exported == {s.name for s in linux.exported_symbols}
    wanted = {s.name.removeprefix("_") for s in mach.imported_symbols if "aoti_torch" in s.name}
    undefined = {s.name for s in linux.dynamic_symbols if s.shndx == 0}
    needed = {name for name in undefined if "aoti_torch" in name}
    assert wanted == needed


def test_weights_begin_at_a_page_and_are_named_by_their_content(tmp_path: Path) -> None:
    model, inputs = mlp.model()
    (program,) = made(model, inputs, tmp_path)
    content = program.path.read_bytes()
    weights = _weights(program.path)
    assert content.find(weights) % WEIGHTS_ALIGNMENT == 0
    assert hashlib.sha256(weights).hexdigest().encode() + b"_weights_blob" in content
    assert model[0].weight.detach().numpy().tobytes() in weights
    assert model[0].weight.detach().numpy().tobytes() not in library_of(program.path)


class Shared(nn.Module):
    """Two methods over the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


def test_external_weights_are_shared_by_methods(tmp_path: Path) -> None:
    model = Shared().eval()
    many, one = (torch.randn(4, 32),), (torch.randn(1, 32),)
    methods = {"prefill": trace(model, many), "decode": trace(model, one)}
    options = Options(targets=(Target.HOST,), external_weights=True)
    (program,) = export(methods, tmp_path / "model.pte", options)
    (data,) = program.data
    assert data.name == "model.ptd"
    weights = model.first.weight.detach().numpy().tobytes()
    assert weights not in program.path.read_bytes()
    assert data.read_bytes().count(weights) == 1
    with Module(program.path, program.data) as module:
        assert sorted(module.methods) == ["decode", "prefill"]
        for name, inputs in (("prefill", many), ("decode", one)):
            (result,) = module.execute(inputs[0].numpy(), method=name)
            torch.testing.assert_close(torch.from_numpy(result), model(*inputs).detach())


def test_dynamic_shapes_run_with_every_size(tmp_path: Path) -> None:
    model, inputs = mlp.model()
    batch = torch.export.Dim("batch", min=1, max=16)
    inputs = (torch.randn(3, 8),)
    (program,) = made(model, inputs, tmp_path, dynamic_shapes=({0: batch},))
    calls = [(torch.randn(n, 8),) for n in (1, 3, 16)]
    assert all(c.right for c in compared(program, model, *calls))


class Distances(nn.Module):
    """The distances have no kernel; ExecuTorch has one."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        far = torch.cdist(x * 2, y + 1)
        return far.sin() + torch.kthvalue(x, 2, keepdim=True).values


class PortableDistances(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x * 2, y + 1).sin()


def test_all_missing_kernels_are_told_with_their_lines(tmp_path: Path) -> None:
    inputs = (torch.randn(3, 4), torch.randn(5, 4)[:3])
    with pytest.raises(MissingKernelsError) as caught:
        made(Distances(), inputs, tmp_path)
    text = str(caught.value)
    assert "method `forward`: no kernel for 2 operators" in text, text
    assert "torch.cdist(x * 2, y + 1)" in text, text
    assert "torch.kthvalue(x, 2, keepdim=True)" in text, text
    assert f"{Path(__file__).name}:" in text, text
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_kernel_is_left_to_executorch(tmp_path: Path) -> None:
    inputs = (torch.randn(3, 4), torch.randn(5, 4))
    model = PortableDistances()
    (program,) = made(model, inputs, tmp_path, fallback="portable")
    assert program.delegates == 2
    assert program.portable == ("aten::_cdist_forward.out",)
    assert all(c.right for c in compared(program, model, inputs))


def test_libraries_that_would_not_load_everywhere_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "bad.cpp"
    source.write_text(
        'extern "C" int stray() { return 0; } const char* path = "' + str(tmp_path) + '";'
    )
    library = tmp_path / "bad.so"
    cxx = shutil.which("g++") or shutil.which("c++")
    openmp = tmp_path / "libomp.so"
    subprocess.run([cxx, "-shared", "-x", "c++", "/dev/null", "-o", openmp], check=True)
    flags = ["-shared", "-fPIC", "-g", "-zexecstack", f"-Wl,-rpath,{tmp_path}"]
    needed = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lomp"]
    subprocess.run([cxx, source, *flags, *needed, "-o", library], check=True)
    with pytest.raises(LibraryError) as caught:
        verify.elf(library.read_bytes(), [tmp_path])
    text = str(caught.value)
    for fault in (
        "does not export AOTInductorModelContainerRun",
        "it exports path, stray",
        f"it tells the path {tmp_path}",
        "a search path of its own",
        "an executable stack",
        "it is not stripped",
        "libomp.so, which is no system library",
    ):
        assert fault in text, f"{fault!r} is not in {text}"
    with pytest.raises(LibraryError, match="no Mach-O file"):
        verify.macho(library.read_bytes(), [])
    with pytest.raises(EtmetalError, match="no ELF file"):
        verify.elf(b"nothing", [])


#: Ten models whose files for a Mac are compared with those for this machine.
FOR_A_MAC = {
    "gelu": lambda: (nn.GELU(), (torch.randn(5, 7),)),
    "layer_norm": lambda: (nn.LayerNorm(16), (torch.randn(3, 16),)),
    "softmax": lambda: (nn.Softmax(-1), (torch.randn(4, 600),)),
    "conv": lambda: (nn.Conv2d(3, 8, 3), (torch.randn(1, 3, 9, 9),)),
    "embedding": lambda: (nn.Embedding(9, 4), (torch.tensor([1, 8]),)),
    "gru": lambda: (nn.GRU(4, 6, batch_first=True), (torch.randn(1, 3, 4),)),
    "vit_block": "vit_block",
    "yolo_head": "yolo_head",
    "whisper_block": "whisper_block",
    "llama_decoder": "llama_decoder",
}


@pytest.mark.full
@pytest.mark.parametrize("name", FOR_A_MAC)
def test_a_file_for_a_mac_is_the_same_model(name: str, tmp_path: Path) -> None:
    import architectures

    torch.manual_seed(3)
    chosen = FOR_A_MAC[name]
    model, inputs = architectures.ALL[chosen]() if isinstance(chosen, str) else chosen()
    both = (Target.HOST, Target.MACOS_ARM64)
    host, mac = made(model.eval(), inputs, tmp_path, targets=both)
    _same_model(host.path, mac.path)
