//! Code signatures of Mach-O files: who signed, and whether the bytes are still those.

use anyhow::Result;
use object::Endianness;
use object::endian::BigEndian;
use object::macho;
use object::read::macho::{CodeDirectory, CodeSignature, LoadCommandVariant, MachHeader};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Who signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signer {
    /// Nobody.
    Nobody,
    /// The linker, without an identity.
    Linker,
    /// Somebody, without an identity.
    AdHoc,
    /// Somebody with a certificate.
    Identity,
}

/// A code signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// Who signed.
    pub signer: Signer,
    /// The name in the signature.
    pub identifier: String,
    /// Pages whose hashes were compared.
    pub pages: usize,
    /// Offsets in the file of pages that are not what was signed.
    pub changed_pages: Vec<u64>,
    /// What is wrong with the signature itself.
    pub problem: Option<String>,
}

impl Signature {
    fn new(signer: Signer) -> Self {
        let (identifier, changed_pages) = (String::new(), Vec::new());
        Self { signer, identifier, pages: 0, changed_pages, problem: None }
    }

    /// Reads and checks the signature of a thin file.
    ///
    /// # Errors
    /// The load commands are damaged. A damaged signature is a [`Signature::problem`].
    pub fn read<M: MachHeader<Endian = Endianness>>(header: &M, bytes: &[u8]) -> Result<Self> {
        let endian = header.endian()?;
        let mut commands = header.load_commands(endian, bytes, 0)?;
        while let Some(command) = commands.next()? {
            if command.cmd() != macho::LC_CODE_SIGNATURE {
                continue;
            }
            let LoadCommandVariant::LinkeditData(place) = command.variant()? else { continue };
            let start = u64::from(place.dataoff.get(endian));
            let mut signature = Self::new(Signer::AdHoc);
            if let Err(problem) = place
                .code_signature(endian, bytes)
                .map_err(anyhow::Error::from)
                .and_then(|blobs| signature.check(&blobs, start, bytes))
            {
                signature.problem = Some(problem.to_string());
            }
            return Ok(signature);
        }
        Ok(Self::new(Signer::Nobody))
    }

    fn check(&mut self, blobs: &CodeSignature<'_>, start: u64, bytes: &[u8]) -> Result<()> {
        let mut directories = Vec::new();
        let mut certified = false;
        for blob in blobs.blobs() {
            let blob = blob?;
            if blob.slot() == macho::CSSLOT_SIGNATURESLOT {
                certified = !blob.contents().is_empty();
            }
            directories.extend(blob.code_directory()?);
        }
        // The strongest hash counts; the system looks at no other.
        let best = directories.iter().max_by_key(|d| d.header().hash_type.0);
        let best = best.ok_or_else(|| anyhow::anyhow!("it holds no code directory"))?;
        let flags = best.header().flags.get(BigEndian);
        self.identifier = String::from_utf8_lossy(best.ident()?).into_owned();
        self.signer = match () {
            () if certified => Signer::Identity,
            () if flags.contains(macho::CS_LINKER_SIGNED) => Signer::Linker,
            () => Signer::AdHoc,
        };
        self.check_pages(best, start, bytes)
    }

    fn check_pages(
        &mut self,
        directory: &CodeDirectory<'_>,
        start: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let header = directory.header();
        let hash_type = header.hash_type;
        let size = usize::from(header.hash_size);
        let known =
            matches!(hash_type, macho::CS_HASHTYPE_SHA256 | macho::CS_HASHTYPE_SHA256_TRUNCATED);
        anyhow::ensure!(
            known && (1..=32).contains(&size),
            "its hashes (type {}, {size} bytes) cannot be checked here: sign with SHA-256",
            hash_type.0
        );
        let limit = directory.code_limit();
        anyhow::ensure!(
            limit <= start && limit <= bytes.len() as u64,
            "it covers {limit} bytes, but begins at {start}"
        );
        let (limit, shift) = (limit as usize, header.page_size);
        // 0 stands for one page as long as the file.
        let page = if shift == 0 { limit.max(1) } else { 1usize << shift.min(40) };
        let pages = limit.div_ceil(page);
        let slots = header.n_code_slots.get(BigEndian);
        anyhow::ensure!(
            u64::from(slots) == pages as u64,
            "it has {slots} hashes for {pages} pages"
        );
        for (index, page_bytes) in bytes[..limit].chunks(page).enumerate() {
            let hash = Sha256::digest(page_bytes);
            if directory.code_hash(index as u32)? != &hash[..size] {
                self.changed_pages.push((index * page) as u64);
            }
        }
        self.pages = pages;
        Ok(())
    }
}
