//! What a file is meant for, from a target triple.

use super::image::Format;

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The triple.
    pub triple: String,
    /// The format of its files.
    pub format: Format,
    /// Its processor, as [`super::image::Image::architecture`] names it.
    pub architecture: String,
    /// Which of Apple's systems it is.
    pub platform: Option<&'static str>,
}

impl Target {
    /// The machine that this program runs on.
    pub fn of_this_machine() -> Self {
        let (processor, system) = (std::env::consts::ARCH, std::env::consts::OS);
        let system = if system == "macos" { "apple-darwin" } else { "unknown-linux-gnu" };
        let triple = format!("{processor}-{system}");
        Self::parse(&triple).expect("both systems are known")
    }

    /// Reads a triple, as `aarch64-apple-darwin`.
    ///
    /// # Errors
    /// It is not one of Linux or of an Apple system.
    pub fn parse(triple: &str) -> Result<Self, String> {
        let mut parts = triple.split('-');
        let processor = parts.next().unwrap_or_default();
        let rest: Vec<_> = parts.collect();
        let apple = rest.first() == Some(&"apple");
        let platform = match rest.as_slice() {
            ["apple", "darwin"] => Some("macOS"),
            ["apple", "ios"] => Some("iOS"),
            ["apple", "ios", "sim"] => Some("iOS simulator"),
            [.., "linux", _] => None,
            _ => return Err(format!("{triple:?} is no triple of Linux, macOS or iOS")),
        };
        let architecture = match processor {
            "aarch64" | "arm64" if apple => "arm64",
            other => other,
        };
        Ok(Self {
            triple: triple.to_owned(),
            format: if apple { Format::MachO } else { Format::Elf },
            architecture: architecture.to_owned(),
            platform,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triples_are_read() {
        let of = |triple| {
            let target = Target::parse(triple).unwrap();
            (target.format, target.architecture, target.platform)
        };
        assert_eq!(of("x86_64-unknown-linux-gnu"), (Format::Elf, "x86_64".into(), None));
        assert_eq!(of("aarch64-apple-darwin"), (Format::MachO, "arm64".into(), Some("macOS")));
        assert_eq!(of("aarch64-apple-ios-sim").2, Some("iOS simulator"));
        assert_eq!(
            Target::parse("x86_64-pc-windows-msvc").unwrap_err(),
            "\"x86_64-pc-windows-msvc\" is no triple of Linux, macOS or iOS"
        );
    }
}
