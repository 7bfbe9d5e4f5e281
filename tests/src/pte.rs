//! Writes ExecuTorch programs (`.pte`) from parts: for tests of what no exporter makes.
//!
//! The layout is that of ExecuTorch's `schema/program.fbs` and of the extended header in
//! `exir/_serialize/_program.py`: flatbuffer with the identifier `ET12`, a 32-byte `eh00` header
//! after the first 8 bytes, then the segments.

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, UOffsetT, Vector, WIPOffset};

type Table = WIPOffset<flatbuffers::TableFinishedWIPOffset>;

/// `executorch_flatbuffer.ScalarType.FLOAT`.
const FLOAT: i8 = 6;
/// Members of the unions, by position in the schema.
const KERNEL_TYPES_TENSOR: u8 = 5;
const INSTRUCTION_DELEGATE_CALL: u8 = 2;
/// Segments start on pages, so that they can be mapped.
const SEGMENT_ALIGNMENT: usize = 16384;
const HEADER_LENGTH: usize = 32;

/// One call of a delegate inside a method.
#[derive(Debug, Clone)]
pub struct Delegate {
    /// The backend's name.
    pub backend: String,
    /// What its `init` gets.
    pub processed: Vec<u8>,
    /// Values it reads, then values it writes: indices into [`Method::values`].
    pub arguments: Vec<i32>,
}

/// One method: float32 tensors and the delegates that run over them, in order.
#[derive(Debug, Clone)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// Sizes of each float32 value.
    pub values: Vec<Vec<i32>>,
    /// Values that are inputs.
    pub inputs: Vec<i32>,
    /// Values that are outputs.
    pub outputs: Vec<i32>,
    /// Delegate calls, in order.
    pub delegates: Vec<Delegate>,
}

/// A whole program.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Its methods.
    pub methods: Vec<Method>,
    /// Named blobs; delegates look them up by key.
    pub named_data: Vec<(String, Blob)>,
}

/// The bytes of a named blob.
#[derive(Debug, Clone)]
pub enum Blob {
    /// As given.
    Bytes(Vec<u8>),
    /// This many bytes that begin with the given ones; the rest is zero and takes no room on disk.
    Sparse {
        /// Bytes in all.
        len: u64,
        /// The first ones.
        head: Vec<u8>,
    },
}

impl Blob {
    fn len(&self) -> u64 {
        match self {
            Blob::Bytes(bytes) => bytes.len() as u64,
            Blob::Sparse { len, .. } => *len,
        }
    }

    fn head(&self) -> &[u8] {
        match self {
            Blob::Bytes(bytes) => bytes,
            Blob::Sparse { head, .. } => head,
        }
    }
}

impl Method {
    /// A method over this many values of four floats, the first its input, the last its output.
    pub fn through(name: &str, values: usize, delegates: Vec<Delegate>) -> Self {
        Method {
            name: name.into(),
            values: vec![vec![4]; values],
            inputs: vec![0],
            outputs: vec![values as i32 - 1],
            delegates,
        }
    }
}

