"""Runs a model of tests/fixtures with numpy alone; prints where the package is."""

import sys
from pathlib import Path

import etmetal
import numpy as np

folder = Path(sys.argv[1])
inputs = [np.load(path) for path in sorted(folder.glob("input*.npy"))]
wanted = [np.load(path) for path in sorted(folder.glob("output*.npy"))]
outputs = etmetal.run(folder / "model.pte", *inputs)
assert "torch" not in sys.modules
assert len(outputs) == len(wanted) > 0
for got, want in zip(outputs, wanted, strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
print(etmetal.__file__)
