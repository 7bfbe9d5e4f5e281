//! The files of a run: the program, its inputs, and what is expected.

use std::path::{Path, PathBuf};

use etmetal::runner::{HostTensor, TensorInfo, Value, ValueInfo, file, npy};
use etmetal::tensor::DType;
use etmetal::{Error, Result};
use memmap2::Mmap;

/// The files that a run uses.
pub struct Files {
    /// The program.
    pub model: PathBuf,
    /// `.npy` files, one for each input; none: inputs are made.
    pub inputs: Vec<PathBuf>,
    /// `.npy` files, one for each output; none: nothing is compared.
    pub expected: Vec<PathBuf>,
}

impl Files {
    /// `model` may be a folder that holds `model.pte`, `inputN.npy` and `outputN.npy`; files that
    /// are named explicitly take the place of those.
    ///
    /// # Errors
    /// The folder cannot be read, or the numbers of its files have gaps.
    pub fn find(model: &Path, inputs: &[PathBuf], expected: &[PathBuf]) -> Result<Self> {
        if !model.is_dir() {
            let (inputs, expected) = (inputs.into(), expected.into());
            return Ok(Self { model: model.into(), inputs, expected });
        }
        let named_or_found = |named: &[PathBuf], stem: &str| {
            if named.is_empty() { numbered(model, stem) } else { Ok(named.into()) }
        };
        Ok(Self {
            model: model_in(model),
            inputs: named_or_found(inputs, "input")?,
            expected: named_or_found(expected, "output")?,
        })
    }
}

/// The program at `path`, or in the folder there.
pub fn model_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("model.pte") } else { path.into() }
}

/// `<stem>0.npy`, `<stem>1.npy`, …: all that there are. A gap is an error, for what lies behind it
/// would silently not be used.
fn numbered(folder: &Path, stem: &str) -> Result<Vec<PathBuf>> {
    let failed = |e| Error::System(format!("cannot read {}: {e}", folder.display()));
    let number = |name: &str| -> Option<u32> {
        let digits = name.strip_prefix(stem)?.strip_suffix(".npy")?;
        digits.parse().ok().filter(|n: &u32| n.to_string() == digits)
    };
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        numbers.extend(entry.map_err(failed)?.file_name().to_str().and_then(number));
    }
    numbers.sort_unstable();
    match numbers.iter().zip(0..).find(|&(&number, wanted)| number != wanted) {
        None => Ok(numbers.iter().map(|i| folder.join(format!("{stem}{i}.npy"))).collect()),
        Some((number, wanted)) => Err(Error::InvalidArgument(format!(
            "{} has {stem}{number}.npy but no {stem}{wanted}.npy",
            folder.display()
        ))),
    }
}

/// Maps a file into memory.
///
/// # Errors
/// The file cannot be read.
pub fn map(path: &Path) -> Result<Mmap> {
    let failed = |e| Error::System(format!("cannot read {}: {e}", path.display()));
    let file = file::open(path)?;
    // SAFETY: the mapping is only read. A program that another process cuts short meanwhile would
    // end this one, as it would any user of mapped files.
    unsafe { Mmap::map(&file) }.map_err(failed)
}

/// An input and where it comes from, for people.
pub struct Input {
    /// What is given to the method.
    pub value: Value,
    /// `input0.npy`, or how it was made.
    pub source: String,
}

/// Reads the inputs of a method, or makes them if no files are given.
///
/// # Errors
/// A file cannot be read, there are too few or too many, or one has another dtype.
pub fn read(files: &[PathBuf], wanted: &[ValueInfo], seed: u64) -> Result<Vec<Input>> {
    if files.is_empty() {
        let mut random = Random(seed);
        return wanted.iter().enumerate().map(|(i, info)| make(i, info, &mut random)).collect();
    }
    // Scalars have no files: a program accepts only those it was exported with.
    let tensors = wanted.iter().filter(|info| matches!(info, ValueInfo::Tensor(_))).count();
    if files.len() != tensors {
        return Err(Error::InvalidArgument(format!(
            "{} inputs given, the method takes {tensors}: {}",
            files.len(),
            wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        )));
    }
    let mut files = files.iter();
    wanted
        .iter()
        .enumerate()
        .map(|(i, info)| match (info, files.as_slice().first()) {
            (ValueInfo::Tensor(info), Some(file)) => {
                files.next();
                read_tensor(i, file, info)
            }
            _ => make(i, info, &mut Random(seed)),
        })
        .collect()
}

fn read_tensor(index: usize, file: &Path, info: &TensorInfo) -> Result<Input> {
    let npy::Array { tensor, stored } = npy::read_array(file)?;
    let wanted = info.dtype().map_err(|e| e.context(format!("input {index}")))?;
    // Fixtures hold bfloat16 as float32. Integers are taken as they are: a wrong one is a mistake.
    let convertible = tensor.dtype().is_float() && wanted.is_float();
    if !convertible && tensor.dtype() != wanted {
        return Err(Error::InvalidArgument(format!(
            "input {index} is {stored} in {}, the method takes {wanted}",
            file.display()
        )));
    }
    let tensor = if convertible { tensor.convert(wanted) } else { tensor };
    Ok(Input { value: tensor.into(), source: file.display().to_string() })
}

