//! `cargo xtask bench`: the runtime's speed, each number as a ratio to a peer measured in the same
//! run. Prints a table; asserts nothing.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use etmetal::device::Device;
use etmetal::device::host::HostDevice;
use etmetal::kernel::Arguments;
use etmetal::library::Library;
use etmetal::ops;
use etmetal::stream::Stream;
use etmetal::tensor::{DType, Layout, Tensor};
use etmetal_tests::fixture::{Fixture, runtime};

const ADD: &str = r"
#include <metal_stdlib>
kernel void generated_kernel(
    device float* out_ptr0, constant float* in_ptr0, constant float* in_ptr1,
    uint xindex [[thread_position_in_grid]]
) {
    out_ptr0[xindex] = in_ptr0[xindex] + in_ptr1[xindex];
}";

/// One line of the table.
struct Row {
    what: String,
    ours: String,
    peer: String,
    /// Ours against the peer; above 1 is better.
    ratio: f64,
    target: f64,
}

/// Makes this program print the time of one load, in a fresh process.
const LOAD_ONCE: &str = "--load-once";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["--suite", "runtime"] => measure(),
        [LOAD_ONCE] => load_once(),
        _ => bail!("unknown arguments {arguments:?}: the suite there is, is `--suite runtime`"),
    }
}

