//! Plain kernels whose index is split, against the same ones whose index is not.

use super::*;

/// Sizes of the dimensions, the fastest first, and the kernel's load.
const SHAPES: [(&[u32], &str); 6] = [
    (&[64, 16, 40], "a[x0 + 64*x2 + 2560*x1]"),
    (&[101, 33], "a[x0 + 128*x1]"),
    (&[128, 96], "a[x1 + 96*x0]"),
    (&[48, 50], "a[x1 + 64*x0] + a[x0]"),
    (&[256, 3, 5], "a[x2 + 8*x1 + 64*x0]"),
    (&[96, 37], "a[x0]"),
];

/// The index of each dimension, as generated code has it.
fn indices(sizes: &[u32]) -> String {
    let mut below = 1;
    let mut text = String::new();
    for (i, size) in sizes.iter().enumerate() {
        text += &match i {
            0 => format!("int x0 = (xindex) % ({size});\n"),
            _ if i + 1 == sizes.len() => {
                format!("int x{i} = c10::metal::floor_divide(xindex, {below});\n")
            }
            _ => format!("int x{i} = ((xindex) / ({below})) % ({size});\n"),
        };
        below *= size;
    }
    text + "int x9 = xindex;\n"
}

fn source(ty: &str, sizes: &[u32], load: &str, uses: &str) -> String {
    format!(
        "#include <metal_stdlib>\n\
         namespace c10 {{ namespace metal {{ int floor_divide(uint a, int b) {{ return a / b; }} }} }}\n\
         kernel void f(device {ty}* out, constant {ty}* a, uint xindex [[thread_position_in_grid]]) \
         {{\n{}{uses}out[x9] = static_cast<{ty}>(static_cast<float>({load}) + x0);\n}}",
        indices(sizes)
    )
}

#[test]
fn the_results_are_those_without_it() {
    for (sizes, load) in SHAPES {
        for ty in ["float", "bfloat"] {
            let split = kernel(&source(ty, sizes, load, ""), "f");
            // An index that is used otherwise stays a number.
            let whole = kernel(&source(ty, sizes, load, "(void)xindex;\n"), "f");
            let all = sizes.iter().product::<u32>();
            let input: Vec<f32> = (0..50_000u32).map(|n| (n * 7 % 2048) as f32).collect();
            for threads in [all, all - 1, all / 2 + 3, sizes[0] - 1, 1] {
                let run = |native| {
                    let mut out = vec![u32::MAX; all as usize];
                    Dispatch::new([threads, 1, 1], [threads.min(1024), 1, 1])
                        .arg(&mut out)
                        .arg(&mut input.clone())
                        .run(native);
                    out
                };
                let (got, want) = (run(&split), run(&whole));
                assert!(got == want, "{load} of {ty}, {threads} of {sizes:?}");
            }
        }
    }
}
