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

    /// How it is told a password where nobody types one.
    fn password(self) -> &'static str {
        match self {
            Tool::Minisign => {
                "minisign asks at a terminal alone; `minisign -G -W` makes a key without one"
            }
            Tool::Cosign => "cosign takes it from the variable COSIGN_PASSWORD",
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

/// Checks that something can be signed by the key, before there is something to sign.
///
/// # Errors
/// As [`sign`].
pub fn check_key(key: &Path, environment: &Environment) -> Result<()> {
    sign(b"", key, environment).map(drop)
}

/// What cosign is to tell the world of a signature: nothing. Whoever has the public key needs no
/// public log, and needs no network to look at the signature.
const NO_LOG: &str = "{\"mediaType\":\"application/vnd.dev.sigstore.signingconfig.v0.2+json\"}\n";

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
            let services = folder.path().join("services.json");
            std::fs::write(&services, NO_LOG)?;
            let command = command.args(["sign-blob", "--yes", "--key"]).arg(key);
            command.arg("--signing-config").arg(services).arg("--bundle").arg(&out)
        }
    };
    command.arg(&file).read().with_context(|| {
        format!("SHA256SUMS cannot be signed. If the key has a password: {}", tool.password())
    })?;
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
            let command = command.args(["verify-blob", "--insecure-ignore-tlog=true", "--key"]);
            command.arg(key).arg("--bundle").arg(&signature)
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

    /// Signs by copying, where it is told to use no service; else it would need the network.
    const COSIGN: &str = r#"
        case "$*" in
          "sign-blob --yes --key "*" --signing-config "*" --bundle "*)
            while [ $# -gt 1 ]; do
              [ "$1" != --signing-config ] || /bin/grep -q signingconfig "$2" || exit 1
              [ "$1" != --bundle ] || out=$2
              shift
            done
            /bin/cp "$1" "$out";;
          "verify-blob --insecure-ignore-tlog=true --key "*" --bundle "*)
            /usr/bin/cmp "$6" "$7" >&2;;
          *) echo "cosign $*: this needs the network" >&2; exit 1;;
        esac"#;

    #[test]
    fn cosign_needs_no_service_and_a_password_that_is_asked_for_is_told() {
        let fake = FakePrograms::new();
        let (key, public) = (fake.path("cosign.key"), fake.path("cosign.pub"));
        std::fs::write(&key, "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----").unwrap();
        std::fs::write(&public, "-----BEGIN PUBLIC KEY-----").unwrap();
        fake.program("cosign", COSIGN);
        let environment = fake.environment();
        check_key(&key, &environment).unwrap();
        let (name, signature) = sign(b"sums", &key, &environment).unwrap();
        assert_eq!(name, "SHA256SUMS.sigstore.json");
        std::fs::write(fake.path(&name), signature).unwrap();
        std::fs::write(fake.path(sums::NAME), "sums").unwrap();
        check(&fake.path(sums::NAME), &public, &environment).unwrap();
        std::fs::write(fake.path(sums::NAME), "other").unwrap();
        assert!(check(&fake.path(sums::NAME), &public, &environment).is_err());
        fake.program("cosign", "echo 'reading key: inappropriate ioctl for device' >&2; exit 1");
        let error = format!("{:#}", check_key(&key, &environment).unwrap_err());
        assert!(error.contains("cosign takes it from the variable COSIGN_PASSWORD"), "{error}");
        assert!(error.contains("inappropriate ioctl"), "{error}");
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
        let error = check_key(&fake.path("gone"), &fake.environment()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the key "), "{error}");
    }
}
