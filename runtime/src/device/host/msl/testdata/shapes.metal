// Kernels that synchronise, of the shapes that PyTorch's code generator for Metal makes.

[[max_total_threads_per_threadgroup(1024)]]
kernel void softmax_2048_float(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = ::c10::metal::MaxOp<float>::identity();
    threadgroup float tmp_acc_2[32];
    float tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 2048*x0];
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp2 = in_ptr0[r0_1 + 2048*x0];
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp6 = in_ptr0[r0_1 + 2048*x0];
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr0[r0_1 + 2048*x0] = static_cast<float>(tmp9);
    }
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void softmax_1500_float(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = ::c10::metal::MaxOp<float>::identity();
    threadgroup float tmp_acc_2[32];
    float tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        if (r0__linear_idx >= 1500) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 1500*x0];
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        if (r0__linear_idx >= 1500) break;
        int r0_1 = r0__linear_idx;
        auto tmp2 = in_ptr0[r0_1 + 1500*x0];
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        if (r0__linear_idx >= 1500) break;
        int r0_1 = r0__linear_idx;
        auto tmp6 = in_ptr0[r0_1 + 1500*x0];
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr0[r0_1 + 1500*x0] = static_cast<float>(tmp9);
    }
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void softmax_2048_bfloat(
    device bfloat* out_ptr0,
    constant bfloat* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = ::c10::metal::MaxOp<float>::identity();
    threadgroup float tmp_acc_2[32];
    float tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 2048*x0]);
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp2 = static_cast<float>(in_ptr0[r0_1 + 2048*x0]);
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp6 = static_cast<float>(in_ptr0[r0_1 + 2048*x0]);
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr0[r0_1 + 2048*x0] = static_cast<bfloat>(tmp9);
    }
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void softmax_3000_half(
    device half* out_ptr0,
    constant half* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = ::c10::metal::MaxOp<float>::identity();
    threadgroup float tmp_acc_2[32];
    float tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 3000*x0]);
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp2 = static_cast<float>(in_ptr0[r0_1 + 3000*x0]);
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp6 = static_cast<float>(in_ptr0[r0_1 + 3000*x0]);
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr0[r0_1 + 3000*x0] = static_cast<half>(tmp9);
    }
}

[[max_total_threads_per_threadgroup(8)]]
kernel void softmax_8_float(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[1];
    threadgroup float tmp_acc_1[1];
    auto tmp0 = in_ptr0[r0_1 + 8*x0];
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), r0_index * 1, 8);
    auto tmp2 = tmp0 - tmp1;
    auto tmp3 = metal::precise::exp(tmp2);
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_1, tmp3, r0_index * 1, 8);
    auto tmp5 = tmp3 / tmp4;
    out_ptr0[r0_1 + 8*x0] = static_cast<float>(tmp5);
}

[[max_total_threads_per_threadgroup(31)]]
kernel void softmax_31_float(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[1];
    threadgroup float tmp_acc_1[1];
    auto tmp0 = in_ptr0[r0_1 + 31*x0];
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), r0_index * 1, 31);
    auto tmp2 = tmp0 - tmp1;
    auto tmp3 = metal::precise::exp(tmp2);
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_1, tmp3, r0_index * 1, 31);
    auto tmp5 = tmp3 / tmp4;
    out_ptr0[r0_1 + 31*x0] = static_cast<float>(tmp5);
}

[[max_total_threads_per_threadgroup(77)]]
kernel void softmax_77_bfloat(
    device bfloat* out_ptr0,
    constant bfloat* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[3];
    threadgroup float tmp_acc_1[3];
    auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 77*x0]);
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), r0_index * 1, 77);
    auto tmp2 = tmp0 - tmp1;
    auto tmp3 = metal::precise::exp(tmp2);
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_1, tmp3, r0_index * 1, 77);
    auto tmp5 = tmp3 / tmp4;
    out_ptr0[r0_1 + 77*x0] = static_cast<bfloat>(tmp5);
}

[[max_total_threads_per_threadgroup(300)]]
kernel void softmax_300_half(
    device half* out_ptr0,
    constant half* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[10];
    threadgroup float tmp_acc_1[10];
    auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 300*x0]);
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), r0_index * 1, 300);
    auto tmp2 = tmp0 - tmp1;
    auto tmp3 = metal::precise::exp(tmp2);
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_1, tmp3, r0_index * 1, 300);
    auto tmp5 = tmp3 / tmp4;
    out_ptr0[r0_1 + 300*x0] = static_cast<half>(tmp5);
}

