//! Scalars, vectors and conversions.

use half::{bf16, f16};

use super::*;

#[test]
fn half_and_bfloat_round_after_each_operation() {
    let source = with_header(
        "kernel void f(device half* h, device bfloat* b, constant half* x, constant bfloat* y, uint i [[thread_position_in_grid]]) {\n\
           half p = x[i], q = x[i + 1];\n\
           h[i] = p * q + q; h[i + 100] = (p + q) / 3.0h - p; h[i + 200] = fma(p, q, p); h[i + 300] = sqrt(abs(p)) + 1;\n\
           bfloat r = y[i], s = y[i + 1];\n\
           b[i] = r * s + s; b[i + 100] = (r + s) / bfloat(3.0) - r; b[i + 200] = bfloat(float(r) * 1.00390625f);\n\
           bfloat t = r; t += s; t *= s; b[i + 300] = -t;\n\
         }",
    );
    let values: Vec<f32> = (0..101u8).map(|i| (f32::from(i) - 50.0) * 0.3071 + 0.011).collect();
    let mut x: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
    let mut y: Vec<bf16> = values.iter().map(|&v| bf16::from_f32(v)).collect();
    let (mut h, mut b) = (vec![f16::ZERO; 400], vec![bf16::ZERO; 400]);
    Dispatch::new([100, 1, 1], [32, 1, 1])
        .arg(&mut h)
        .arg(&mut b)
        .arg(&mut x)
        .arg(&mut y)
        .run(&kernel(&source, "f"));
    for i in 0..100 {
        let (p, q) = (x[i].to_f32(), x[i + 1].to_f32());
        let r16 = |v: f32| f16::from_f32(v).to_f32();
        assert_eq!(h[i].to_f32(), r16(r16(p * q) + q));
        assert_eq!(h[i + 100].to_f32(), r16(r16(r16(p + q) / 3.0) - p));
        assert_eq!(h[i + 200].to_f32(), r16(p.mul_add(q, p)));
        assert_eq!(h[i + 300].to_f32(), r16(r16(p.abs().sqrt()) + 1.0));
        let (r, s) = (y[i].to_f32(), y[i + 1].to_f32());
        let rb = |v: f32| bf16::from_f32(v).to_f32();
        assert_eq!(b[i].to_f32(), rb(rb(r * s) + s));
        assert_eq!(b[i + 100].to_f32(), rb(rb(rb(r + s) / 3.0) - r));
        assert_eq!(b[i + 200].to_f32(), rb(r * (1.0 + 1.0 / 256.0)));
        assert_eq!(b[i + 300].to_f32(), -rb(rb(r + s) * s));
    }
}

#[test]
fn every_bfloat_and_its_neighbours_convert() {
    let source = with_header(
        "kernel void f(device ushort* out, constant uint* in, uint i [[thread_position_in_grid]]) {\n\
           out[i] = as_type<ushort>(bfloat(as_type<float>(in[i]))); }",
    );
    let mut input: Vec<u32> = (0..=0xffffu32)
        .flat_map(|b| [b << 16, b << 16 | 0x7fff, b << 16 | 0x8000, b << 16 | 0x8001])
        .collect();
    let mut out = vec![0u16; input.len()];
    let n = u32::try_from(input.len()).unwrap();
    Dispatch::new([n, 1, 1], [64, 1, 1]).arg(&mut out).arg(&mut input).run(&kernel(&source, "f"));
    for (&bits, &got) in input.iter().zip(&out) {
        let value = f32::from_bits(bits);
        if value.is_nan() {
            assert!(bf16::from_bits(got).is_nan(), "{bits:x}");
        } else {
            assert_eq!(got, bf16::from_f32(value).to_bits(), "{bits:x}");
        }
    }
}

