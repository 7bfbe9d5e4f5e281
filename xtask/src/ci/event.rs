//! What starts a pipeline.

use std::fmt;

/// What happened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A pull request was opened or changed.
    #[value(alias = "pull_request", alias = "merge_request_event")]
    PullRequest,
    /// The main branch moved.
    Push,
    /// The time of the day.
    #[value(alias = "schedule")]
    Nightly,
    /// A version was tagged.
    Tag,
}

impl Event {
    /// All.
    pub const ALL: [Self; 4] = [Self::PullRequest, Self::Push, Self::Nightly, Self::Tag];

    /// The name in `pipeline.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PullRequest => "pull-request",
            Self::Push => "push",
            Self::Nightly => "nightly",
            Self::Tag => "tag",
        }
    }

    /// What starts it, in words.
    pub fn on(self) -> &'static str {
        match self {
            Self::PullRequest => "on pull requests",
            Self::Push => "on pushes",
            Self::Nightly => "at night",
            Self::Tag => "on tags",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
