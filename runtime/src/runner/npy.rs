//! NumPy's `.npy` files (format versions 1 to 3).
//!
//! NumPy has no bfloat16: such tensors are written as float32, and are read back with
//! [`HostTensor::convert`]. float64 is read as float32, for Metal has no float64.

use std::io::{Read, Write};
use std::path::Path;

use super::file;
use super::host_tensor::{HostTensor, checked_numel};
use crate::error::{Context, err};
use crate::tensor::DType;
use crate::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a `.npy` file.
///
/// # Errors
/// The file cannot be read, or is not an array of numbers that a tensor can hold.
pub fn read(path: &Path) -> Result<HostTensor> {
    read_array(path).map(|array| array.tensor)
}

/// An array and how its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The array, as a tensor.
    pub tensor: HostTensor,
    /// NumPy's name of the elements' type in the file, as in `float64`.
    pub stored: String,
}

/// Reads a `.npy` file, and tells what it holds.
///
/// # Errors
/// As for [`read`].
pub fn read_array(path: &Path) -> Result<Array> {
    let mut bytes = Vec::new();
    file::open(path)?
        .read_to_end(&mut bytes)
        .map_err(|e| err!(System, "cannot read {}: {e}", path.display()))?;
    parse_array(&bytes).context(|| path.display().to_string())
}

/// Writes a `.npy` file; bfloat16 as float32. The file appears whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, tensor: &HostTensor) -> Result<()> {
    let failed = |e: std::io::Error| err!(System, "cannot write {}: {e}", path.display());
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = std::path::PathBuf::from(name);
    let written = std::fs::File::create(&part)
        .and_then(|mut file| file.write_all(&serialize(tensor)))
        .and_then(|()| std::fs::rename(&part, path));
    written.map_err(|e| {
        let _ = std::fs::remove_file(&part);
        failed(e)
    })
}

/// The tensor in the bytes of a `.npy` file.
///
/// # Errors
/// The bytes are no `.npy` file, or hold what no tensor can.
pub fn parse(bytes: &[u8]) -> Result<HostTensor> {
    parse_array(bytes).map(|array| array.tensor)
}

fn parse_array(bytes: &[u8]) -> Result<Array> {
    let (text, data) = split_header(bytes)?;
    let header = Header::parse(text)?;
    let element = header.element;
    let wanted = checked_numel(&header.sizes)
        .and_then(|n| n.checked_mul(element.size))
        .ok_or_else(|| err!(InvalidArgument, "shape {:?} is too large", header.sizes))?;
    if data.len() < wanted {
        return Err(err!(
            InvalidArgument,
            "the .npy file is cut off: {} bytes of data, shape {:?} needs {wanted}",
            data.len(),
            header.sizes
        ));
    }
    if data.len() > wanted {
        return Err(err!(
            InvalidArgument,
            "the .npy file has {} bytes too many: {} bytes of data, shape {:?} needs {wanted}",
            data.len() - wanted,
            data.len(),
            header.sizes
        ));
    }
    let mut data = data.to_vec();
    if element.big_endian != cfg!(target_endian = "big") {
        data.chunks_exact_mut(element.size).for_each(<[u8]>::reverse);
    }
    if element.float64 {
        data = data
            .chunks_exact(8)
            .flat_map(|b| {
                let mut own = [0; 8];
                own.copy_from_slice(b);
                (f64::from_ne_bytes(own) as f32).to_ne_bytes()
            })
            .collect();
    }
    let tensor = if header.fortran_order {
        let reversed: Vec<u8> = (0..header.sizes.len()).rev().map(|d| d as u8).collect();
        HostTensor::from_order(element.dtype, header.sizes, &reversed, &data)?
    } else {
        HostTensor::new(element.dtype, header.sizes, data)?
    };
    let stored = if element.float64 { "float64".into() } else { element.dtype.to_string() };
    Ok(Array { tensor, stored })
}

/// The bytes of a `.npy` file with this tensor; bfloat16 as float32.
pub fn serialize(tensor: &HostTensor) -> Vec<u8> {
    let converted;
    let tensor = if tensor.dtype() == DType::Bf16 {
        converted = tensor.convert(DType::F32);
        &converted
    } else {
        tensor
    };
    let sizes: String = tensor.sizes().iter().map(|s| format!("{s}, ")).collect();
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
        descr(tensor.dtype()),
        sizes.trim_end_matches(if tensor.sizes().len() > 1 { ", " } else { " " })
    );
    // Data starts at a multiple of 64; the header ends with a newline.
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');

    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[1, 0]);
    // At most a few hundred bytes: a tensor has at most 255 dimensions in any format read here.
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(tensor.bytes());
    out
}