[[max_total_threads_per_threadgroup(129)]]
kernel void layernorm_129_float(
    device float* out_ptr0,
    constant float* in_ptr0,
    constant float* in_ptr1,
    constant float* in_ptr2,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[129];
    auto tmp0 = in_ptr0[r0_1 + 129*x0];
    tmp_acc_0[r0_index * 1] = tmp0;
    auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 129);
    auto tmp9 = in_ptr1[r0_1];
    auto tmp11 = in_ptr2[r0_1];
    auto tmp2 = tmp0 - tmp1.x;
    auto tmp3 = 129.0;
    auto tmp4 = tmp1.y / tmp3;
    auto tmp5 = 1e-05;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = metal::precise::rsqrt(tmp6);
    auto tmp8 = tmp2 * tmp7;
    auto tmp10 = tmp8 * tmp9;
    auto tmp12 = tmp10 + tmp11;
    out_ptr0[r0_1 + 129*x0] = static_cast<float>(tmp12);
}

[[max_total_threads_per_threadgroup(65)]]
kernel void layernorm_65_bfloat(
    device bfloat* out_ptr0,
    constant bfloat* in_ptr0,
    constant bfloat* in_ptr1,
    constant bfloat* in_ptr2,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[65];
    auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 65*x0]);
    tmp_acc_0[r0_index * 1] = tmp0;
    auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 65);
    auto tmp9 = static_cast<float>(in_ptr1[r0_1]);
    auto tmp11 = static_cast<float>(in_ptr2[r0_1]);
    auto tmp2 = tmp0 - tmp1.x;
    auto tmp3 = 65.0;
    auto tmp4 = tmp1.y / tmp3;
    auto tmp5 = 1e-05;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = metal::precise::rsqrt(tmp6);
    auto tmp8 = tmp2 * tmp7;
    auto tmp10 = tmp8 * tmp9;
    auto tmp12 = tmp10 + tmp11;
    out_ptr0[r0_1 + 65*x0] = static_cast<bfloat>(tmp12);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void mean_2048(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = 0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 2048*x0];
        tmp_acc_1 += tmp0;
    }
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    auto tmp2 = 2048.0;
    auto tmp3 = tmp1 / tmp2;
    out_ptr0[x0] = static_cast<float>(tmp3);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void var_2048(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float3 tmp_acc_0[1024];
    tmp_acc_0[r0_index * 1] = 0.0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 2048*x0];
        tmp_acc_0[r0_index * 1] = ::c10::metal::welford_combine(tmp_acc_0[r0_index * 1], float3(tmp0, 0.0, 1.0));
    }
    auto tmp1 = c10::metal::threadgroup_welford_combine(tmp_acc_0, 1024);
    auto tmp2 = 2047.0;
    auto tmp3 = tmp1.y / tmp2;
    out_ptr0[x0] = static_cast<float>(tmp3);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void several_2048(
    device float* out_ptr0,
    device float* out_ptr1,
    device long* out_ptr2,
    device long* out_ptr3,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    threadgroup float tmp_acc_2[32];
    threadgroup float tmp_acc_4[32];
    threadgroup float tmp_acc_8[32];
    threadgroup float tmp_acc_9[32];
    threadgroup long tmp_acc_5[32];
    threadgroup long tmp_acc_10[32];
    float tmp_acc_1 = 1;
    float tmp_acc_3 = ::c10::metal::MinOp<float>::identity();
    float tmp_acc_6 = ::c10::metal::MinOp<float>::identity();
    long tmp_acc_7 = 0;
    float tmp_acc_11 = ::c10::metal::MaxOp<float>::identity();
    long tmp_acc_12 = 0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 2048*x0];
        tmp_acc_1 *= tmp0;
        tmp_acc_3 = ::c10::metal::min(tmp_acc_3, static_cast<float>(tmp0));

        if (::c10::metal::MinOp<float>::replace(static_cast<float>(tmp0), tmp_acc_6)) {
            tmp_acc_6 = static_cast<float>(tmp0);
            tmp_acc_7 = r0_1;
        }
        if (::c10::metal::MaxOp<float>::replace(static_cast<float>(tmp0), tmp_acc_11)) {
            tmp_acc_11 = static_cast<float>(tmp0);
            tmp_acc_12 = r0_1;
        }
    }
    auto tmp1 = c10::metal::threadgroup_prod(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp1);
    auto tmp2 = c10::metal::threadgroup_min(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr1[x0] = static_cast<float>(tmp2);
    auto tmp3 = c10::metal::threadgroup_argmin(tmp_acc_4, tmp_acc_5, tmp_acc_6, tmp_acc_7, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr2[x0] = static_cast<long>(tmp3);
    auto tmp4 = c10::metal::threadgroup_argmax(tmp_acc_9, tmp_acc_10, tmp_acc_11, tmp_acc_12, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr3[x0] = static_cast<long>(tmp4);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void several_3000(
    device float* out_ptr0,
    device float* out_ptr1,
    device long* out_ptr2,
    device long* out_ptr3,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    threadgroup float tmp_acc_2[32];
    threadgroup float tmp_acc_4[32];
    threadgroup float tmp_acc_8[32];
    threadgroup float tmp_acc_9[32];
    threadgroup long tmp_acc_5[32];
    threadgroup long tmp_acc_10[32];
    float tmp_acc_1 = 1;
    float tmp_acc_3 = ::c10::metal::MinOp<float>::identity();
    float tmp_acc_6 = ::c10::metal::MinOp<float>::identity();
    long tmp_acc_7 = 0;
    float tmp_acc_11 = ::c10::metal::MaxOp<float>::identity();
    long tmp_acc_12 = 0;
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 3000*x0];
        tmp_acc_1 *= tmp0;
        tmp_acc_3 = ::c10::metal::min(tmp_acc_3, static_cast<float>(tmp0));

        if (::c10::metal::MinOp<float>::replace(static_cast<float>(tmp0), tmp_acc_6)) {
            tmp_acc_6 = static_cast<float>(tmp0);
            tmp_acc_7 = r0_1;
        }
        if (::c10::metal::MaxOp<float>::replace(static_cast<float>(tmp0), tmp_acc_11)) {
            tmp_acc_11 = static_cast<float>(tmp0);
            tmp_acc_12 = r0_1;
        }
    }
    auto tmp1 = c10::metal::threadgroup_prod(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp1);
    auto tmp2 = c10::metal::threadgroup_min(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr1[x0] = static_cast<float>(tmp2);
    auto tmp3 = c10::metal::threadgroup_argmin(tmp_acc_4, tmp_acc_5, tmp_acc_6, tmp_acc_7, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr2[x0] = static_cast<long>(tmp3);
    auto tmp4 = c10::metal::threadgroup_argmax(tmp_acc_9, tmp_acc_10, tmp_acc_11, tmp_acc_12, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr3[x0] = static_cast<long>(tmp4);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void any_3000(
    device bool* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup bool tmp_acc_0;
    tmp_acc_0 = false;
    threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 3000*x0];
        auto tmp1 = tmp0 > 0.9995;

        if (tmp1) {
            tmp_acc_0 = true;
        }
    }
    threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (r0_index == 0) out_ptr0[x0] = static_cast<bool>(tmp_acc_0);
}

[[max_total_threads_per_threadgroup(256)]]
kernel void sum_256_long(
    device long* out_ptr0,
    constant long* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup long tmp_acc_0[8];
    threadgroup long tmp_acc_1[8];
    auto tmp0 = in_ptr0[r0_1 + 256*x0];
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 256);
    auto tmp2 = c10::metal::threadgroup_max(tmp_acc_1, static_cast<long>(tmp0), r0_index * 1, 256);
    if (r0_index == 0) out_ptr0[x0] = static_cast<long>(tmp1 + 1000 * tmp2);
}

[[max_total_threads_per_threadgroup(256)]]
kernel void sum_256_int(
    device long* out_ptr0,
    constant int* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup int tmp_acc_0[8];
    threadgroup int tmp_acc_1[8];
    auto tmp0 = in_ptr0[r0_1 + 256*x0];
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 256);
    auto tmp2 = c10::metal::threadgroup_max(tmp_acc_1, static_cast<int>(tmp0), r0_index * 1, 256);
    if (r0_index == 0) out_ptr0[x0] = static_cast<long>(tmp1 + 1000 * tmp2);
}

[[max_total_threads_per_threadgroup(128)]]
kernel void masked_128(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[4];
    auto tmp0 = r0_1;
    auto tmp1 = 100;
    auto tmp2 = tmp0 < tmp1;
    float tmp3;
    if (tmp2) {
        auto tmp_scoped_0 = in_ptr0[r0_1 + 100*x0];
        tmp3 = static_cast<decltype(tmp3)>(tmp_scoped_0);
    } else tmp3 = static_cast<decltype(tmp3)>(0.0);
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_0, tmp3, r0_index * 1, 128);
    out_ptr0[r0_1 + 128*x0] = static_cast<float>(tmp3 - tmp4);
}