impl Program {
    /// Writes the program to `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &std::path::Path) -> std::io::Result<()> {
        use std::io::{Seek, SeekFrom, Write};
        let mut segments = Vec::new();
        let mut end = 0u64;
        for (_, blob) in &self.named_data {
            segments.push((end, blob.len()));
            end = (end + blob.len()).next_multiple_of(SEGMENT_ALIGNMENT as u64);
        }
        let (bytes, base) = with_header(&self.flatbuffer(&segments), end);
        let mut file = std::fs::File::create(path)?;
        file.write_all(&bytes)?;
        for ((offset, _), (_, blob)) in segments.iter().zip(&self.named_data) {
            file.seek(SeekFrom::Start(base + offset))?;
            file.write_all(blob.head())?;
        }
        file.set_len(base + end)
    }

    fn flatbuffer(&self, segments: &[(u64, u64)]) -> Vec<u8> {
        let mut b = FlatBufferBuilder::new();
        let mut processed = Vec::new();
        let plans: Vec<Table> =
            self.methods.iter().map(|m| plan(&mut b, m, &mut processed)).collect();
        let inline: Vec<Table> = processed
            .iter()
            .map(|bytes| {
                let data = b.create_vector(bytes);
                table(&mut b, |b, s| b.push_slot_always(s(0), data))
            })
            .collect();
        let segments: Vec<Table> = segments
            .iter()
            .map(|&(offset, size)| {
                table(&mut b, |b, s| {
                    b.push_slot_always(s(0), offset);
                    b.push_slot_always(s(1), size);
                })
            })
            .collect();
        let named: Vec<Table> = self
            .named_data
            .iter()
            .enumerate()
            .map(|(i, (key, _))| {
                let key = b.create_string(key);
                table(&mut b, |b, s| {
                    b.push_slot_always(s(0), key);
                    b.push_slot_always(s(1), i as u32);
                })
            })
            .collect();
        let plans = b.create_vector(&plans);
        let inline = b.create_vector(&inline);
        let segments = b.create_vector(&segments);
        let named = b.create_vector(&named);
        // No constants: the first entry is reserved for tensors that are none.
        let offsets = b.create_vector(&[0u64]);
        let constant_segment = table(&mut b, |b, s| {
            b.push_slot_always(s(0), 0u32);
            b.push_slot_always(s(1), offsets);
        });
        let program = table(&mut b, |b, s| {
            b.push_slot_always(s(1), plans);
            b.push_slot_always(s(3), inline);
            b.push_slot_always(s(4), segments);
            b.push_slot_always(s(5), constant_segment);
            b.push_slot_always(s(7), named);
        });
        b.finish(program, Some("ET12"));
        b.finished_data().to_vec()
    }
}

/// A table whose fields `fill` pushes; `slot` turns a field's position into its vtable offset.
fn table(
    b: &mut FlatBufferBuilder<'_>,
    fill: impl FnOnce(&mut FlatBufferBuilder<'_>, fn(u16) -> u16),
) -> Table {
    let start = b.start_table();
    fill(b, |field| 4 + 2 * field);
    b.end_table(start)
}

fn plan(b: &mut FlatBufferBuilder<'_>, method: &Method, processed: &mut Vec<Vec<u8>>) -> Table {
    let mut offset = 0u32;
    let values: Vec<Table> = method
        .values
        .iter()
        .map(|sizes| {
            let value = tensor(b, sizes, offset);
            let bytes = sizes.iter().product::<i32>() as u32 * 4;
            offset += bytes.next_multiple_of(16);
            table(b, |b, s| {
                b.push_slot_always(s(0), KERNEL_TYPES_TENSOR);
                b.push_slot_always(s(1), value);
            })
        })
        .collect();
    let delegates: Vec<Table> =
        method.delegates.iter().map(|d| delegate(b, method, d, processed)).collect();
    let instructions: Vec<Table> = method
        .delegates
        .iter()
        .enumerate()
        .map(|(i, d)| {
            let arguments = b.create_vector(&d.arguments);
            let call = table(b, |b, s| {
                b.push_slot_always(s(0), i as i32);
                b.push_slot_always(s(1), arguments);
            });
            table(b, |b, s| {
                b.push_slot_always(s(0), INSTRUCTION_DELEGATE_CALL);
                b.push_slot_always(s(1), call);
            })
        })
        .collect();
    let chain = {
        let none = b.create_vector::<i32>(&[]);
        let instructions = b.create_vector(&instructions);
        table(b, |b, s| {
            b.push_slot_always(s(0), none);
            b.push_slot_always(s(1), none);
            b.push_slot_always(s(2), instructions);
        })
    };
    let name = b.create_string(&method.name);
    let empty = b.create_string("");
    let meta = table(b, |b, s| {
        b.push_slot_always(s(0), empty);
        b.push_slot_always(s(1), empty);
    });
    let values = b.create_vector(&values);
    let inputs = b.create_vector(&method.inputs);
    let outputs = b.create_vector(&method.outputs);
    let chains = b.create_vector(&[chain]);
    let operators: WIPOffset<Vector<'_, ForwardsUOffset<UOffsetT>>> = {
        b.start_vector::<ForwardsUOffset<UOffsetT>>(0);
        b.end_vector(0)
    };
    let delegates = b.create_vector(&delegates);
    let buffers = b.create_vector(&[0i64, i64::from(offset)]);
    table(b, |b, s| {
        b.push_slot_always(s(0), name);
        b.push_slot_always(s(1), meta);
        b.push_slot_always(s(2), values);
        b.push_slot_always(s(3), inputs);
        b.push_slot_always(s(4), outputs);
        b.push_slot_always(s(5), chains);
        b.push_slot_always(s(6), operators);
        b.push_slot_always(s(7), delegates);
        b.push_slot_always(s(8), buffers);
    })
}