fn descr(dtype: DType) -> String {
    let endian = if cfg!(target_endian = "big") { '>' } else { '<' };
    let kind = match dtype {
        DType::Bool => return "|b1".into(),
        DType::U8 => return "|u1".into(),
        DType::I8 => return "|i1".into(),
        DType::U16 | DType::U32 | DType::U64 => 'u',
        DType::I16 | DType::I32 | DType::I64 => 'i',
        DType::F16 | DType::F32 | DType::Bf16 => 'f',
    };
    format!("{endian}{kind}{}", dtype.size())
}

fn split_header(bytes: &[u8]) -> Result<(&str, &[u8])> {
    let not_npy = || err!(InvalidArgument, "not a .npy file");
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(not_npy)?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(not_npy)?;
    let length_size = match version[0] {
        1 => 2,
        2 | 3 => 4,
        other => return Err(err!(Unsupported, ".npy format version {other} is not known")),
    };
    let (length, rest) = rest.split_at_checked(length_size).ok_or_else(not_npy)?;
    let length = length.iter().rev().fold(0usize, |n, &b| n << 8 | usize::from(b));
    let (header, data) = rest.split_at_checked(length).ok_or_else(not_npy)?;
    Ok((std::str::from_utf8(header).map_err(|_| not_npy())?, data))
}

/// How one element is stored in the file, and the dtype it gets.
#[derive(Debug, Clone, Copy)]
struct StoredElement {
    dtype: DType,
    size: usize,
    big_endian: bool,
    float64: bool,
}

impl StoredElement {
    fn parse(descr: &str) -> Result<Self> {
        let (endian, kind) = descr.split_at_checked(1).unwrap_or(("", ""));
        let dtype = match kind {
            "b1" => DType::Bool,
            "u1" => DType::U8,
            "i1" => DType::I8,
            "i2" => DType::I16,
            "i4" => DType::I32,
            "i8" => DType::I64,
            "u2" => DType::U16,
            "u4" => DType::U32,
            "u8" => DType::U64,
            "f2" => DType::F16,
            "f4" | "f8" => DType::F32,
            _ => {
                return Err(err!(
                    Unsupported,
                    "an array of NumPy type {descr:?} is no tensor: use bool, (u)int8 to (u)int64 \
                     or float16 to float64"
                ));
            }
        };
        let float64 = kind == "f8";
        let big_endian = match endian {
            "<" => false,
            ">" => true,
            _ => cfg!(target_endian = "big"),
        };
        Ok(Self { dtype, size: if float64 { 8 } else { dtype.size() }, big_endian, float64 })
    }
}

#[derive(Debug)]
struct Header {
    element: StoredElement,
    fortran_order: bool,
    sizes: Vec<usize>,
}

impl Header {
    /// Reads the Python dictionary that NumPy writes:
    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
    fn parse(text: &str) -> Result<Self> {
        let bad = |what: &str| -> Error {
            err!(InvalidArgument, "the .npy header has no {what}: {}", text.trim())
        };
        let descr = value_of(text, "descr").and_then(quoted).ok_or_else(|| bad("plain 'descr'"))?;
        let order = value_of(text, "fortran_order")
            .and_then(|v| v.split([',', '}']).next())
            .and_then(|v| match v.trim_end() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            })
            .ok_or_else(|| bad("'fortran_order' of True or False"))?;
        let sizes = value_of(text, "shape")
            .and_then(|v| v.strip_prefix('('))
            .and_then(|v| v.split_once(')'))
            .and_then(|(list, _)| parse_sizes(list))
            .ok_or_else(|| bad("'shape' of at most 255 dimensions"))?;
        Ok(Self { element: StoredElement::parse(descr)?, fortran_order: order, sizes })
    }
}

/// What follows a key of the dictionary, which may stand in quotes of either kind.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let after = |quote: char| text.split_once(&format!("{quote}{key}{quote}:"));
    let (_, value) = after('\'').or_else(|| after('"'))?;
    Some(value.trim_start())
}

/// The text between the quotes that `value` begins with.
fn quoted(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    value[1..].split_once(quote).map(|(text, _)| text)
}

