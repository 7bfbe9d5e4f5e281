// The kernels of exported models that synchronise, as AOTInductor made them, without the headers
// before them; the names are those of the models.

[[max_total_threads_per_threadgroup(40)]]
kernel void argmax_1(
    device float* out_ptr0,
    device long* out_ptr1,
    device long* out_ptr2,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[2];
    threadgroup float tmp_acc_1[2];
    threadgroup long tmp_acc_2[2];
    auto tmp0 = in_ptr0[r0_1 + 40*x0];
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), r0_index * 1, 40);
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp1);
    auto tmp2 = c10::metal::threadgroup_argmax(tmp_acc_1, tmp_acc_2, static_cast<float>(tmp0), static_cast<long>(r0_index * 1), r0_index * 1, 40);
    if (r0_index == 0) out_ptr1[x0] = static_cast<long>(tmp2);
    if (r0_index == 0) out_ptr2[x0] = static_cast<long>(tmp2);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void cnn_1(
    device float* out_ptr1,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_2 = r0_index;
    int x0 = (xindex) % (32);
    int x1 = c10::metal::floor_divide(xindex, 32);
    threadgroup float tmp_acc_0[2];
    int x3 = xindex;
    auto tmp0 = in_ptr0[x0 + 32*r0_2 + 2048*x1];
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 64);
    auto tmp2 = 64.0;
    auto tmp3 = tmp1 / tmp2;
    out_ptr1[x3] = static_cast<float>(tmp3);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void layernorm_1(
    device float* out_ptr2,
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
    threadgroup float tmp_acc_0[64];
    auto tmp0 = in_ptr0[r0_1 + 64*x0];
    tmp_acc_0[r0_index * 1] = tmp0;
    auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 64);
    auto tmp9 = in_ptr1[r0_1];
    auto tmp11 = in_ptr2[r0_1];
    auto tmp2 = tmp0 - tmp1.x;
    auto tmp3 = 64.0;
    auto tmp4 = tmp1.y / tmp3;
    auto tmp5 = 1e-05;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = metal::precise::rsqrt(tmp6);
    auto tmp8 = tmp2 * tmp7;
    auto tmp10 = tmp8 * tmp9;
    auto tmp12 = tmp10 + tmp11;
    out_ptr2[r0_1 + 64*x0] = static_cast<float>(tmp12);
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void reductions_1(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = ::c10::metal::MinOp<float>::identity();
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        if (r0__linear_idx >= 1800) break;
        int r0_0 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_0];
        tmp_acc_1 = ::c10::metal::min(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_min(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    if (r0_index == 0) out_ptr0[0] = static_cast<float>(tmp1);
}

[[max_total_threads_per_threadgroup(300)]]
kernel void reductions_2(
    device float* out_ptr0,
    device float* out_ptr1,
    device float* out_ptr3,
    device bool* out_ptr4,
    device float* out_ptr6,
    device float* out_ptr7,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[10];
    threadgroup float tmp_acc_1[10];
    threadgroup float tmp_acc_2[300];
    threadgroup float tmp_acc_3[10];
    threadgroup bool tmp_acc_4;
    tmp_acc_4 = false;
    threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    threadgroup float tmp_acc_5[10];
    auto tmp0 = in_ptr0[r0_1 + 300*x0];
    tmp_acc_2[r0_index * 1] = tmp0;
    auto tmp3 = c10::metal::threadgroup_welford_reduce(tmp_acc_2, 300);
    auto tmp5 = 0.0;
    auto tmp6 = tmp0 > tmp5;
    auto tmp7 = static_cast<long>(tmp6);
    auto tmp8 = static_cast<bool>(tmp7);

    if (tmp8) {
        tmp_acc_4 = true;
    }
    auto tmp9 = tmp0 * tmp0;
    auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 300);
    if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp1);
    auto tmp2 = c10::metal::threadgroup_max(tmp_acc_1, static_cast<float>(tmp0), r0_index * 1, 300);
    if (r0_index == 0) out_ptr1[x0] = static_cast<float>(tmp2);
    auto tmp4 = c10::metal::threadgroup_prod(tmp_acc_3, tmp0, r0_index * 1, 300);
    if (r0_index == 0) out_ptr3[x0] = static_cast<float>(tmp4);
    threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (r0_index == 0) out_ptr4[x0] = static_cast<bool>(tmp_acc_4);
    auto tmp10 = c10::metal::threadgroup_sum(tmp_acc_5, tmp9, r0_index * 1, 300);
    auto tmp11 = 299.0;
    auto tmp12 = tmp3.y / tmp11;
    auto tmp13 = metal::precise::sqrt(tmp10);
    out_ptr6[x0] = static_cast<float>(tmp12);
    out_ptr7[x0] = static_cast<float>(tmp13);
}