#[test]
fn vectors_swizzle_pack_and_compare() {
    let source = with_header(
        "kernel void f(device float* o, device packed_float3* p, device int4* q, device uchar4* c) {\n\
           float4 v = float4(1, 2, 3, 4);\n\
           v.xy = v.yx; v.zw += float2(10, 20); v.wzyx.x; v.a = v.a * 2;\n\
           for (int i = 0; i < 4; i++) o[i] = v[i];\n\
           float3 w = float3(v.xy, 5).zyx;\n\
           o[4] = w.x; o[5] = w.rgb.b; o[6] = any(w > 4.0) + 2 * all(w > 1.0) + 4 * all(w == float3(5, 1, 2));\n\
           half2 h = half2(v.zw); o[7] = h.x + h.y;\n\
           p[0] = packed_float3(1, 2, 3); p[1] = p[0] * 2.0 + float3(0.5); p[1].y = 9; p[2] = packed_float3(v.xyz);\n\
           o[8] = dot(float3(p[1]), float3(1)); o[9] = sizeof(packed_float3) + 100 * sizeof(float3) + 10000 * alignof(packed_half4);\n\
           int4 a = int4(7, -8, 9, 10);\n\
           q[0] = a / 2; q[1] = a % 4; q[2] = (a << 1) ^ 1; q[3] = select(a, -a, a < 0); q[4] = max(a, 8); q[5] = clamp(a, -2, 8);\n\
           q[6] = ~a; q[7] = int4(float4(1.9, -1.9, 2.5, -0.5)); a += 1; a++; q[8] = a;\n\
           c[0] = uchar4(uint4(1, 2, 258, 4)); c[1] = as_type<uchar4>(0x04030201u);\n\
           o[10] = as_type<float>(0x3f800000); ushort2 s = as_type<ushort2>(0x00020001u); o[11] = s.y;\n\
           o[12] = float(max(ushort(3), ushort(4))) + float(min(char(-3), char(4)));\n\
           const float4 k[2] = {float4(1), {1, 2, 3, 4}}; o[13] = k[1].w;\n\
         }",
    );
    let mut o = [0.0f32; 14];
    let mut p = [0.0f32; 9];
    let mut q = [[0i32; 4]; 9];
    let mut c = [[0u8; 4]; 2];
    Dispatch::new([1, 1, 1], [1, 1, 1])
        .arg(&mut o)
        .arg(&mut p)
        .arg(&mut q)
        .arg(&mut c)
        .run(&kernel(&source, "f"));
    assert_eq!(o, [2., 1., 13., 48., 5., 2., 5., 61., 18., 21612., 1., 2., 1., 4.]);
    assert_eq!(p, [1., 2., 3., 2.5, 9., 6.5, 2., 1., 13.]);
    assert_eq!(q[0], [3, -4, 4, 5]);
    assert_eq!(q[1], [3, 0, 1, 2]);
    assert_eq!(q[2], [15, -15, 19, 21]);
    assert_eq!(q[3], [7, 8, 9, 10]);
    assert_eq!(q[4], [8, 8, 9, 10]);
    assert_eq!(q[5], [7, -2, 8, 8]);
    assert_eq!(q[6], [-8, 7, -10, -11]);
    assert_eq!(q[7], [1, -1, 2, 0]);
    assert_eq!(q[8], [9, -6, 11, 12]);
    assert_eq!(c, [[1, 2, 2, 4], [1, 2, 3, 4]]);
}

