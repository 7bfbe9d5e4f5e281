//! The axes that a job can vary along.

/// What jobs vary along, in the order in which combinations are counted (the first slowest) and
/// named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// A pool of machines (`[runner.NAME]`).
    Runner,
    /// A target triple.
    Target,
    /// A preset of `presets/`.
    Preset,
    /// A Python, as `3.12`.
    Python,
    /// A version of PyTorch.
    Torch,
    /// A version of ExecuTorch.
    Executorch,
    /// A sanitizer, as `address`.
    Sanitizer,
    /// A part of the tests: 1, 2, … (see [`super::shards`]).
    Shard,
}

impl Axis {
    /// All, in order.
    pub const ALL: [Self; 8] = [
        Self::Runner,
        Self::Target,
        Self::Preset,
        Self::Python,
        Self::Torch,
        Self::Executorch,
        Self::Sanitizer,
        Self::Shard,
    ];

    /// The key in `pipeline.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Target => "target",
            Self::Preset => "preset",
            Self::Python => "python",
            Self::Torch => "torch",
            Self::Executorch => "executorch",
            Self::Sanitizer => "sanitizer",
            Self::Shard => "shard",
        }
    }

    /// The axis called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|axis| axis.name() == name)
    }
}
