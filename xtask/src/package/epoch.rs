//! The time that everything in a release bears.

use anyhow::{Context as _, Result};
use time::OffsetDateTime;

use super::sources::Sources;
use crate::environment::Environment;

/// Seconds since 1970, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(i64);

/// The first second that a zip archive can tell: 1980-01-01.
const OLDEST: i64 = 315_532_800;
/// And the last: 2107-12-31T23:59:58.
const NEWEST: i64 = 4_354_819_198;

impl Epoch {
    /// `SOURCE_DATE_EPOCH`, else the time of the commit.
    ///
    /// # Errors
    /// The variable is no number of seconds between 1980 and 2107, or there is neither it nor a
    /// commit.
    pub fn find(environment: &Environment, sources: &Sources) -> Result<Self> {
        if let Some(text) = environment.get("SOURCE_DATE_EPOCH") {
            let text = text.to_string_lossy();
            return Self::parse(&text).with_context(|| {
                format!(
                    "SOURCE_DATE_EPOCH={text}: seconds since 1970, from 1980 to 2107, are needed"
                )
            });
        }
        let seconds = sources.commit_time.context(
            "there is no commit that tells a time: make the package in a git working copy, or set \
             SOURCE_DATE_EPOCH to the seconds since 1970 that everything shall bear",
        )?;
        Self::of(seconds).context("the commit's time is not between 1980 and 2107")
    }

    /// A number of seconds in digits.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of(text.parse().ok()?)
    }

    fn of(seconds: i64) -> Option<Self> {
        (OLDEST..=NEWEST).contains(&seconds).then_some(Self(seconds))
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0.unsigned_abs()
    }

    fn date(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.0).expect("the range was checked")
    }

    /// As zip archives tell it, to two seconds.
    pub fn zip(self) -> zip::DateTime {
        let date = self.date();
        zip::DateTime::from_date_and_time(
            u16::try_from(date.year()).expect("the range was checked"),
            date.month().into(),
            date.day(),
            date.hour(),
            date.minute(),
            date.second(),
        )
        .expect("the range was checked")
    }

    /// As in `2026-01-31T12:00:00Z`.
    pub fn iso(self) -> String {
        let date = self.date();
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            date.year(),
            u8::from(date.month()),
            date.day(),
            date.hour(),
            date.minute(),
            date.second()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_counts_more_than_the_commit_and_must_be_a_time() {
        let sources = Sources { commit_time: Some(1_700_000_000), ..Sources::default() };
        let find = |text: Option<&str>, sources: &Sources| {
            let environment = Environment::default();
            let environment = match text {
                Some(text) => environment.with("SOURCE_DATE_EPOCH", text),
                None => environment,
            };
            Epoch::find(&environment, sources).map_err(|e| e.to_string())
        };
        assert_eq!(find(None, &sources).unwrap().iso(), "2023-11-14T22:13:20Z");
        assert_eq!(find(Some("1600000001"), &sources).unwrap().iso(), "2020-09-13T12:26:41Z");
        let zip = find(Some("1600000001"), &sources).unwrap().zip();
        assert_eq!((zip.year(), zip.month(), zip.day(), zip.hour()), (2020, 9, 13, 12));
        for wrong in ["", "yesterday", "0", "99999999999"] {
            let sources = Sources::default();
            let error = find(Some(wrong), &sources).unwrap_err();
            assert!(error.contains("SOURCE_DATE_EPOCH"), "{error}");
        }
    }
}
