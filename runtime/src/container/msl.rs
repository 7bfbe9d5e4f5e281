//! The Metal sources inside a model library.
//!
//! AOTInductor keeps each shader source as a string constant, `mps_lib_N_source`, whose symbol
//! may be stripped. The strings are found by what they say.

use super::audit::check_target;
use super::elf::Elf;
use super::macho::MachO;
use crate::Result;
use crate::device::Device;
use crate::error::Context;
use crate::library::Library;

/// Shorter strings hold no kernel.
const SHORTEST: usize = 40;

/// The Metal sources in a model library of this process's kind, in the order in which they lie
/// in it.
///
/// # Errors
/// The library is damaged or for another machine.
pub fn sources(library: &[u8]) -> Result<Vec<&str>> {
    check_target(library)?;
    let data: Vec<&[u8]> = if cfg!(target_vendor = "apple") {
        MachO::parse(library)?.constant_data()
    } else {
        Elf::parse(library)?.constant_data().collect()
    };
    Ok(sources_in(data))
}

/// The Metal sources in a model library of any kind.
///
/// # Errors
/// The library is damaged.
pub fn sources_of_any(library: &[u8]) -> Result<Vec<&str>> {
    let data: Vec<&[u8]> = if library.starts_with(b"\x7fELF") {
        Elf::parse(library)?.constant_data().collect()
    } else {
        MachO::parse(library)?.constant_data()
    };
    Ok(sources_in(data))
}

/// The Metal sources among the strings of constant data, each once.
pub(super) fn sources_in(data: Vec<&[u8]>) -> Vec<&str> {
    let strings = data.into_iter().flat_map(|bytes| bytes.split(|&byte| byte == 0));
    let mut sources: Vec<&str> = strings.map(text_at_end).filter(|s| is_source(s)).collect();
    // Segments of a damaged file may overlap; equal sources are compiled once anyway.
    let mut seen = std::collections::HashSet::new();
    sources.retain(|source| seen.insert(*source));
    sources
}

/// Compiles all Metal sources of a library, so that the first run need not, and a shader that
/// does not compile is known now. Gives each source with what it was compiled to.
///
/// # Errors
/// [`Error::ShaderCompile`](crate::Error::ShaderCompile) with the compiler's message; the first
/// one in the library's order if there are several.
pub(crate) fn precompile<'a>(
    library: &'a [u8],
    device: &dyn Device,
) -> Result<Vec<(&'a str, Library)>> {
    let sources = sources(library)?;
    let compiled = device.precompile(&sources);
    let libraries = sources.into_iter().zip(compiled).enumerate();
    libraries
        .map(|(index, (source, compiled))| {
            let label = format!("mps_lib_{index}");
            let compiled = compiled.context(|| format!("shader library \"{label}\""))?;
            Ok((source, Library::of(&label, compiled)))
        })
        .collect()
}

/// A string constant may directly follow other data: the text is what the bytes end with.
fn text_at_end(bytes: &[u8]) -> &str {
    let is_text = |&byte: &u8| byte >= b' ' || matches!(byte, b'\n' | b'\t' | b'\r');
    let start = bytes.iter().rposition(|byte| !is_text(byte)).map_or(0, |at| at + 1);
    let mut text = &bytes[start..];
    loop {
        match std::str::from_utf8(text) {
            Ok(text) => return text,
            // Bytes above 0x7f that are no text belong to the data before it.
            Err(error) => text = &text[error.valid_up_to() + 1..],
        }
    }
}

/// Whether a text defines a kernel, in Metal's language and not in a message about it.
fn is_source(text: &str) -> bool {
    text.len() >= SHORTEST
        && (text.contains("#include <metal") || text.contains("using namespace metal"))
        && (text.contains("kernel void") || text.contains("[[kernel]]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    use crate::container::fixture;

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn every_shader_of_a_real_model_is_found_whole() {
        let library = fixture::library();
        let sources = sources(&library).unwrap();
        assert_eq!(sources.len(), 3, "mlp has three shader libraries");
        for source in sources {
            assert!(source.contains("kernel void generated_kernel("));
            assert!(source.trim_start().starts_with(['#', '/']), "{:?}", &source[..40]);
            assert!(source.trim_end().ends_with('}'));
        }
    }

    #[test]
    fn text_is_cut_from_the_data_before_it() {
        assert_eq!(text_at_end(b"\x01\x02#include"), "#include");
        assert_eq!(text_at_end(b"\xff\xf0#include"), "#include");
        assert_eq!(text_at_end("größe".as_bytes()), "größe");
        assert_eq!(text_at_end(b"\x00\x03"), "");
        assert_eq!(text_at_end(b""), "");
    }
}
