"""The settings of an export, as ExecuTorch hands them to a backend: compile specs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from executorch.exir.backend.compile_spec_schema import CompileSpec

from etmetal.errors import EtmetalError
from etmetal.targets import Target

TARGET = "etmetal_target"
EXTERNAL_WEIGHTS = "etmetal_external_weights"
CODESIGN_IDENTITY = "codesign_identity"
#: Set where only the kernels that a model lacks are asked for.
TRIAL = "etmetal_trial"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the compile specs of one delegate say."""

    #: Where the library is to be loaded.
    target: Target
    #: The name, without ``.ptd``, of the file that holds the weights; ``None``: in the ``.pte``.
    external_weights: str | None = None
    #: Whether to stop once it is known which kernels are missing.
    trial: bool = False
    #: Who signs the library, as ``codesign`` takes it; ``None``: nobody.
    codesign_identity: str | None = None

    @classmethod
    def of(cls, compile_specs: Sequence[CompileSpec]) -> Settings:
        """The settings in ``compile_specs``.

        Raises:
            EtmetalError: A value is not one that its key can have.

        """
        values = {spec.key: spec.value.decode("utf-8") for spec in compile_specs}
        name = values.get(TARGET)
        return cls(
            target=Target.default() if name is None else Target.named(name),
            external_weights=_file_stem(values.get(EXTERNAL_WEIGHTS)),
            trial=TRIAL in values,
            codesign_identity=values.get(CODESIGN_IDENTITY),
        )


def _file_stem(name: str | None) -> str | None:
    if name is not None and (not name or "/" in name or name.endswith(".ptd")):
        raise EtmetalError(
            f"external weights: {name!r} is not a file's name without folder and `.ptd`"
        )
    return name


def spec(key: str, value: str) -> CompileSpec:
    """A compile spec with a text for its value."""
    return CompileSpec(key, value.encode("utf-8"))
