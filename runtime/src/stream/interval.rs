//! After how many commands a stream commits by itself.

use crate::Result;
use crate::error::err;

/// Commands after which [`Stream::adaptive`](super::Stream::adaptive) commits, unless
/// `ETMETAL_FLUSH_INTERVAL` says otherwise. Large enough to make the cost of a commit small, small
/// enough to keep the device busy while the CPU encodes on.
pub const DEFAULT_FLUSH_INTERVAL: usize = 64;

/// Environment variable for the number of commands after which a stream commits by itself.
pub const FLUSH_INTERVAL_VARIABLE: &str = "ETMETAL_FLUSH_INTERVAL";

/// The flush interval of new streams: `ETMETAL_FLUSH_INTERVAL`, else [`DEFAULT_FLUSH_INTERVAL`].
///
/// # Errors
/// The variable is set and is no positive number.
pub fn flush_interval_of_environment() -> Result<usize> {
    match std::env::var(FLUSH_INTERVAL_VARIABLE) {
        Err(_) => Ok(DEFAULT_FLUSH_INTERVAL),
        Ok(text) => parse_flush_interval(&text),
    }
}

fn parse_flush_interval(text: &str) -> Result<usize> {
    text.trim().parse().ok().filter(|&n| n > 0).ok_or_else(|| {
        err!(
            InvalidArgument,
            "{FLUSH_INTERVAL_VARIABLE}={text:?} is no positive number of commands"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flush_interval_is_a_positive_number() {
        assert_eq!(parse_flush_interval(" 12 ").unwrap(), 12);
        for bad in ["", "0", "-1", "many"] {
            let text = parse_flush_interval(bad).unwrap_err().to_string();
            assert!(text.contains(FLUSH_INTERVAL_VARIABLE), "{text}");
        }
    }
}
