// A model library with the C interface of AOTInductor's containers, written by hand so that tests
// can choose what no exporter makes: the size of the weights, a library that is missing, a kernel
// that fails. It makes the calls of torch's model_base.h and of generated code in their order.
//
// out[i] = in[i] * SCALE + weight[last COUNT floats][i], computed by a Metal kernel.
//
//   -DCOUNT=4         floats of the input and of the output
//   -DWEIGHT_BYTES=n  bytes of the one weight (a multiple of 64); 0 for none
//   -DSCALE=2         the factor
//   -DEXTRA=...       statements put at the start of the kernel
//   -DLEAK            gives neither its memory nor its shader library back, and keeps a handle of
//                     each input
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#ifndef EXTRA
#define EXTRA
#endif

using Handle = void*;
extern "C" {
int32_t aoti_torch_mps_malloc(void**, size_t);
int32_t aoti_torch_mps_free(void*);
int32_t aoti_torch_mps_memcpy(void*, size_t, size_t, size_t, uint8_t*);
int32_t aoti_torch_create_tensor_from_blob_v2(
    void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, Handle*,
    int32_t, const uint8_t*, int64_t);
int32_t aoti_torch_delete_tensor_object(Handle);
int32_t aoti_torch_new_tensor_handle(Handle, Handle*);
int32_t aoti_torch_empty_strided(
    int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Handle*);
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_device_type_mps();
int32_t aoti_torch_layout_strided();
int32_t aoti_torch_mps_create_shader_library(const char*, Handle*);
int32_t aoti_torch_mps_delete_shader_library(Handle);
int32_t aoti_torch_mps_get_kernel_function(Handle, const char*, Handle*);
int32_t aoti_torch_mps_start_encoding(Handle);
int32_t aoti_torch_mps_set_arg_tensor(Handle, unsigned, Handle);
int32_t aoti_torch_mps_dispatch_single(Handle, uint64_t);
void aoti_torch_mps_shared_callback(Handle, void*);
int32_t aoti_torch_mps_run_command_block(Handle, void (*)(Handle, void*), void*);
}

namespace {
thread_local std::string last_error;

const char* source = R"MTL(
#include <metal_stdlib>
using namespace metal;
kernel void generated_kernel(
    device float* out_ptr0,
    constant float* in_ptr0,
#if )MTL" TEXT(WEIGHT_BYTES) R"MTL(
    constant float* in_ptr1,
#endif
    uint xindex [[thread_position_in_grid]]
) {
    )MTL" TEXT(EXTRA) R"MTL(
    float tmp0 = in_ptr0[xindex] * )MTL" TEXT(SCALE) R"MTL(.0;
#if )MTL" TEXT(WEIGHT_BYTES) R"MTL(
    tmp0 += in_ptr1[)MTL" TEXT(WEIGHT_BYTES) R"MTL( / 4 - )MTL" TEXT(COUNT) R"MTL( + xindex];
#endif
    out_ptr0[xindex] = tmp0;
}
)MTL";

struct Library {
  Handle library = nullptr;
  Handle kernel = nullptr;
  Library() {
    aoti_torch_mps_create_shader_library(source, &library);
    aoti_torch_mps_get_kernel_function(library, "generated_kernel", &kernel);
  }
  ~Library() {
#ifndef LEAK
    if (library) aoti_torch_mps_delete_shader_library(library);
#endif
  }
};

Handle kernel() {
  static Library instance;
  return instance.kernel;
}

void check(int32_t status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + " API call failed");
}

struct Container {
  void* blob = nullptr;
  Handle weight = nullptr;

  ~Container() {
#ifndef LEAK
    if (blob) aoti_torch_mps_free(blob);
#endif
    if (weight) aoti_torch_delete_tensor_object(weight);
  }

  void load(const uint8_t* bytes) {
    if (WEIGHT_BYTES == 0) return;
    check(aoti_torch_mps_malloc(&blob, WEIGHT_BYTES), "aoti_torch_mps_malloc");
    check(
        aoti_torch_mps_memcpy(blob, 0, 0, WEIGHT_BYTES, const_cast<uint8_t*>(bytes)),
        "aoti_torch_mps_memcpy");
    const int64_t sizes[] = {WEIGHT_BYTES / 4}, strides[] = {1};
    check(
        aoti_torch_create_tensor_from_blob_v2(
            blob, 1, sizes, strides, 0, aoti_torch_dtype_float32(), aoti_torch_device_type_mps(), 0,
            &weight, aoti_torch_layout_strided(), nullptr, 0),
        "aoti_torch_create_tensor_from_blob_v2");
  }