fn tensor(b: &mut FlatBufferBuilder<'_>, sizes: &[i32], offset: u32) -> Table {
    let order: Vec<u8> = (0..sizes.len() as u8).collect();
    let sizes = b.create_vector(sizes);
    let order = b.create_vector(&order);
    let allocation = table(b, |b, s| {
        b.push_slot_always(s(0), 1u32);
        b.push_slot_always(s(1), offset);
        b.push_slot_always(s(2), 0u32);
    });
    table(b, |b, s| {
        b.push_slot_always(s(0), FLOAT);
        b.push_slot_always(s(1), 0i32);
        b.push_slot_always(s(2), sizes);
        b.push_slot_always(s(3), order);
        b.push_slot_always(s(5), 0u32);
        b.push_slot_always(s(6), allocation);
    })
}

fn delegate(
    b: &mut FlatBufferBuilder<'_>,
    method: &Method,
    delegate: &Delegate,
    processed: &mut Vec<Vec<u8>>,
) -> Table {
    let id = b.create_string(&delegate.backend);
    let reference = table(b, |b, s| {
        b.push_slot_always(s(0), 0i8); // inline
        b.push_slot_always(s(1), processed.len() as u32);
    });
    processed.push(delegate.processed.clone());
    let spec = {
        let key = b.create_string("method_name");
        let value = b.create_vector(method.name.as_bytes());
        table(b, |b, s| {
            b.push_slot_always(s(0), key);
            b.push_slot_always(s(1), value);
        })
    };
    let specs = b.create_vector(&[spec]);
    table(b, |b, s| {
        b.push_slot_always(s(0), id);
        b.push_slot_always(s(1), reference);
        b.push_slot_always(s(2), specs);
    })
}

/// Puts the extended header after the root offset and the identifier, and pads to the segments.
/// Gives the bytes and where the segments begin.
fn with_header(flatbuffer: &[u8], segment_bytes: u64) -> (Vec<u8>, u64) {
    let root = u32::from_le_bytes(flatbuffer[..4].try_into().unwrap());
    let program_size = flatbuffer.len() + HEADER_LENGTH;
    let base = program_size.next_multiple_of(SEGMENT_ALIGNMENT) as u64;
    let mut bytes = Vec::with_capacity(base as usize);
    bytes.extend((root + HEADER_LENGTH as u32).to_le_bytes());
    bytes.extend(&flatbuffer[4..8]);
    bytes.extend(b"eh00");
    bytes.extend((HEADER_LENGTH as u32).to_le_bytes());
    bytes.extend((program_size as u64).to_le_bytes());
    bytes.extend(base.to_le_bytes());
    bytes.extend(segment_bytes.to_le_bytes());
    bytes.extend(&flatbuffer[8..]);
    bytes.resize(base as usize, 0);
    (bytes, base)
}
