//! Signatures of `SHA256SUMS`, where a key is at hand: by minisign or by cosign.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::sums;
use crate::environment::Environment;
use crate::process::Invocation;

/// The ends of the names of signatures: minisign's and cosign's.
pub const ENDINGS: [&str; 2] = [".minisig", ".sigstore.json"];

/// Who signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Minisign,
    Cosign,
}

impl Tool {
    /// The tool that a key is for: cosign's are PEM files.
    fn of(key: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(key)
            .with_context(|| format!("cannot read the key {}", key.display()))?;
        Ok(if text.starts_with("-----BEGIN") { Tool::Cosign } else { Tool::Minisign })
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Minisign => "minisign",
            Tool::Cosign => "cosign",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Tool::Minisign => ENDINGS[0],
            Tool::Cosign => ENDINGS[1],
        }
    }

    fn find(self, environment: &Environment) -> Result<PathBuf> {
        let name = self.name();
        environment
            .which(name)
            .with_context(|| format!("{name} is not installed, and the key is for it"))
    }
}

/// Checks that the key is there, and the tool that it is for, before there is something to sign.
///
/// # Errors
/// One is not.
pub fn check_key(key: &Path, environment: &Environment) -> Result<()> {
    Tool::of(key)?.find(environment).map(drop)
}

/// The signature of `text`, that of SHA256SUMS, by the secret key in the file `key`: the file's
/// name and its content.
///
/// # Errors
/// The key's tool is not installed, or refuses.
pub fn sign(text: &[u8], key: &Path, environment: &Environment) -> Result<(String, Vec<u8>)> {
    let tool = Tool::of(key)?;
    let program = tool.find(environment)?;
    let folder = tempfile::tempdir()?;
    let (file, out) = (folder.path().join(sums::NAME), folder.path().join("signature"));
    std::fs::write(&file, text)?;
    let command = Invocation::new(program);
    let command = match tool {
        Tool::Minisign => {
            let comment = format!("etmetal {}", super::VERSION);
            command.args(["-S", "-s"]).arg(key).arg("-x").arg(&out).args(["-t", &comment, "-m"])
        }
        Tool::Cosign => {
            let command = command.args(["sign-blob", "--yes", "--key"]).arg(key);
            command.arg("--bundle").arg(&out)
        }
    };
    command.arg(&file).read().context("SHA256SUMS cannot be signed")?;
    let signature =
        std::fs::read(&out).with_context(|| format!("{} wrote nothing", tool.name()))?;
    Ok((format!("{}{}", sums::NAME, tool.ending()), signature))
}

/// Checks the signature beside `sums`, the file SHA256SUMS, by the public key in the file `key`.
///
/// # Errors
/// There is no signature, its tool is not installed, or it is not by that key.
pub fn check(sums: &Path, key: &Path, environment: &Environment) -> Result<()> {
    let tool = Tool::of(key)?;
    let signature = PathBuf::from(format!("{}{}", sums.display(), tool.ending()));
    if !signature.is_file() {
        bail!("{} is not there: the release is not signed by {}", signature.display(), tool.name());
    }
    let command = Invocation::new(tool.find(environment)?);
    let command = match tool {
        Tool::Minisign => {
            command.args(["-V", "-q", "-p"]).arg(key).arg("-x").arg(&signature).arg("-m")
        }
        Tool::Cosign => {
            command.args(["verify-blob", "--key"]).arg(key).arg("--bundle").arg(&signature)
        }
    };
    command.arg(sums).read().context("the signature of SHA256SUMS does not hold").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::tests::FakePrograms;

    /// Signs by a hash of key and file.
    const MINISIGN: &str = r#"
        while [ $# -gt 0 ]; do
          case "$1" in
            -S|-V|-q) mode="$mode$1"; shift;;
            -s|-p) key=$2; shift 2;;
            -x) signature=$2; shift 2;;
            -t) shift 2;;
            -m) file=$2; shift 2;;
          esac
        done
        sum=$(cat "$key" "$file" | /usr/bin/sha256sum)
        case "$mode" in
          -S) echo "$sum" >"$signature";;
          *) [ "$sum" = "$(cat "$signature")" ] || { echo 'Signature verification failed' >&2; exit 1; };;
        esac"#;

    #[test]
    fn what_was_signed_by_a_key_holds_for_that_key_and_text_alone() {
        let fake = FakePrograms::new();
        let environment = fake.environment().with(
            "PATH",
            std::env::join_paths([fake.folder(), Path::new("/usr/bin"), Path::new("/bin")])
                .unwrap(),
        );
        let (key, other, sums) = (fake.path("key"), fake.path("other"), fake.path(sums::NAME));
        std::fs::write(&key, "untrusted comment: key").unwrap();
        std::fs::write(&other, "untrusted comment: another").unwrap();
        std::fs::write(&sums, "sums").unwrap();
        let check = |key: &Path| check(&sums, key, &environment).map_err(|e| format!("{e:#}"));
        let error = check(&key).unwrap_err();
        assert!(
            error.ends_with(
                "SHA256SUMS.minisig is not there: the release is not signed by minisign"
            )
        );
        fake.program("minisign", MINISIGN);
        let (name, signature) = sign(b"sums", &key, &environment).unwrap();
        assert_eq!(name, "SHA256SUMS.minisig");
        std::fs::write(fake.path(&name), signature).unwrap();
        check(&key).unwrap();
        assert!(check(&other).unwrap_err().contains("Signature verification failed"));
        std::fs::write(&sums, "others").unwrap();
        assert!(check(&key).unwrap_err().starts_with("the signature of SHA256SUMS does not hold"));
    }

    #[test]
    fn a_key_whose_tool_is_missing_is_told() {
        let fake = FakePrograms::new();
        let key = fake.path("cosign.key");
        std::fs::write(&key, "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----").unwrap();
        let error = sign(b"", &key, &fake.environment()).unwrap_err().to_string();
        assert_eq!(error, "cosign is not installed, and the key is for it");
        let error = check_key(&key, &fake.environment()).unwrap_err().to_string();
        assert_eq!(error, "cosign is not installed, and the key is for it");
        fake.program("cosign", "");
        check_key(&key, &fake.environment()).unwrap();
        let error = check_key(&fake.path("gone"), &fake.environment()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the key "), "{error}");
    }
}