  void run(Handle* inputs, Handle* outputs) {
    Handle input = inputs[0], output = nullptr;
#ifdef LEAK
    Handle kept = nullptr;
    check(aoti_torch_new_tensor_handle(input, &kept), "aoti_torch_new_tensor_handle");
#endif
    const int64_t sizes[] = {COUNT}, strides[] = {1};
    check(
        aoti_torch_empty_strided(
            1, sizes, strides, aoti_torch_dtype_float32(), aoti_torch_device_type_mps(), 0, &output),
        "aoti_torch_empty_strided");
    std::function<void(Handle)> block = [&](Handle k) {
      aoti_torch_mps_start_encoding(k);
      aoti_torch_mps_set_arg_tensor(k, 0, output);
      aoti_torch_mps_set_arg_tensor(k, 1, input);
      if (WEIGHT_BYTES) aoti_torch_mps_set_arg_tensor(k, 2, weight);
      aoti_torch_mps_dispatch_single(k, COUNT);
    };
    aoti_torch_mps_run_command_block(kernel(), aoti_torch_mps_shared_callback, &block);
    aoti_torch_delete_tensor_object(input);
    outputs[0] = output;
  }
};

template <class F>
int32_t guarded(F f) {
  try {
    last_error.clear();
    f();
    return 0;
  } catch (const std::exception& e) {
    last_error = e.what();
    return 1;
  }
}
Container* container(void* handle) { return static_cast<Container*>(handle); }
}  // namespace

EXPORT int32_t AOTInductorModelContainerCreateWithDevice(
    void** handle, size_t, const char*, const char*) {
  return guarded([&] { *handle = new Container; });
}
EXPORT int32_t AOTInductorModelContainerDelete(void* handle) {
  return guarded([&] { delete container(handle); });
}
EXPORT int32_t AOTInductorModelContainerRun(
    void* handle, Handle* in, size_t nin, Handle* out, size_t nout, void*, void*) {
  return guarded([&] {
    if (nin != 1 || nout != 1) throw std::runtime_error("expected 1 input and 1 output");
    container(handle)->run(in, out);
  });
}
EXPORT int32_t AOTInductorModelContainerRunSingleThreaded(
    void* handle, Handle* in, size_t nin, Handle* out, size_t nout, void* s, void* p) {
  return AOTInductorModelContainerRun(handle, in, nin, out, nout, s, p);
}
EXPORT int32_t AOTInductorModelContainerGetNumInputs(void*, size_t* n) { return *n = 1, 0; }
EXPORT int32_t AOTInductorModelContainerGetNumOutputs(void*, size_t* n) { return *n = 1, 0; }
EXPORT int32_t AOTInductorModelContainerGetNumConstants(void*, size_t* n) {
  return *n = WEIGHT_BYTES != 0, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantName(void*, size_t, const char** name) {
  return *name = "weight", 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantOriginalFQN(void*, size_t, const char** name) {
  return *name = "weight", 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantFromFolded(void*, size_t, bool* folded) {
  return *folded = false, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantType(void*, size_t, int32_t* type) {
  return *type = 1, 0;  // ConstantType::Parameter
}
EXPORT int32_t AOTInductorModelContainerGetConstantDtype(void*, size_t, int32_t* dtype) {
  return *dtype = aoti_torch_dtype_float32(), 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantDataSize(void*, size_t, size_t* bytes) {
  return *bytes = WEIGHT_BYTES, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantsBlobSize(void*, uint64_t* bytes) {
  return *bytes = WEIGHT_BYTES, 0;
}
EXPORT int32_t AOTInductorModelUpdateConstantsFromBlob(void* handle, const uint8_t* bytes) {
  return guarded([&] { container(handle)->load(bytes); });
}
EXPORT int32_t AOTInductorGetLastError(const char** message) {
  return *message = last_error.c_str(), 0;
}