[[max_total_threads_per_threadgroup(32)]]
kernel void sdpa_block_causal_1(
    device float* out_ptr2,
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
    threadgroup float tmp_acc_0[32];
    auto tmp0 = in_ptr0[r0_1 + 32*x0];
    tmp_acc_0[r0_index * 1] = tmp0;
    auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 32);
    auto tmp9 = in_ptr1[r0_1];
    auto tmp11 = in_ptr2[r0_1];
    auto tmp2 = tmp0 - tmp1.x;
    auto tmp3 = 32.0;
    auto tmp4 = tmp1.y / tmp3;
    auto tmp5 = 1e-05;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = metal::precise::rsqrt(tmp6);
    auto tmp8 = tmp2 * tmp7;
    auto tmp10 = tmp8 * tmp9;
    auto tmp12 = tmp10 + tmp11;
    out_ptr2[r0_1 + 32*x0] = static_cast<float>(tmp12);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_1(
    device float* out_ptr1,
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
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[r0_1 + 64*x0];
    auto tmp1 = in_ptr1[r0_1 + 64*x0];
    auto tmp2 = tmp0 + tmp1;
    auto tmp3 = tmp2 * tmp2;
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_0, tmp3, r0_index * 1, 64);
    auto tmp11 = in_ptr2[r0_1];
    auto tmp5 = 64.0;
    auto tmp6 = tmp4 / tmp5;
    auto tmp7 = 9.999999747378752e-06;
    auto tmp8 = tmp6 + tmp7;
    auto tmp9 = metal::precise::rsqrt(tmp8);
    auto tmp10 = tmp2 * tmp9;
    auto tmp12 = tmp10 * tmp11;
    out_ptr1[r0_1 + 64*x0] = static_cast<float>(tmp12);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_2(
    device float* out_ptr0,
    device float* out_ptr2,
    constant long* in_ptr0,
    constant float* in_ptr1,
    constant float* in_ptr2,
    constant float* in_ptr3,
    constant float* in_ptr4,
    constant float* in_ptr5,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    auto tmp3 = in_ptr2[r0_1 + 64*x0];
    auto tmp5 = in_ptr3[r0_1 + 64*x0];
    auto tmp7 = in_ptr4[r0_1 + 64*x0];
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = in_ptr1[r0_1 + 64*tmp0];
    auto tmp4 = tmp2 + tmp3;
    auto tmp6 = tmp4 + tmp5;
    auto tmp8 = tmp6 + tmp7;
    out_ptr0[r0_1 + 64*x0] = static_cast<float>(tmp8);
    auto tmp9 = tmp8 * tmp8;
    auto tmp10 = c10::metal::threadgroup_sum(tmp_acc_0, tmp9, r0_index * 1, 64);
    auto tmp17 = in_ptr5[r0_1];
    auto tmp11 = 64.0;
    auto tmp12 = tmp10 / tmp11;
    auto tmp13 = 9.999999747378752e-06;
    auto tmp14 = tmp12 + tmp13;
    auto tmp15 = metal::precise::rsqrt(tmp14);
    auto tmp16 = tmp8 * tmp15;
    auto tmp18 = tmp16 * tmp17;
    out_ptr2[r0_1 + 64*x0] = static_cast<float>(tmp18);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_3(
    device float* out_ptr1,
    constant long* in_ptr0,
    constant float* in_ptr1,
    constant float* in_ptr2,
    constant float* in_ptr3,
    constant float* in_ptr4,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    auto tmp3 = in_ptr2[r0_1 + 64*x0];
    auto tmp5 = in_ptr3[r0_1 + 64*x0];
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = in_ptr1[r0_1 + 64*tmp0];
    auto tmp4 = tmp2 + tmp3;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = tmp6 * tmp6;
    auto tmp8 = c10::metal::threadgroup_sum(tmp_acc_0, tmp7, r0_index * 1, 64);
    auto tmp15 = in_ptr4[r0_1];
    auto tmp9 = 64.0;
    auto tmp10 = tmp8 / tmp9;
    auto tmp11 = 9.999999747378752e-06;
    auto tmp12 = tmp10 + tmp11;
    auto tmp13 = metal::precise::rsqrt(tmp12);
    auto tmp14 = tmp6 * tmp13;
    auto tmp16 = tmp14 * tmp15;
    out_ptr1[r0_1 + 64*x0] = static_cast<float>(tmp16);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_4(
    device float* out_ptr1,
    constant long* in_ptr0,
    constant float* in_ptr1,
    constant float* in_ptr2,
    constant float* in_ptr3,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    auto tmp3 = in_ptr2[r0_1 + 64*x0];
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = in_ptr1[r0_1 + 64*tmp0];
    auto tmp4 = tmp2 + tmp3;
    auto tmp5 = tmp4 * tmp4;
    auto tmp6 = c10::metal::threadgroup_sum(tmp_acc_0, tmp5, r0_index * 1, 64);
    auto tmp13 = in_ptr3[r0_1];
    auto tmp7 = 64.0;
    auto tmp8 = tmp6 / tmp7;
    auto tmp9 = 9.999999747378752e-06;
    auto tmp10 = tmp8 + tmp9;
    auto tmp11 = metal::precise::rsqrt(tmp10);
    auto tmp12 = tmp4 * tmp11;
    auto tmp14 = tmp12 * tmp13;
    out_ptr1[r0_1 + 64*x0] = static_cast<float>(tmp14);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_5(
    device float* out_ptr1,
    constant long* in_ptr0,
    constant float* in_ptr1,
    constant float* in_ptr2,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = in_ptr1[r0_1 + 64*tmp0];
    auto tmp3 = tmp2 * tmp2;
    auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_0, tmp3, r0_index * 1, 64);
    auto tmp11 = in_ptr2[r0_1];
    auto tmp5 = 64.0;
    auto tmp6 = tmp4 / tmp5;
    auto tmp7 = 9.999999747378752e-06;
    auto tmp8 = tmp6 + tmp7;
    auto tmp9 = metal::precise::rsqrt(tmp8);
    auto tmp10 = tmp2 * tmp9;
    auto tmp12 = tmp10 * tmp11;
    out_ptr1[r0_1 + 64*x0] = static_cast<float>(tmp12);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_bfloat16_1(
    device bfloat* out_ptr1,
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
    threadgroup float tmp_acc_0[2];
    auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 64*x0]);
    auto tmp1 = static_cast<float>(in_ptr1[r0_1 + 64*x0]);
    auto tmp2 = tmp0 + tmp1;
    auto tmp3 = static_cast<float>(tmp2);
    auto tmp4 = tmp3 * tmp3;
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_0, tmp4, r0_index * 1, 64);
    auto tmp13 = static_cast<float>(in_ptr2[r0_1]);
    auto tmp6 = 64.0;
    auto tmp7 = tmp5 / tmp6;
    auto tmp8 = 9.999999747378752e-06;
    auto tmp9 = tmp7 + tmp8;
    auto tmp10 = metal::precise::rsqrt(tmp9);
    auto tmp11 = tmp3 * tmp10;
    auto tmp12 = static_cast<bfloat>(tmp11);
    auto tmp14 = tmp12 * tmp13;
    out_ptr1[r0_1 + 64*x0] = static_cast<bfloat>(tmp14);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_bfloat16_2(
    device bfloat* out_ptr0,
    device bfloat* out_ptr2,
    constant long* in_ptr0,
    constant bfloat* in_ptr1,
    constant bfloat* in_ptr2,
    constant bfloat* in_ptr3,
    constant bfloat* in_ptr4,
    constant bfloat* in_ptr5,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    auto tmp3 = static_cast<float>(in_ptr2[r0_1 + 64*x0]);
    auto tmp5 = static_cast<float>(in_ptr3[r0_1 + 64*x0]);
    auto tmp7 = static_cast<float>(in_ptr4[r0_1 + 64*x0]);
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = static_cast<float>(in_ptr1[r0_1 + 64*tmp0]);
    auto tmp4 = tmp2 + tmp3;
    auto tmp6 = tmp4 + tmp5;
    auto tmp8 = tmp6 + tmp7;
    out_ptr0[r0_1 + 64*x0] = static_cast<bfloat>(tmp8);
    auto tmp9 = static_cast<float>(tmp8);
    auto tmp10 = tmp9 * tmp9;
    auto tmp11 = c10::metal::threadgroup_sum(tmp_acc_0, tmp10, r0_index * 1, 64);
    auto tmp19 = static_cast<float>(in_ptr5[r0_1]);
    auto tmp12 = 64.0;
    auto tmp13 = tmp11 / tmp12;
    auto tmp14 = 9.999999747378752e-06;
    auto tmp15 = tmp13 + tmp14;
    auto tmp16 = metal::precise::rsqrt(tmp15);
    auto tmp17 = tmp9 * tmp16;
    auto tmp18 = static_cast<bfloat>(tmp17);
    auto tmp20 = tmp18 * tmp19;
    out_ptr2[r0_1 + 64*x0] = static_cast<bfloat>(tmp20);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_bfloat16_3(
    device bfloat* out_ptr1,
    constant long* in_ptr0,
    constant bfloat* in_ptr1,
    constant bfloat* in_ptr2,
    constant bfloat* in_ptr3,
    constant bfloat* in_ptr4,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    auto tmp3 = static_cast<float>(in_ptr2[r0_1 + 64*x0]);
    auto tmp5 = static_cast<float>(in_ptr3[r0_1 + 64*x0]);
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = static_cast<float>(in_ptr1[r0_1 + 64*tmp0]);
    auto tmp4 = tmp2 + tmp3;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = static_cast<float>(tmp6);
    auto tmp8 = tmp7 * tmp7;
    auto tmp9 = c10::metal::threadgroup_sum(tmp_acc_0, tmp8, r0_index * 1, 64);
    auto tmp17 = static_cast<float>(in_ptr4[r0_1]);
    auto tmp10 = 64.0;
    auto tmp11 = tmp9 / tmp10;
    auto tmp12 = 9.999999747378752e-06;
    auto tmp13 = tmp11 + tmp12;
    auto tmp14 = metal::precise::rsqrt(tmp13);
    auto tmp15 = tmp7 * tmp14;
    auto tmp16 = static_cast<bfloat>(tmp15);
    auto tmp18 = tmp16 * tmp17;
    out_ptr1[r0_1 + 64*x0] = static_cast<bfloat>(tmp18);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_bfloat16_4(
    device bfloat* out_ptr1,
    constant long* in_ptr0,
    constant bfloat* in_ptr1,
    constant bfloat* in_ptr2,
    constant bfloat* in_ptr3,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    auto tmp3 = static_cast<float>(in_ptr2[r0_1 + 64*x0]);
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = static_cast<float>(in_ptr1[r0_1 + 64*tmp0]);
    auto tmp4 = tmp2 + tmp3;
    auto tmp5 = static_cast<float>(tmp4);
    auto tmp6 = tmp5 * tmp5;
    auto tmp7 = c10::metal::threadgroup_sum(tmp_acc_0, tmp6, r0_index * 1, 64);
    auto tmp15 = static_cast<float>(in_ptr3[r0_1]);
    auto tmp8 = 64.0;
    auto tmp9 = tmp7 / tmp8;
    auto tmp10 = 9.999999747378752e-06;
    auto tmp11 = tmp9 + tmp10;
    auto tmp12 = metal::precise::rsqrt(tmp11);
    auto tmp13 = tmp5 * tmp12;
    auto tmp14 = static_cast<bfloat>(tmp13);
    auto tmp16 = tmp14 * tmp15;
    out_ptr1[r0_1 + 64*x0] = static_cast<bfloat>(tmp16);
}

[[max_total_threads_per_threadgroup(64)]]
kernel void tiny_llama_bfloat16_5(
    device bfloat* out_ptr1,
    constant long* in_ptr0,
    constant bfloat* in_ptr1,
    constant bfloat* in_ptr2,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    int r0_1 = r0_index;
    threadgroup float tmp_acc_0[2];
    auto tmp0 = in_ptr0[x0];
    if ((tmp0 < 0 || tmp0 >= 128)) return;
    auto tmp2 = static_cast<float>(in_ptr1[r0_1 + 64*tmp0]);
    auto tmp3 = static_cast<float>(tmp2);
    auto tmp4 = tmp3 * tmp3;
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_0, tmp4, r0_index * 1, 64);
    auto tmp13 = static_cast<float>(in_ptr2[r0_1]);
    auto tmp6 = 64.0;
    auto tmp7 = tmp5 / tmp6;
    auto tmp8 = 9.999999747378752e-06;
    auto tmp9 = tmp7 + tmp8;
    auto tmp10 = metal::precise::rsqrt(tmp9);
    auto tmp11 = tmp3 * tmp10;
    auto tmp12 = static_cast<bfloat>(tmp11);
    auto tmp14 = tmp12 * tmp13;
    out_ptr1[r0_1 + 64*x0] = static_cast<bfloat>(tmp14);
}
