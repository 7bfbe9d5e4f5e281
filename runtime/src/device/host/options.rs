//! What can be set about the host device.

use super::msl::Flavor;
use super::{pool, threads};
use crate::Result;
use crate::error::err;

/// How a host device is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Threads that work on one command, the calling thread among them.
    pub threads: usize,
    /// Bytes that the buffer pool may keep for reuse.
    pub pool_bytes: usize,
    /// Whether kernels run in the checked mode: each load and store is looked at, and one that
    /// must not be is an error (see [`super::checked`]).
    pub checked: bool,
    /// Whether kernels that synchronise run as loops where they can (else on fibers).
    pub fission: bool,
}

impl Default for Options {
    /// All cores that this process may use; a quarter of the memory, at most 4 GiB.
    fn default() -> Self {
        Options {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            pool_bytes: pool::Pool::default_bound(),
            checked: false,
            fission: true,
        }
    }
}

impl Options {
    /// The defaults, with what the environment says: `ETMETAL_THREADS`, a number of threads;
    /// `ETMETAL_POOL_BYTES`, a number of bytes, with `K`, `M` or `G` for powers of 1024;
    /// `ETMETAL_CHECKED`, `1` or `0`; `ETMETAL_FISSION`, `on` or `off`.
    ///
    /// # Errors
    /// A variable is set to something else.
    pub fn from_env() -> Result<Options> {
        Options::from_variables(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Options> {
        let mut options = Options::default();
        let set = |name| variable(name).filter(|value| !value.trim().is_empty());
        if let Some(text) = set("ETMETAL_THREADS") {
            let most = threads::MOST_THREADS;
            options.threads =
                text.trim().parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| {
                    err!(
                        InvalidArgument,
                        "ETMETAL_THREADS={text:?}: give a number from 1 to {most}"
                    )
                })?;
        }
        if let Some(text) = set("ETMETAL_POOL_BYTES") {
            options.pool_bytes = parse_bytes(text.trim()).ok_or_else(|| {
                err!(
                    InvalidArgument,
                    "ETMETAL_POOL_BYTES={text:?}: give a number of bytes, such as 268435456 or 256M"
                )
            })?;
        }
        if let Some(text) = set("ETMETAL_CHECKED") {
            options.checked = match text.trim() {
                "1" => true,
                "0" => false,
                _ => {
                    return Err(err!(
                        InvalidArgument,
                        "ETMETAL_CHECKED={text:?}: give 1 to check what kernels load and store, \
                         or 0"
                    ));
                }
            };
        }
        if let Some(text) = set("ETMETAL_FISSION") {
            options.fission = match text.trim() {
                "on" => true,
                "off" => false,
                _ => {
                    return Err(err!(
                        InvalidArgument,
                        "ETMETAL_FISSION={text:?}: give off to run the threads of all kernels that \
                         synchronise on fibers, or on"
                    ));
                }
            };
        }
        Ok(options)
    }

    /// How kernels are compiled for such a device.
    pub(super) fn flavor(&self) -> Flavor {
        match self {
            Options { checked: true, .. } => Flavor::Checked,
            Options { fission: true, .. } => Flavor::Loops,
            Options { .. } => Flavor::Fibers,
        }
    }
}

fn parse_bytes(text: &str) -> Option<usize> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.trim_end().parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Options> {
        Options::from_variables(|n| (n == name).then(|| value.to_owned()))
    }

    #[test]
    fn the_environment_overrides_the_defaults() {
        assert_eq!(with("", "").unwrap(), Options::default());
        assert_eq!(with("ETMETAL_THREADS", "").unwrap(), Options::default());
        assert_eq!(with("ETMETAL_THREADS", " 3 ").unwrap().threads, 3);
        assert!(with("ETMETAL_CHECKED", "1").unwrap().checked);
        assert!(!with("ETMETAL_CHECKED", "0").unwrap().checked);
        assert!(with("ETMETAL_FISSION", "on").unwrap().fission);
        assert!(!with("ETMETAL_FISSION", "off").unwrap().fission);
        for (text, bytes) in
            [("0", 0), ("123", 123), ("4k", 4096), ("2 M", 2 << 20), ("1G", 1 << 30)]
        {
            assert_eq!(with("ETMETAL_POOL_BYTES", text).unwrap().pool_bytes, bytes, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (name, value) in [
            ("ETMETAL_THREADS", "0"),
            ("ETMETAL_THREADS", "many"),
            ("ETMETAL_THREADS", "99999"),
            ("ETMETAL_POOL_BYTES", "-1"),
            ("ETMETAL_POOL_BYTES", "G"),
            ("ETMETAL_POOL_BYTES", "99999999999999G"),
            ("ETMETAL_POOL_BYTES", "é"),
            ("ETMETAL_CHECKED", "yes"),
            ("ETMETAL_FISSION", "0"),
        ] {
            let error = with(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
