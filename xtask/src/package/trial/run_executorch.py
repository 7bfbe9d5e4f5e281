"""Runs a model of tests/fixtures in ExecuTorch's own runtime; prints where the package is."""

import sys
from pathlib import Path

import etmetal
import numpy as np

etmetal.load()
import torch  # noqa: E402  (after the library: both orders have to work)
from executorch.runtime import Runtime  # noqa: E402

folder = Path(sys.argv[1])
runtime = Runtime.get()
assert "MetalBackend" in runtime.backend_registry.registered_backend_names
inputs = [torch.from_numpy(np.load(path)) for path in sorted(folder.glob("input*.npy"))]
wanted = [np.load(path) for path in sorted(folder.glob("output*.npy"))]
outputs = runtime.load_program(folder / "model.pte").load_method("forward").execute(inputs)
assert len(outputs) == len(wanted) > 0
for got, want in zip(outputs, wanted, strict=True):
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5)
print(etmetal.__file__)