fn make(index: usize, info: &ValueInfo, random: &mut Random) -> Result<Input> {
    let known = |value: Option<Value>| {
        value.ok_or_else(|| {
            Error::Unsupported(format!("input {index} is a scalar of unknown value"))
        })
    };
    let (value, source) = match info {
        ValueInfo::Tensor(info) => {
            let dtype = info.dtype().map_err(|e| e.context(format!("input {index}")))?;
            (make_tensor(dtype, info, random)?.into(), "made at random")
        }
        ValueInfo::None => (Value::None, "as exported"),
        ValueInfo::Int(value) => (known(value.map(Value::Int))?, "as exported"),
        ValueInfo::Double(value) => (known(value.map(Value::Double))?, "as exported"),
        ValueInfo::Bool(value) => (known(value.map(Value::Bool))?, "as exported"),
        ValueInfo::Other => {
            return Err(Error::Unsupported(format!(
                "input {index} is a string or a list, which cannot be given"
            )));
        }
    };
    Ok(Input { value, source: source.into() })
}

/// Floats from -1 to 1; integers 0 or 1, which are indices into nearly everything. Bounded sizes
/// are taken at their bounds.
fn make_tensor(dtype: DType, info: &TensorInfo, random: &mut Random) -> Result<HostTensor> {
    let count = info.sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
    // Memory for a damaged program's sizes is not tried.
    let count = count.filter(|&n| n <= 1 << 32).ok_or_else(|| {
        Error::InvalidProgram(format!("an input of shape {:?} is too large", info.sizes))
    })?;
    let values = (0..count).map(|_| {
        let unit = random.unit();
        if dtype.is_float() { 2.0 * unit - 1.0 } else { (2.0 * unit).floor() }
    });
    Ok(HostTensor::from_elements(info.sizes.clone(), values.map(|v| v as f32))?.convert(dtype))
}

/// SplitMix64: the same numbers from the same seed, everywhere.
struct Random(u64);

impl Random {
    /// A number from 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use etmetal::runner::Dynamism;

    use super::*;

    fn tensor(dtype: DType) -> ValueInfo {
        ValueInfo::Tensor(TensorInfo {
            dtype_code: dtype.code(),
            sizes: vec![3, 5],
            dim_order: vec![0, 1],
            dynamism: Dynamism::Bounded,
        })
    }

    fn save(folder: &Path, name: &str, tensor: &HostTensor) -> PathBuf {
        let path = folder.join(name);
        npy::write(&path, tensor).unwrap();
        path
    }

    #[test]
    fn a_folder_stands_for_the_files_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let one = HostTensor::from_elements(vec![1], [1f32]).unwrap();
        for name in ["input0.npy", "input1.npy", "input01.npy", "inputs.npy", "output0.npy"] {
            save(folder.path(), name, &one);
        }
        let files = Files::find(folder.path(), &[], &[]).unwrap();
        assert_eq!(files.model, folder.path().join("model.pte"));
        assert_eq!(files.inputs.len(), 2);
        assert_eq!(files.expected.len(), 1);
        let named = [PathBuf::from("x.npy")];
        assert_eq!(Files::find(folder.path(), &named, &[]).unwrap().inputs, named);
    }

    #[test]
    fn files_behind_a_gap_are_not_left_out_in_silence() {
        let one = HostTensor::from_elements(vec![1], [1f32]).unwrap();
        for (there, text) in [
            (["input1.npy", "output0.npy"], "input1.npy but no input0.npy"),
            (["input0.npy", "output1.npy"], "output1.npy but no output0.npy"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for name in there {
                save(folder.path(), name, &one);
            }
            let message = Files::find(folder.path(), &[], &[]).err().unwrap().to_string();
            assert!(message.contains(text), "{message}");
        }
    }

    #[test]
    fn made_inputs_are_the_same_each_time_and_differ_by_seed() {
        let wanted = [tensor(DType::F32), tensor(DType::I64)];
        let values = |seed| -> Vec<Value> {
            read(&[], &wanted, seed).unwrap().into_iter().map(|i| i.value).collect()
        };
        assert_eq!(values(1), values(1));
        assert_ne!(values(1), values(2));
        etmetal::runner::check_inputs(&values(1), &wanted).unwrap();
        let Value::Tensor(integers) = &values(1)[1] else { panic!("no tensor") };
        assert!(integers.to_f64().iter().all(|&v| v == 0.0 || v == 1.0));
        assert!(integers.to_f64().contains(&1.0));
    }

    #[test]
    fn floats_are_converted_and_integers_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let floats = HostTensor::from_elements(vec![1], [0.5f32]).unwrap();
        let file = save(folder.path(), "f.npy", &floats);
        let taken = |wanted| {
            read(std::slice::from_ref(&file), &[tensor(wanted)], 0).unwrap().remove(0).value
        };
        assert_eq!(taken(DType::Bf16), floats.convert(DType::Bf16).into());
        let message = |wanted| {
            read(std::slice::from_ref(&file), &[tensor(wanted)], 0).err().unwrap().to_string()
        };
        let refused = message(DType::I64);
        assert!(
            refused.contains("input 0 is float32 in") && refused.contains("int64"),
            "{refused}"
        );
    }

    #[test]
    fn the_number_of_files_must_be_right() {
        let files = [PathBuf::from("a.npy"), PathBuf::from("b.npy")];
        let message = read(&files, &[tensor(DType::F32)], 0).err().unwrap().to_string();
        assert_eq!(message, "2 inputs given, the method takes 1: float32 [≤3, ≤5]");
    }
}
