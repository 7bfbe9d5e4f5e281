//! Hand-made model libraries: `tests/models/container.cpp`, compiled as a test wants it.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::pte::{Blob, Delegate, Method, Program};

/// How to compile the model.
#[derive(Debug, Clone)]
pub struct Model {
    /// Floats of its input and output.
    pub count: usize,
    /// Bytes of its one weight, a multiple of 64; 0 for none.
    pub weight_bytes: u64,
    /// The factor of its input.
    pub scale: u32,
    /// Statements at the start of its kernel.
    pub extra: String,
    /// More arguments for the compiler.
    pub flags: Vec<String>,
}

impl Default for Model {
    fn default() -> Self {
        Model { count: 4, weight_bytes: 0, scale: 2, extra: String::new(), flags: Vec::new() }
    }
}

/// A compiled model library.
#[derive(Debug, Clone)]
pub struct Library {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The key under which a program holds it.
    pub key: String,
}

impl Model {
    /// Compiles the library inside `dir`.
    ///
    /// # Panics
    /// The C++ compiler (`CXX`, else `c++`) fails; its messages are shown.
    pub fn compile(&self, dir: &Path) -> Library {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/container.cpp");
        let output: PathBuf = dir.join(format!("model-{}-{}.so", self.scale, self.weight_bytes));
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
        let result = Command::new(&compiler)
            .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"])
            .arg(format!("-DCOUNT={}", self.count))
            .arg(format!("-DWEIGHT_BYTES={}", self.weight_bytes))
            .arg(format!("-DSCALE={}", self.scale))
            .arg(format!("-DEXTRA={}", self.extra))
            .args(&self.flags)
            .arg("-o")
            .args([&output, &source])
            .output()
            .unwrap_or_else(|e| panic!("cannot start {compiler}: {e}"));
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        Library::new(std::fs::read(output).expect("the compiler wrote it"))
    }
}

impl Library {
    /// A library with its key.
    pub fn new(bytes: Vec<u8>) -> Self {
        let key = format!("{}_so_blob", hex(&Sha256::digest(&bytes)));
        Library { bytes, key }
    }

    /// The named blob of the library.
    pub fn named(&self) -> (String, Blob) {
        (self.key.clone(), Blob::Bytes(self.bytes.clone()))
    }

    /// A call of this library's delegate with the weights under `weights_key`.
    pub fn delegate(&self, weights_key: &str, arguments: &[i32]) -> Delegate {
        Delegate {
            backend: "MetalBackend".into(),
            processed: format!("{}\n{weights_key}", self.key).into_bytes(),
            arguments: arguments.to_vec(),
        }
    }

    /// A program of one method, `forward`, that calls this library once: `[4]` in, `[4]` out.
    /// The blobs are what it holds under names.
    pub fn program(&self, weights_key: &str, blobs: Vec<(String, Blob)>) -> Program {
        let delegates = vec![self.delegate(weights_key, &[0, 1])];
        Program { methods: vec![Method::through("forward", 2, delegates)], named_data: blobs }
    }
}

/// The blob of a model without weights, with its key.
pub fn no_weights() -> (String, Blob) {
    let empty = Blob::Bytes(Vec::new());
    (weights_key(&empty), empty)
}

/// The key of a weights blob with these contents.
pub fn weights_key(blob: &Blob) -> String {
    let mut hash = Sha256::new();
    match blob {
        Blob::Bytes(bytes) => hash.update(bytes),
        Blob::Sparse { len, head } => {
            hash.update(head);
            let zeros = vec![0u8; 1 << 20];
            let mut rest = len - head.len() as u64;
            while rest > 0 {
                let step = rest.min(zeros.len() as u64);
                hash.update(&zeros[..step as usize]);
                rest -= step;
            }
        }
    }
    format!("{}_weights_blob", hex(&hash.finalize()))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
