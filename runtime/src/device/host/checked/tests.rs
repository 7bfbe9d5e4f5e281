//! Faulty kernels of each kind, and what is said about them; kernels that only look faulty.

use std::sync::{Arc, OnceLock};

use super::super::{HostDevice, Options};
use crate::Error;
use crate::device::{Argument, BufferRef, Device as _, Dispatch, Grid};

/// A device of the checked mode.
fn device() -> &'static HostDevice {
    static DEVICE: OnceLock<HostDevice> = OnceLock::new();
    DEVICE.get_or_init(|| {
        HostDevice::new(Options { threads: 2, pool_bytes: 1 << 24, checked: true, fission: true })
    })
}

/// One call of the kernel `k`.
struct Call {
    source: String,
    arguments: Vec<Option<Argument>>,
    threadgroup_memory: Vec<u32>,
    grid: Grid,
}

impl Call {
    /// A call of `k` with this body, `threads` threads in groups of `group`. The parameters go on
    /// the second line of the source, the body starts on the third.
    fn new(parameters: &str, body: &str, threads: u32, group: u32) -> Call {
        let source = format!(
            "#include <metal_stdlib>\nusing namespace metal; kernel void k({parameters}) {{\n{body}\n}}"
        );
        let grid = Grid::Threads { threads: [threads, 1, 1], group: [group, 1, 1] };
        Call { source, arguments: Vec::new(), threadgroup_memory: Vec::new(), grid }
    }

    fn buffer(mut self, buffer: &BufferRef) -> Call {
        self.arguments.push(Some(Argument::Buffer {
            buffer: buffer.clone(),
            offset: 0,
            extent: None,
            dtype: None,
        }));
        self
    }

    /// Words `range` of a buffer.
    fn words(mut self, buffer: &BufferRef, range: std::ops::Range<usize>) -> Call {
        let extent = Some(4 * range.len());
        let offset = 4 * range.start;
        let buffer = buffer.clone();
        self.arguments.push(Some(Argument::Buffer { buffer, offset, extent, dtype: None }));
        self
    }

    fn run(&self) -> crate::Result<()> {
        let pipeline = device().compile(&self.source)?.pipeline("k")?;
        let mut commands = device().command_buffer()?;
        commands.dispatch(&Dispatch {
            pipeline: &pipeline,
            library: Some(&"mps_lib_7".into()),
            arguments: &self.arguments,
            threadgroup_memory: &self.threadgroup_memory,
            grid: self.grid,
        })?;
        commands.commit()?.wait()
    }

    /// What the call is stopped with.
    fn error(&self) -> String {
        let error = self.run().expect_err("a faulty kernel ran");
        assert!(matches!(error, Error::Execution(_)), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("kernel \"k\" of shader library \"mps_lib_7\": "), "{text}");
        text
    }