[[max_total_threads_per_threadgroup(128)]]
kernel void var_of_parts(
    device float* out_ptr0,
    constant float* in_ptr0,
    constant float* in_ptr1,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float3 tmp_acc_0[128];
    tmp_acc_0[r0_index * 1] = 0.0;
    auto tmp0 = in_ptr0[r0_1 + 128*x0];
    auto tmp1 = metal::abs(in_ptr1[r0_1 + 128*x0]);
    auto tmp2 = 16.0;
    tmp_acc_0[r0_index * 1] = float3(tmp0, tmp1, tmp2);
    auto tmp3 = c10::metal::threadgroup_welford_combine(tmp_acc_0, 128);
    auto tmp4 = tmp3.y / tmp3.z;
    out_ptr0[r0_1 + 128*x0] = static_cast<float>((tmp0 - tmp3.x) * tmp4);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void var_of_many_parts(
    device float* out_ptr0,
    constant float* in_ptr0,
    constant float* in_ptr1,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float3 tmp_acc_0[1024];
    tmp_acc_0[r0_index * 1] = 0.0;
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 3000*x0];
        auto tmp1 = metal::abs(in_ptr1[r0_1 + 3000*x0]);
        auto tmp2 = 16.0;
        tmp_acc_0[r0_index * 1] = ::c10::metal::welford_combine(tmp_acc_0[r0_index * 1], float3(tmp0, tmp1, tmp2));
    }
    auto tmp3 = c10::metal::threadgroup_welford_combine(tmp_acc_0, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp3.y);
}