fn parse_sizes(list: &str) -> Option<Vec<usize>> {
    let sizes: Option<Vec<usize>> =
        list.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect();
    sizes.filter(|sizes| sizes.len() <= usize::from(u8::MAX))
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::runner::host_tensor::Element;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[1, 0]);
        bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn round_trip<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) {
        let tensor = HostTensor::from_elements(vec![values.len()], values.iter().copied()).unwrap();
        assert_eq!(parse(&serialize(&tensor)).unwrap(), tensor);
    }

    #[test]
    fn every_dtype_round_trips() {
        round_trip(&[true, false]);
        round_trip(&[0u8, 255]);
        round_trip(&[i8::MIN, 7]);
        round_trip(&[i16::MIN, 7]);
        round_trip(&[u16::MAX, 7]);
        round_trip(&[i32::MIN, 7]);
        round_trip(&[u32::MAX, 7]);
        round_trip(&[i64::MIN, 7]);
        round_trip(&[u64::MAX, 7]);
        round_trip(&[f16::from_f32(1.5), f16::MAX]);
        round_trip(&[1.5f32, f32::NEG_INFINITY]);
    }

    #[test]
    fn bfloat16_becomes_float32() {
        let tensor = HostTensor::from_elements(vec![1, 1], [bf16::from_f32(0.5)]).unwrap();
        let back = parse(&serialize(&tensor)).unwrap();
        assert_eq!(back.dtype(), DType::F32);
        assert_eq!(back.convert(DType::Bf16), tensor);
    }

    #[test]
    fn shapes_are_written_as_numpy_writes_them() {
        let header = |sizes: Vec<usize>| {
            let count = sizes.iter().product();
            let bytes = serialize(&HostTensor::from_elements(sizes, vec![0u8; count]).unwrap());
            assert_eq!((bytes.len() - count) % 64, 0);
            String::from_utf8_lossy(&bytes[10..]).into_owned()
        };
        assert!(header(vec![]).contains("'shape': (), }"));
        assert!(header(vec![3]).contains("'shape': (3,), }"));
        assert!(header(vec![2, 0, 4]).contains("'shape': (2, 0, 4), }"));
    }

    #[test]
    fn fortran_order_big_endian_and_float64_are_read() {
        let fortran = npy(
            "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n",
            &[0, 3, 1, 4, 2, 5],
        );
        assert_eq!(parse(&fortran).unwrap().elements::<u8>().unwrap(), [0, 1, 2, 3, 4, 5]);
        let big = npy("{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }\n", &[0, 0, 1, 2]);
        assert_eq!(parse(&big).unwrap().elements::<i32>().unwrap(), [258]);
        let double = npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n",
            &0.25f64.to_le_bytes(),
        );
        assert_eq!(parse(&double).unwrap().elements::<f32>().unwrap(), [0.25]);
    }

    #[test]
    fn headers_have_quotes_of_either_kind() {
        let double =
            npy("{\"descr\": \"<i2\", \"fortran_order\": False, \"shape\": (1,), }\n", &[7, 0]);
        assert_eq!(parse(&double).unwrap().elements::<i16>().unwrap(), [7]);
    }

    #[test]
    fn what_the_file_holds_is_told() {
        let stored = |descr: &str, bytes: &[u8]| {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (), }}\n");
            parse_array(&npy(&header, bytes)).unwrap().stored
        };
        assert_eq!(stored("<f8", &[0; 8]), "float64");
        assert_eq!(stored("<f4", &[0; 4]), "float32");
        assert_eq!(stored("|b1", &[0]), "bool");
    }

    #[test]
    fn damaged_files_are_refused_with_a_reason() {
        let whole = serialize(&HostTensor::from_elements(vec![4], [1f32, 2., 3., 4.]).unwrap());
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "{length} bytes");
        }
        let text = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert!(text(&whole[..whole.len() - 1]).contains("cut off"));
        assert!(text(b"PK\x03\x04").contains("not a .npy file"));
        let longer = [whole.as_slice(), &[0; 3]].concat();
        assert!(text(&longer).contains("3 bytes too many"), "{}", text(&longer));
        let maybe = npy("{'descr': '|u1', 'fortran_order': Maybe, 'shape': (), }", &[0]);
        assert!(text(&maybe).contains("True or False"), "{}", text(&maybe));
        let complex = npy("{'descr': '<c8', 'fortran_order': False, 'shape': (), }", &[0; 8]);
        assert!(text(&complex).contains("<c8"));
        let huge = npy(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }",
            &[],
        );
        assert!(text(&huge).contains("too large"));
    }

    #[test]
    fn files_appear_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let tensor = HostTensor::from_elements(vec![2], [1i64, 2]).unwrap();
        write(&path, &tensor).unwrap();
        assert_eq!(read(&path).unwrap(), tensor);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let message = read(&folder.path().join("none.npy")).unwrap_err().to_string();
        assert!(message.contains("none.npy"), "{message}");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn random_headers_never_panic(text in "[{}'a-z:<>|0-9(), TrueFals]{0,120}") {
            let _ = parse(&npy(&text, &[0; 16]));
        }
    }
}