    /// The error, which contains all of `parts`.
    fn fails(&self, parts: &[&str]) {
        let text = self.error();
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    fn passes(&self) {
        self.run().unwrap_or_else(|error| panic!("{error}\n{}", self.source));
    }
}

/// A buffer of so many words, which are 0.
fn buffer(words: usize) -> BufferRef {
    let buffer = device().allocate(4 * words).unwrap();
    // SAFETY: a new buffer's own bytes.
    unsafe { buffer.contents().write_bytes(0, 4 * words) };
    buffer
}

fn contents(buffer: &BufferRef) -> &[u32] {
    // SAFETY: all words were written, and no work is under way.
    unsafe { std::slice::from_raw_parts(buffer.contents().cast(), buffer.len() / 4) }
}

const OUT_AND_IN: &str =
    "device float* out, device const float* in, uint i [[thread_position_in_grid]]";
const TILE: &str = "device float* out, uint i [[thread_position_in_grid]], \
     uint t [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], \
     uint s [[simdgroup_index_in_threadgroup]]";

#[test]
fn a_load_past_the_end_is_named_with_everything_that_is_known() {
    let (out, input) = (buffer(200), buffer(100));
    let call = Call::new(OUT_AND_IN, "  float x = 1.0;\n  out[i] = x + in[i];", 104, 64);
    let text = call.buffer(&out).buffer(&input).error();
    assert_eq!(
        text,
        "kernel \"k\" of shader library \"mps_lib_7\": load of 4 bytes out of bounds: buffer(1) \
         \"in\" of 400 bytes, accessed at byte offset 400, in MSL line 4:16:\n    \
         out[i] = x + in[i];\nby the thread at [100, 0, 0] of the grid, [36, 0, 0] of its \
         threadgroup, threadgroup [1, 0, 0]"
    );
    assert!(contents(&out)[100..].iter().all(|&word| word == 0), "nothing is done after it");
}

#[test]
fn a_store_past_the_end_is_not_done() {
    let (out, input) = (buffer(64), buffer(64));
    let call = Call::new(OUT_AND_IN, "out[i + 1] = 7 + in[i];", 64, 64);
    call.words(&out, 0..32).buffer(&input).fails(&[
        "store of 4 bytes out of bounds: buffer(0) \"out\" of 128 bytes",
        "byte offset 128, in MSL line 3:12",
        "[31, 0, 0] of the grid",
    ]);
    assert_eq!(contents(&out)[31], 7f32.to_bits());
    assert!(contents(&out)[32..].iter().all(|&word| word == 0));
}

#[test]
fn offsets_may_be_negative() {
    let (out, input) = (buffer(64), buffer(64));
    let body = "out[i] = in[int(i) - 1];";
    let call = Call::new(OUT_AND_IN, body, 64, 64).buffer(&out).words(&input, 32..64);
    call.fails(&["buffer(1) \"in\" of 128 bytes, accessed at byte offset -4"]);
}

#[test]
fn wild_indices_are_told_with_what_is_nearest() {
    let (out, input) = (buffer(64), buffer(64));
    let call = |body| Call::new(OUT_AND_IN, body, 64, 64).buffer(&out).buffer(&input);
    call("out[i] = in[i * 0x10000000ul];")
        .fails(&["load of 4 bytes out of bounds: far from every"]);
    let text = call("out[i + 0x10000000000ul] = in[i];").error();
    assert!(text.contains("the nearest is buffer(0) \"out\" of 256 bytes"), "{text}");
}

#[test]
fn a_neighbour_that_is_read_only_is_not_stored_to() {
    let both = buffer(64);
    let call = Call::new(OUT_AND_IN, "out[i + 4] = in[i];", 32, 32);
    call.words(&both, 0..32).words(&both, 32..64).fails(&[
        "store of 4 bytes out of bounds: it hits the read-only buffer(1) \"in\" of 128 bytes at \
         byte offset 0",
        "[28, 0, 0] of the grid",
    ]);
    assert!(contents(&both)[32..].iter().all(|&word| word == 0));
}

#[test]
fn wide_and_odd_accesses_are_seen_whole() {
    let parameters = "device float4* out, device const float4* in, device char* small, \
         uint i [[thread_position_in_grid]]";
    let (out, input, small) = (buffer(64), buffer(63), buffer(8));
    let call = |body: &str, bytes: usize| {
        let call = Call::new(parameters, body, 16, 16);
        call.buffer(&out).buffer(&input).words(&small, 0..bytes / 4)
    };
    call("out[i] = in[i];", 4).fails(&["buffer(1) \"in\" of 252 bytes", "[15, 0, 0] of the grid"]);
    call("small[i] = 1;", 12).fails(&["store of 1 byte", "byte offset 12", "[12, 0, 0]"]);
    let structure = "struct S { float a[9]; };\n";
    let parameters = "device S* out, device const S* in, uint i [[thread_position_in_grid]]";
    let mut call = Call::new(parameters, "out[i] = in[i];", 2, 2).buffer(&out).buffer(&input);
    call.source = call.source.replace("kernel void", &format!("{structure}kernel void"));
    call.passes();
    let mut call = Call::new(parameters, "out[i] = in[i];", 2, 2).buffer(&out).words(&input, 0..17);
    call.source = call.source.replace("kernel void", &format!("{structure}kernel void"));
    call.fails(&["load of", "buffer(1) \"in\" of 68 bytes", "[1, 0, 0] of the grid"]);
}

#[test]
fn atomics_stay_inside_as_well() {
    let parameters = "device atomic_uint* count, uint i [[thread_position_in_grid]]";
    let body = "atomic_fetch_add_explicit(&count[i % 5], 1u, memory_order_relaxed);";
    let count = buffer(8);
    let call = Call::new(parameters, body, 100, 10);
    call.words(&count, 0..4).fails(&["store of 4 bytes", "buffer(0) \"count\" of 16 bytes", "3:1"]);
    Call::new(parameters, body, 100, 10).words(&count, 0..5).passes();
}

#[test]
fn the_place_of_what_a_function_does_is_in_the_function() {
    let (out, input) = (buffer(64), buffer(63));
    let mut call = Call::new(OUT_AND_IN, "out[i] = pick(in, i);", 64, 64);
    let function =
        "float pick(device const float* from,\n           uint at) {\n  return from[at]; }\n";
    call.source = call
        .source
        .replace("using namespace metal; ", &format!("using namespace metal;\n{function}"));
    call.buffer(&out).buffer(&input).fails(&["in MSL line 5:", "return from[at];"]);
}

#[test]
fn positions_in_three_dimensions_are_told() {
    let parameters = "device uint* out, uint3 at [[thread_position_in_grid]]";
    let body = "out[(at.z * 5 + at.y) * 6 + at.x] = 1;";
    let mut call = Call::new(parameters, body, 1, 1).buffer(&buffer(5 * 6 * 3 - 1));
    call.grid = Grid::Threads { threads: [6, 5, 3], group: [4, 2, 2] };
    call.fails(&[
        "[5, 4, 2] of the grid, [1, 0, 0] of its threadgroup, threadgroup [1, 2, 1]",
        "byte offset 356",
    ]);
}

#[test]
fn threadgroup_variables_end_where_they_end() {
    let body = "threadgroup float a[64];\nthreadgroup float b[64];\na[t] = 1; b[t + 1] = 2;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = a[t] + b[t];";
    let call = Call::new(TILE, body, 64, 64).buffer(&buffer(64));
    call.fails(&[
        "store of 4 bytes out of bounds: threadgroup variable \"b\" of 256 bytes, accessed at \
         byte offset 256, in MSL line 5:",
        "[63, 0, 0] of the grid",
    ]);
    let body = body.replace("b[t + 1]", "b[t]").replace("a[t] + b[t]", "a[int(t) - 1] + b[t]");
    let call = Call::new(TILE, &body, 64, 64).buffer(&buffer(64));
    call.fails(&[
        "load of 4 bytes",
        "threadgroup variable \"a\"",
        "byte offset -4, in MSL line 7:",
    ]);
}

#[test]
fn threadgroup_arguments_end_where_they_end() {
    let parameters = "device float* out, threadgroup float* tile [[threadgroup(0)]], \
         threadgroup float* more [[threadgroup(1)]], uint t [[thread_index_in_threadgroup]]";
    let body = "tile[t] = 1; more[t] = 2; out[t] = tile[t] + more[t];";
    let mut call = Call::new(parameters, body, 64, 64).buffer(&buffer(64));
    call.threadgroup_memory = vec![256, 256];
    call.passes();
    call.threadgroup_memory = vec![128, 256];
    call.fails(&["threadgroup(0) \"tile\" of 128 bytes, accessed at byte offset 128"]);
    call.threadgroup_memory = vec![256, 128];
    call.fails(&["threadgroup(1) \"more\" of 128 bytes, accessed at byte offset 128"]);
    call.threadgroup_memory = vec![32 << 10, 16];
    let text = call.run().unwrap_err().to_string();
    assert!(text.contains("exceed the 32768 of Metal"), "{text}");
}

#[test]
fn the_limit_of_threadgroup_memory_counts_no_gaps() {
    let body = "threadgroup float a[4096]; threadgroup float b[4095]; threadgroup float c;\n\
         a[t] = 1; b[t] = 2; if (t == 0) c = 3;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = a[t] + b[t] + c;";
    let call = |body: &str| Call::new(TILE, body, 64, 64).buffer(&buffer(64));
    call(&body.replace("4095", "4092")).passes();
    let text = call(&body.replace("4095", "4096")).run().unwrap_err().to_string();
    assert!(text.contains("bytes of threadgroup memory"), "{text}");
}

#[test]
fn a_load_without_a_barrier_after_the_store_is_found() {
    let body = "threadgroup float a[64];\na[t] = t;\nout[i] = a[63 - t];";
    Call::new(TILE, body, 64, 64).buffer(&buffer(64)).fails(&[
        "missing barrier: ",
        " of 4 bytes at byte offset",
        "of threadgroup variable \"a\" of 256 bytes, in MSL line",
        "\nwhich the thread at [",
        "MSL line 4:6:\n    a[t] = t;\n",
        "MSL line 5:10:\n    out[i] = a[63 - t];\n",
    ]);
}

#[test]
fn a_store_without_a_barrier_after_the_load_is_found() {
    let body = "threadgroup float a[64];\na[t] = t;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\nfloat x = a[63 - t];\na[t] = x;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = a[t];";
    let call = Call::new(TILE, body, 64, 64).buffer(&buffer(64));
    call.fails(&["missing barrier: ", "MSL line 6:11:", "MSL line 7:6:"]);
    let body = body.replace("a[t] = x;", "threadgroup_barrier(mem_flags::mem_none); a[t] = x;");
    Call::new(TILE, &body, 64, 64).buffer(&buffer(64)).passes();
}

#[test]
fn two_stores_without_a_barrier_are_found() {
    let body = "threadgroup float a[4];\na[t / 16] = t;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = a[t / 16];";
    let call = Call::new(TILE, body, 64, 64).buffer(&buffer(64));
    call.fails(&["missing barrier: store", "has stored to", "line 4:11"]);
}

#[test]
fn threads_may_store_the_same_value() {
    let body = "threadgroup int any;\nany = 0;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\nif (i > 5) any = VALUE;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = any;";
    let out = buffer(64);
    let call = |value: &str| Call::new(TILE, &body.replace("VALUE", value), 64, 64).buffer(&out);
    call("1").passes();
    assert_eq!(contents(&out), [1f32.to_bits(); 64]);
    // Nothing comes after the last store of this one.
    call("i > 62 ? 2 : 1").fails(&["missing barrier: store of 4 bytes", "[63, 0, 0]", "line 6:"]);
    let last = "threadgroup int any;\nout[i] = 1; any = i / 63;";
    Call::new(TILE, last, 64, 64).buffer(&out).fails(&["missing barrier: store", "[63, 0, 0]"]);
}

#[test]
fn simd_groups_race_with_each_other() {
    // Lanes of one SIMD group are ordered by its operations; the other group's are not.
    let body = "threadgroup float a[64];\na[t] = t;\nfloat x = simd_sum(a[t]);\n\
         out[i] = x + a[BESIDE];\n";
    let call =
        |beside: &str| Call::new(TILE, &body.replace("BESIDE", beside), 64, 64).buffer(&buffer(64));
    call("t ^ 1").passes();
    call("(t + 32) % 64").fails(&["missing barrier: ", "line 6:", "line 4:"]);
    // Many lanes load, their SIMD group meets, and a lane of another group stores.
    let body = "threadgroup float a[64];\nif (t == 0) a[0] = 1;\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\nfloat x = simd_sum(a[0]);\n\
         if (t == WRITER) a[0] = x;\nout[i] = x;";
    let call =
        |writer: &str| Call::new(TILE, &body.replace("WRITER", writer), 96, 96).buffer(&buffer(96));
    call("95").fails(&["missing barrier: store", "line 7:", "has loaded, in MSL line 6:"]);
    call("0").fails(&["missing barrier: store", "line 7:"]);
    call("99").passes();
}

#[test]
fn only_lanes_that_take_part_are_ordered() {
    let body = "threadgroup float a[32];\na[t] = t;\nfloat x = 0;\n\
         if (t < PART) { x = simd_sum(1.0f); x += a[OTHER]; }\nout[i] = x;";
    let call = |part: &str, other: &str| {
        let body = body.replace("PART", part).replace("OTHER", other);
        Call::new(TILE, &body, 32, 32).buffer(&buffer(32))
    };
    call("8", "7 - t").passes();
    call("8", "15 - t").fails(&["missing barrier: load"]);
    let barrier =
        body.replace("a[t] = t;", "a[t] = t; simdgroup_barrier(mem_flags::mem_threadgroup);");
    let barrier = barrier.replace("PART", "8").replace("OTHER", "15 - t");
    Call::new(TILE, &barrier, 32, 32).buffer(&buffer(32)).passes();
}

#[test]
fn atomics_do_not_race_with_each_other_but_with_plain_accesses() {
    let body = "threadgroup atomic_uint n;\nif (t == 0) atomic_store_explicit(&n, 0, memory_order_relaxed);\n\
         threadgroup_barrier(mem_flags::mem_threadgroup);\n\
         atomic_fetch_add_explicit(&n, 1, memory_order_relaxed);\nBARRIER\n\
         out[i] = LOAD;";
    let plain = "*(threadgroup uint*)&n";
    let atomic = "atomic_load_explicit(&n, memory_order_relaxed)";
    let barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);";
    let call = |barrier: &str, load: &str| {
        let body = body.replace("BARRIER", barrier).replace("LOAD", load);
        Call::new(TILE, &body, 64, 64)
    };
    let out = buffer(64);
    call(barrier, atomic).buffer(&out).passes();
    assert_eq!(contents(&out), [64f32.to_bits(); 64]);
    call(barrier, plain).buffer(&out).passes();
    call("", atomic).buffer(&out).passes();
    call("", plain).buffer(&out).fails(&["missing barrier: ", "line 6:", "line 8:"]);
}

