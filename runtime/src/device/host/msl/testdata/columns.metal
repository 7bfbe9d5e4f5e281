// Kernels that synchronise whose groups read neighbouring elements: reductions over the first
// dimension, of the shapes that PyTorch's code generator for Metal makes.

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
        auto tmp0 = in_ptr0[x0 + 72*r0_1];
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        if (r0__linear_idx >= 1500) break;
        int r0_1 = r0__linear_idx;
        auto tmp2 = in_ptr0[x0 + 72*r0_1];
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        if (r0__linear_idx >= 1500) break;
        int r0_1 = r0__linear_idx;
        auto tmp6 = in_ptr0[x0 + 72*r0_1];
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr0[x0 + 72*r0_1] = static_cast<float>(tmp9);
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
        auto tmp0 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp2 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp6 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr0[x0 + 72*r0_1] = static_cast<bfloat>(tmp9);
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
        auto tmp0 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp2 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp6 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr0[x0 + 72*r0_1] = static_cast<half>(tmp9);
    }
}

[[max_total_threads_per_threadgroup(9)]]
kernel void softmax_9_float(
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
    auto tmp0 = in_ptr0[x0 + 72*r0_1];
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), r0_index * 1, 9);
    auto tmp2 = tmp0 - tmp1;
    auto tmp3 = metal::precise::exp(tmp2);
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_1, tmp3, r0_index * 1, 9);
    auto tmp5 = tmp3 / tmp4;
    out_ptr0[x0 + 72*r0_1] = static_cast<float>(tmp5);
}

[[max_total_threads_per_threadgroup(300)]]
kernel void softmax_300_bfloat(
    device bfloat* out_ptr0,
    constant bfloat* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[10];
    threadgroup float tmp_acc_1[10];
    auto tmp0 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), r0_index * 1, 300);
    auto tmp2 = tmp0 - tmp1;
    auto tmp3 = metal::precise::exp(tmp2);
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_1, tmp3, r0_index * 1, 300);
    auto tmp5 = tmp3 / tmp4;
    out_ptr0[x0 + 72*r0_1] = static_cast<bfloat>(tmp5);
}

[[max_total_threads_per_threadgroup(260)]]
kernel void layernorm_260(
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
    threadgroup float tmp_acc_0[260];
    auto tmp0 = in_ptr0[x0 + 72*r0_1];
    tmp_acc_0[r0_index * 1] = tmp0;
    auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 260);
    auto tmp9 = in_ptr1[r0_1];
    auto tmp11 = in_ptr2[x0];
    auto tmp2 = tmp0 - tmp1.x;
    auto tmp3 = 260.0;
    auto tmp4 = tmp1.y / tmp3;
    auto tmp5 = 1e-05;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = metal::precise::rsqrt(tmp6);
    auto tmp8 = tmp2 * tmp7;
    auto tmp10 = tmp8 * tmp9;
    auto tmp12 = tmp10 + tmp11;
    out_ptr0[x0 + 72*r0_1] = static_cast<float>(tmp12);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void mean_max_2048(
    device float* out_ptr0,
    device float* out_ptr1,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = 0;
    threadgroup float tmp_acc_2[32];
    float tmp_acc_3 = ::c10::metal::MaxOp<float>::identity();
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[x0 + 72*r0_1];
        tmp_acc_1 += tmp0;
        tmp_acc_3 = ::c10::metal::max(tmp_acc_3, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    auto tmp4 = c10::metal::threadgroup_max(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr1[x0] = static_cast<float>(tmp4);
    auto tmp2 = 2048.0;
    auto tmp3 = tmp1 / tmp2;
    out_ptr0[x0] = static_cast<float>(tmp3);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void var_3000(
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
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[x0 + 72*r0_1];
        tmp_acc_0[r0_index * 1] = ::c10::metal::welford_combine(tmp_acc_0[r0_index * 1], float3(tmp0, 0.0, 1.0));
    }
    auto tmp1 = c10::metal::threadgroup_welford_combine(tmp_acc_0, 1024);
    auto tmp2 = 2999.0;
    auto tmp3 = tmp1.y / tmp2;
    out_ptr0[x0] = static_cast<float>(tmp3);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void sum_of_products_64(
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
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0 + 72*r0_1];
    auto tmp1 = in_ptr1[r0_1];
    auto tmp2 = tmp0 * tmp1;
    auto tmp3 = c10::metal::threadgroup_sum(tmp_acc_0, tmp2, r0_index * 1, 64);
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp3);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void argmax_2048_float(
    device long* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    threadgroup long tmp_acc_1[32];
    float tmp_acc_2 = ::c10::metal::MaxOp<float>::identity();
    long tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[x0 + 72*r0_1];
        if (::c10::metal::MaxOp<float>::replace(static_cast<float>(tmp0), tmp_acc_2)) {
            tmp_acc_2 = static_cast<float>(tmp0);
            tmp_acc_3 = r0_1;
        }
    }
    auto tmp1 = c10::metal::threadgroup_argmax(tmp_acc_0, tmp_acc_1, tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<long>(tmp1);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void argmin_3000_bfloat(
    device long* out_ptr0,
    constant bfloat* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup bfloat tmp_acc_0[32];
    threadgroup long tmp_acc_1[32];
    bfloat tmp_acc_2 = ::c10::metal::MinOp<bfloat>::identity();
    long tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {
        int r0__linear_idx = 3 * r0_index + r0__cnt;
        if (r0__linear_idx >= 3000) break;
        int r0_1 = r0__linear_idx;
        auto tmp0 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        if (::c10::metal::MinOp<bfloat>::replace(static_cast<bfloat>(tmp0), tmp_acc_2)) {
            tmp_acc_2 = static_cast<bfloat>(tmp0);
            tmp_acc_3 = r0_1;
        }
    }
    auto tmp1 = c10::metal::threadgroup_argmin(tmp_acc_0, tmp_acc_1, tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<long>(tmp1);
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
    auto tmp0 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
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
        auto tmp0 = static_cast<float>(in_ptr0[x0 + 72*r0_1]);
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<bfloat>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[x0] = static_cast<bfloat>(tmp1);
}