#[test]
fn integer_functions() {
    let source = with_header(
        "kernel void f(device long* o, constant int* in) {\n\
           int a = in[0], b = in[1]; uint u = uint(a); uchar c = uchar(a); long l = long(a) << 33; short s = short(a);\n\
           o[0] = popcount(u); o[1] = clz(u); o[2] = ctz(u); o[3] = clz(c); o[4] = popcount(l); o[5] = clz(0u);\n\
           o[6] = mulhi(a, b); o[7] = mulhi(u, uint(b)); o[8] = mulhi(l, l); o[9] = rotate(u, 8u); o[10] = rotate(c, uchar(3));\n\
           o[11] = absdiff(a, b); o[12] = addsat(a, 2147483647); o[13] = subsat(u, 4294967295u); o[14] = addsat(c, uchar(250));\n\
           o[15] = hadd(a, b); o[16] = rhadd(a, b); o[17] = extract_bits(a, 4, 8); o[18] = extract_bits(u, 4, 8);\n\
           o[19] = insert_bits(u, 0xfu, 8, 4); o[20] = reverse_bits(u); o[21] = mad24(3, 4, 5); o[22] = madhi(a, b, 7);\n\
           o[23] = abs(b); o[24] = subsat(short(-32768), s); o[25] = madsat(a, a, a); o[26] = ctz(0l); o[27] = abs(int2(b, a)).x;\n\
         }",
    );
    let (a, b) = (0x1234_5678_i32, -77_777_777_i32);
    let mut o = [0i64; 28];
    Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut o).arg(&mut [a, b]).run(&kernel(&source, "f"));
    let (u, c) = (a.cast_unsigned(), 0x78u8);
    let l = i64::from(a) << 33;
    let wide = |x: i32| i64::from(x);
    let want: [i64; 28] = [
        u.count_ones().into(),
        u.leading_zeros().into(),
        u.trailing_zeros().into(),
        c.leading_zeros().into(),
        l.count_ones().into(),
        32,
        (wide(a) * wide(b)) >> 32,
        ((u64::from(u) * u64::from(b.cast_unsigned())) >> 32).cast_signed(),
        i64::try_from((i128::from(l) * i128::from(l)) >> 64).unwrap(),
        u.rotate_left(8).into(),
        c.rotate_left(3).into(),
        a.abs_diff(b).into(),
        i32::MAX.into(),
        0,
        255,
        (wide(a) + wide(b)) >> 1,
        (wide(a) + wide(b) + 1) >> 1,
        0x67,
        0x67,
        (u & !0xf00 | 0xf00).into(),
        u.reverse_bits().into(),
        17,
        ((wide(a) * wide(b)) >> 32) + 7,
        wide(b).abs(),
        i16::MIN.saturating_sub(0x5678).into(),
        i32::MAX.into(),
        64,
        wide(b).abs(),
    ];
    for (i, (got, want)) in o.iter().zip(want).enumerate() {
        assert_eq!(*got, want, "o[{i}]");
    }
}

#[test]
fn limits_and_traits() {
    let source = with_header(
        "static_assert(is_same_v<decltype(1.0), float>, \"\"); static_assert(is_same_v<decltype(1.0h), half>, \"\");\n\
         static_assert(is_same_v<decltype(half(1) + 1.0), float> && is_same_v<decltype(half(1) + half(1)), half>, \"\");\n\
         static_assert(is_same_v<decltype(bfloat(1) + bfloat(1)), bfloat> && is_same_v<decltype(bfloat(1) * 2.0), float>, \"\");\n\
         static_assert(is_floating_point_v<bfloat> && is_floating_point<half>::value && !is_integral_v<float> && is_unsigned_v<ushort>, \"\");\n\
         static_assert(sizeof(long) == 8 && sizeof(half3) == 8 && sizeof(char2) == 2 && alignof(float4) == 16, \"\");\n\
         kernel void f(device float* o) {\n\
           o[0] = numeric_limits<half>::max(); o[1] = numeric_limits<bfloat>::lowest(); o[2] = numeric_limits<int>::min();\n\
           o[3] = numeric_limits<float>::infinity(); o[4] = numeric_limits<uchar>::max(); o[5] = numeric_limits<long>::max();\n\
           o[6] = 3 / 2 + 3 / 2.0; o[7] = 1e3; o[8] = 0x10; o[9] = 1'000;\n\
         }",
    );
    let mut o = [0.0f32; 10];
    Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut o).run(&kernel(&source, "f"));
    let want = [
        65504.0,
        -bf16::MAX.to_f32(),
        -2147483648.0,
        f32::INFINITY,
        255.0,
        9.223372e18,
        2.5,
        1000.0,
        16.0,
        1000.0,
    ];
    assert_eq!(o, want);
}