#[test]
fn reductions_through_threadgroup_memory_are_fine() {
    let body = "threadgroup float partial[32]; threadgroup float total;\n\
         for (uint round = 0; round < 3; round++) {\n\
           float x = simd_sum(float(i + round));\n\
           if (lane == 0) partial[s] = x;\n\
           threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           if (s == 0) { float y = simd_sum(lane < 8 ? partial[lane] : 0); if (lane == 0) total = y; }\n\
           threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           out[i] = total;\n\
         }";
    let out = buffer(1024);
    Call::new(TILE, body, 1024, 256).buffer(&out).passes();
    let sum = |group: u32| (0..256).map(|t| group * 256 + t + 2).sum::<u32>() as f32;
    for (i, &word) in contents(&out).iter().enumerate() {
        assert_eq!(f32::from_bits(word), sum(i as u32 / 256), "{i}");
    }
    // The second barrier is what keeps `total` until everybody has read it.
    let without = body.replacen(
        "total = y; }\nthreadgroup_barrier(mem_flags::mem_threadgroup);",
        "total = y; }",
        1,
    );
    assert_ne!(without, body);
    Call::new(TILE, &without, 1024, 256).buffer(&out).fails(&["missing barrier", "\"total\""]);
}

#[test]
fn a_device_goes_on_after_a_fault() {
    let (out, input) = (buffer(64), buffer(63));
    let faulty = Call::new(OUT_AND_IN, "out[i] = in[i];", 64, 64).buffer(&out).buffer(&input);
    let fine =
        Call::new(OUT_AND_IN, "out[i] = in[i % 63] + 1;", 64, 64).buffer(&out).buffer(&input);
    for _ in 0..3 {
        faulty.error();
        fine.passes();
        assert_eq!(contents(&out), [1f32.to_bits(); 64]);
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (out, input) = (buffer(4096), buffer(4095));
                let call = Call::new(OUT_AND_IN, "out[i] = in[i];", 4096, 64);
                call.buffer(&out).buffer(&input).fails(&["buffer(1) \"in\"", "[4095, 0, 0]"]);
            });
        }
    });
}

#[test]
fn the_rest_of_a_command_buffer_is_not_run() {
    let (out, input) = (buffer(64), buffer(63));
    let pipeline = |body: &str| {
        let call = Call::new(OUT_AND_IN, body, 64, 64);
        device().compile(&call.source).unwrap().pipeline("k").unwrap()
    };
    let call = Call::new("", "", 64, 64).buffer(&out).buffer(&input);
    let mut commands = device().command_buffer().unwrap();
    for pipeline in [pipeline("out[i] = 1;"), pipeline("out[i] = in[i];"), pipeline("out[i] = 3;")]
    {
        let library = Arc::from("lib");
        let dispatch = Dispatch {
            pipeline: &pipeline,
            library: Some(&library),
            arguments: &call.arguments,
            threadgroup_memory: &[],
            grid: call.grid,
        };
        commands.dispatch(&dispatch).unwrap();
    }
    let error = commands.commit().unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("out of bounds"), "{error}");
    assert_eq!(contents(&out)[63], 1f32.to_bits());
}