[[max_total_threads_per_threadgroup(200)]]
kernel void in_place_200(
    device float* in_out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[7];
    threadgroup float tmp_acc_1[7];
    auto tmp0 = in_out_ptr0[r0_1 + 200*x0];
    auto tmp1 = in_ptr0[r0_1 + 200*x0];
    auto tmp2 = tmp0 + tmp1;
    in_out_ptr0[r0_1 + 200*x0] = static_cast<float>(tmp2);
    auto tmp3 = c10::metal::threadgroup_sum(tmp_acc_0, tmp2, r0_index * 1, 200);
    auto tmp4 = in_out_ptr0[200*x0];
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_1, tmp4 * tmp2, r0_index * 1, 200);
    in_out_ptr0[r0_1 + 200*x0] = static_cast<float>(tmp3 + tmp2 * tmp4 - tmp5);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void dynamic_sum(
    device float* out_ptr0,
    constant float* in_ptr0,
    constant long& r0_numel,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = 0;
    for(auto r0__cnt = 0; r0__cnt < metal::floor(r0_numel + 1023.0) / (1024.0); ++r0__cnt) {
        int r0__linear_idx = 1024 * r0__cnt + r0_index;
        if (r0__linear_idx >= r0_numel) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + r0_numel*x0];
        tmp_acc_1 += tmp0;
    }
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp_acc_1, r0_index * 1, metal::min(static_cast<decltype(1024+r0_numel)>(1024), static_cast<decltype(1024+r0_numel)>(r0_numel)));
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp1);
}

[[max_total_threads_per_threadgroup(300)]]
kernel void argmax_300_bfloat(
    device long* out_ptr0,
    constant bfloat* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup bfloat tmp_acc_0[10];
    threadgroup long tmp_acc_1[10];
    auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 300*x0]);
    auto tmp1 = c10::metal::threadgroup_argmax(tmp_acc_0, tmp_acc_1, static_cast<bfloat>(tmp0), static_cast<long>(r0_index * 1), r0_index * 1, 300);
    if (r0_index == 0) out_ptr0[x0] = static_cast<long>(tmp1);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void max_2048_bfloat(
    device bfloat* out_ptr0,
    constant bfloat* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup bfloat tmp_acc_0[32];
    bfloat tmp_acc_1 = ::c10::metal::MaxOp<bfloat>::identity();
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 2048*x0]);
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<bfloat>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<bfloat>(tmp1);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void several_20000(
    device float* out_ptr0,
    device int* out_ptr1,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = 1;
    threadgroup int tmp_acc_2[32];
    int tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 20; ++r0__cnt) {
        int r0__linear_idx = 20 * r0_index + r0__cnt;
        if (r0__linear_idx >= 20000) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 3000*x0];
        auto tmp1 = r0_1 == 100*x0 ? tmp0 : (r0_1 / 32) % 2 ? 0.5f : 2.0f;
        tmp_acc_1 *= tmp1;
        tmp_acc_3 += r0_1 % 7;
    }
    auto tmp2 = c10::metal::threadgroup_prod(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    auto tmp3 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp2);
    if (r0_index == 0) out_ptr1[x0] = static_cast<int>(tmp3);
}

[[max_total_threads_per_threadgroup(300)]]
kernel void expressions_300(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index, x0 = xindex;
    threadgroup float tmp_acc_0[10];
    threadgroup float tmp_acc_1[10];
    float tmp0 = in_ptr0[r0_1 + 300*x0], tmp1 = 0.25f * tmp0;
    float tmp2 = 2 * c10::metal::threadgroup_max(tmp_acc_0, tmp0, r0_index * 1, 300) - ::c10::metal::threadgroup_sum(tmp_acc_1, tmp1, r0_index * 1, 300) / 300;
    out_ptr0[r0_1 + 300*x0] = tmp0 - tmp2;
}