/// Prints the milliseconds from opening `mlp` to its first result.
fn load_once() -> Result<()> {
    let fixture = Fixture::read("mlp");
    let runtime = runtime();
    let start = Instant::now();
    fixture.check(&fixture.load(&runtime));
    println!("{}", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

fn measure() -> Result<()> {
    let device = HostDevice::shared();
    let most = device.threads();
    println!("device: {} ({most} threads)", device.name());
    let mut rows = Vec::new();
    for threads in if most > 1 { vec![1, most] } else { vec![1] } {
        device.set_threads(threads);
        rows.push(add_bandwidth(&device, threads)?);
        rows.push(matmul(&device, threads)?);
    }
    device.set_threads(1);
    rows.push(tiny_dispatch(&device)?);
    device.set_threads(most);
    rows.extend(model_load()?);
    print_table(&rows);
    Ok(())
}

/// The shortest of several runs of `work`, after one that warms up.
fn best(rounds: usize, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    work()?;
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn filled(device: &Arc<dyn Device>, sizes: &[i64]) -> Result<Tensor> {
    let tensor = Tensor::empty(device, DType::F32, Layout::contiguous(sizes)?)?;
    for i in 0..tensor.numel() {
        // SAFETY: the tensor has `numel` float elements and no work uses it yet.
        unsafe { *tensor.as_ptr().cast::<f32>().add(i) = (i % 251) as f32 / 251.0 - 0.5 };
    }
    Ok(tensor)
}

/// `c = a + b` over 64 MiB each, in bytes read and written per second, against `memcpy` of as
/// many, on one thread (a copy by several threads is no faster than the memory).
fn add_bandwidth(host: &Arc<HostDevice>, threads: usize) -> Result<Row> {
    let device: Arc<dyn Device> = host.clone();
    let count = 16 << 20;
    let stream = Stream::new(device.clone())?;
    let kernel = Library::compile(&device, "bench", ADD)?.kernel("generated_kernel")?;
    let tensors =
        [filled(&device, &[count])?, filled(&device, &[count])?, filled(&device, &[count])?];
    let mut arguments = Arguments::new();
    for (i, tensor) in tensors.iter().enumerate() {
        arguments.tensor(i, tensor)?;
    }
    let grid = kernel.grid_1d(count as u64, None)?;
    let ours = best(15, || {
        stream.dispatch(&kernel, &arguments, grid)?;
        Ok(stream.commit_and_wait()?)
    })?;
    let bytes = count as usize * 4;
    let peer = best(15, || {
        // SAFETY: both tensors have `bytes` bytes, are distinct, and no work uses them.
        unsafe { std::ptr::copy_nonoverlapping(tensors[1].as_ptr(), tensors[0].as_ptr(), bytes) };
        std::hint::black_box(tensors[0].as_ptr());
        Ok(())
    })?;
    let (ours, peer) = (rate(3 * bytes, ours), rate(2 * bytes, peer));
    Ok(Row {
        what: format!("add 16M f32, {threads} thread(s)"),
        ours: format!("{ours:.1} GB/s"),
        peer: format!("memcpy {peer:.1} GB/s"),
        ratio: ours / peer,
        target: 0.9,
    })
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

/// Encode, commit and wait of a kernel over 16 elements, against 1 us.
fn tiny_dispatch(host: &Arc<HostDevice>) -> Result<Row> {
    let device: Arc<dyn Device> = host.clone();
    let stream = Stream::new(device.clone())?;
    let kernel = Library::compile(&device, "bench", ADD)?.kernel("generated_kernel")?;
    let tensors = [filled(&device, &[16])?, filled(&device, &[16])?, filled(&device, &[16])?];
    let rounds = 10_000;
    let time = best(10, || {
        for _ in 0..rounds {
            stream.start_encoding(&kernel);
            for (i, tensor) in tensors.iter().enumerate() {
                stream.encode_arguments(&kernel, |arguments| arguments.tensor(i, tensor))?;
            }
            stream.dispatch_encoded(&kernel, kernel.grid_1d(16, None)?)?;
            stream.commit_and_wait()?;
        }
        Ok(())
    })?;
    let nanoseconds = time.as_nanos() as f64 / f64::from(rounds);
    Ok(Row {
        what: "tiny dispatch, encode to done".into(),
        ours: format!("{nanoseconds:.0} ns"),
        peer: "1000 ns".into(),
        ratio: 1000.0 / nanoseconds,
        target: 1.0,
    })
}

/// `1024^3` in float32 against numpy's BLAS with as many threads.
fn matmul(host: &Arc<HostDevice>, threads: usize) -> Result<Row> {
    const N: i64 = 1024;
    let device: Arc<dyn Device> = host.clone();
    let stream = Stream::new(device.clone())?;
    let [a, b, c] =
        [filled(&device, &[N, N])?, filled(&device, &[N, N])?, filled(&device, &[N, N])?];
    let ours = best(15, || {
        ops::mm(&stream, &c, &a, &b)?;
        Ok(stream.commit_and_wait()?)
    })?;
    let peer = numpy_matmul(N, threads)?;
    let flops = 2.0 * (N * N * N) as f64 / 1e9;
    let (ours, peer) = (flops / ours.as_secs_f64(), flops / peer.as_secs_f64());
    Ok(Row {
        what: format!("mm 1024^3 f32, {threads} thread(s)"),
        ours: format!("{ours:.0} GFLOP/s"),
        peer: format!("numpy {peer:.0} GFLOP/s"),
        ratio: ours / peer,
        target: 0.8,
    })
}

/// The best of several multiplications by the numpy of `ETMETAL_PYTHON`.
fn numpy_matmul(n: i64, threads: usize) -> Result<Duration> {
    let python = std::env::var_os("ETMETAL_PYTHON")
        .context("ETMETAL_PYTHON names no Python with numpy: run `cargo xtask bench`")?;
    let program = format!(
        "import numpy, time\n\
         a = numpy.random.rand({n}, {n}).astype('f'); b = a.copy(); c = a @ b; best = 1e9\n\
         for _ in range(15):\n    t = time.perf_counter(); numpy.matmul(a, b, out=c)\n    \
         best = min(best, time.perf_counter() - t)\n\
         print(best)"
    );
    let output = Command::new(python)
        .args(["-c", &program])
        .env("OPENBLAS_NUM_THREADS", threads.to_string())
        .env("OMP_NUM_THREADS", threads.to_string())
        // Overrides for broken old releases; they slow a current one.
        .env_remove("OPENBLAS_CORETYPE")
        .env_remove("OPENBLAS_L2_SIZE")
        .output()
        .context("cannot start ETMETAL_PYTHON")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seconds: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Load of `mlp` up to its first result, with an empty kernel cache and with a full one.
fn model_load() -> Result<[Row; 2]> {
    let cache = tempfile::tempdir()?;
    let time = |rounds| -> Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let output = Command::new(std::env::current_exe()?)
                .arg(LOAD_ONCE)
                .env("ETMETAL_CACHE", cache.path())
                .output()
                .context("cannot start this program again")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            best = best.min(String::from_utf8(output.stdout)?.trim().parse()?);
        }
        Ok(best)
    };
    let cold = time(1)?;
    let warm = time(10)?;
    let row = |what: &str, ours: f64, peer: f64, peer_name: &str, target| Row {
        what: what.into(),
        ours: format!("{ours:.1} ms"),
        peer: format!("{peer_name} {peer:.1} ms"),
        ratio: peer / ours,
        target,
    };
    let compile = compile_once()?;
    Ok([
        row("mlp, cold load and first run", cold, compile, "clang alone, one kernel", 0.0),
        row("mlp, warm load and first run", warm, 20.0, "bound", 1.0),
    ])
}

/// Milliseconds of compiling one small C++ file with the compiler of the staged build.
fn compile_once() -> Result<f64> {
    let list = etmetal_tests::stage::stage().join("lib/etmetal/msl-compiler");
    let words = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let mut words = words.lines();
    let compiler = PathBuf::from(words.next().context("no compiler in the stage")?);
    let dir = tempfile::tempdir()?;
    let source = dir.path().join("one.cpp");
    std::fs::write(
        &source,
        "extern \"C\" void f(float* a) { for (int i = 0; i < 9; i++) a[i] += 1; }",
    )?;
    let rest: Vec<&str> = words.collect();
    let time = best(3, || {
        let status = Command::new(&compiler)
            .args(&rest)
            .args(["-O3", "-fPIC", "-c", "-o"])
            .arg(dir.path().join("one.o"))
            .arg(&source)
            .status()?;
        ensure!(status.success(), "the staged compiler fails");
        Ok(())
    })?;
    Ok(time.as_secs_f64() * 1e3)
}

fn print_table(rows: &[Row]) {
    println!("{:34} {:>14}   {:32} {:>7}  {:>7}", "", "etmetal", "peer", "ratio", "target");
    for row in rows {
        println!(
            "{:34} {:>14}   {:32} {:>6.2}x {:>7}{}",
            row.what,
            row.ours,
            row.peer,
            row.ratio,
            format!(">={}", row.target),
            if row.ratio < row.target { "  missed" } else { "" }
        );
    }
}
