//! Atomics, also from several threads of the machine at once.

use super::*;

#[test]
fn every_operation() {
    let source = with_header(
        "kernel void f(device atomic_int* i [[buffer(0)]], device atomic_uint* u [[buffer(1)]],\n\
           device atomic_float* f [[buffer(2)]], device atomic_ulong* l [[buffer(3)]],\n\
           device atomic<bool>* b [[buffer(4)]], uint t [[thread_position_in_grid]]) {\n\
           atomic_fetch_add_explicit(&i[0], int(t), memory_order_relaxed);\n\
           atomic_fetch_sub_explicit(&i[1], int(t), memory_order_relaxed);\n\
           atomic_fetch_max_explicit(&i[2], int(t) - 50, memory_order_relaxed);\n\
           atomic_fetch_min_explicit(&i[3], 50 - int(t), memory_order_relaxed);\n\
           atomic_fetch_and_explicit(&u[0], ~(1u << (t % 7)), memory_order_relaxed);\n\
           atomic_fetch_or_explicit(&u[1], 1u << (t % 7), memory_order_relaxed);\n\
           atomic_fetch_xor_explicit(&u[2], t, memory_order_relaxed);\n\
           atomic_fetch_max_explicit(&u[3], t, memory_order_relaxed);\n\
           atomic_fetch_add_explicit(&f[0], 0.5, memory_order_relaxed);\n\
           atomic_fetch_sub_explicit(&f[1], 0.25, memory_order_relaxed);\n\
           atomic_max_explicit(&l[0], ulong(t) << 40, memory_order_relaxed);\n\
           atomic_min_explicit(&l[1], ulong(1000 - t), memory_order_relaxed);\n\
           if (t == 42) {\n\
             atomic_store_explicit(&i[4], 7, memory_order_relaxed);\n\
             int old = atomic_exchange_explicit(&i[4], 9, memory_order_relaxed);\n\
             int expected = 9;\n\
             bool done = false;\n\
             while (!done) done = atomic_compare_exchange_weak_explicit(&i[4], &expected, old + 100, memory_order_relaxed, memory_order_relaxed);\n\
             atomic_store_explicit(&b[0], true, memory_order_relaxed);\n\
             atomic_store_explicit(&f[2], atomic_load_explicit(&f[2], memory_order_relaxed) * 2.0, memory_order_relaxed);\n\
           }\n\
         }",
    );
    let mut i = [0, 0, -1000, 1000, 0];
    let mut u = [0xffu32, 0, 0, 0];
    let mut f = [0.0f32, 0.0, 1.5];
    let mut l = [0u64, u64::MAX];
    let mut b = [false];
    Dispatch::new([100, 1, 1], [32, 1, 1])
        .arg(&mut i)
        .arg(&mut u)
        .arg(&mut f)
        .arg(&mut l)
        .arg(&mut b)
        .run(&kernel(&source, "f"));
    assert_eq!(i, [4950, -4950, 49, -49, 107]);
    assert_eq!(u, [0x80, 0x7f, (0..100).fold(0, |a, t| a ^ t), 99]);
    assert_eq!(f, [50.0, -25.0, 3.0]);
    assert_eq!(l, [99 << 40, 901]);
    assert!(b[0]);
}

#[test]
fn threads_of_the_machine_do_not_lose_updates() {
    let source = with_header(
        "kernel void f(device atomic_float* sum, device atomic_uint* count, uint t [[thread_position_in_grid]]) {\n\
           atomic_fetch_add_explicit(sum, 1.0, memory_order_relaxed);\n\
           atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);\n\
         }",
    );
    let native = kernel(&source, "f");
    let (mut sum, mut count) = (0.0f32, 0u32);
    let (sum_at, count_at) = (&raw mut sum as usize, &raw mut count as usize);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                Dispatch::new([20_000, 1, 1], [64, 1, 1])
                    .address(sum_at, 4)
                    .address(count_at, 4)
                    .run(&native);
            });
        }
    });
    assert_eq!((sum, count), (80_000.0, 80_000));
}

#[test]
fn threadgroup_atomics_and_fences() {
    let source = with_header(
        "kernel void f(device uint* out, uint t [[thread_position_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {\n\
           threadgroup atomic_uint counter;\n\
           threadgroup atomic_int lowest, highest[2];\n\
           if (t == 0) { atomic_store_explicit(&counter, 0u, memory_order_relaxed);\n\
             atomic_store_explicit(&lowest, 1000, memory_order_relaxed);\n\
             atomic_store_explicit(&highest[1], -1000, memory_order_relaxed); }\n\
           threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           atomic_fetch_add_explicit(&counter, t, memory_order_relaxed);\n\
           atomic_fetch_min_explicit(&lowest, 5 - int(t), memory_order_relaxed);\n\
           atomic_fetch_max_explicit(&highest[1], int(t) * 3, memory_order_relaxed);\n\
           threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);\n\
           if (t == 0) out[g] = atomic_load_explicit(&counter, memory_order_relaxed) * 1000000u\n\
             + uint(-atomic_load_explicit(&lowest, memory_order_relaxed)) * 1000u\n\
             + uint(atomic_load_explicit(&highest[1], memory_order_relaxed));\n\
         }",
    );
    let mut out = [0u32; 3];
    Dispatch::new([100, 1, 1], [40, 1, 1]).arg(&mut out).run(&kernel(&source, "f"));
    assert_eq!(out, [780_034_117, 780_034_117, 190_014_057]);
}
