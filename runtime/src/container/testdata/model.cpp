// A model library for tests, with AOTInductor's container interface and its calls in the order of
// torch's model_base.h and model_container.h. It computes on the CPU, so that it needs no shader.
//
//   output[i] = input[i] * weight[i] + cache[i];  then cache[i] += 1
//
// weight is a parameter of 16 floats, cache a buffer of 16 floats that the model writes to.
//
//   -DUNPADDED        the weight has 60 bytes in the blob, so that offsets do not agree
//   -DNO_REPLACEMENT  without the functions that replace constants, as older exports
//   -DNO_BUFFER       cache is said to be a parameter
#include <cstdint>
#include <stdexcept>
#include <string>

using Handle = void*;
struct Entry {
  const char* name;
  Handle handle;
};
extern "C" {
int32_t aoti_torch_mps_malloc(void**, size_t);
int32_t aoti_torch_mps_free(void*);
int32_t aoti_torch_mps_memcpy(void*, size_t, size_t, size_t, uint8_t*);
int32_t aoti_torch_create_tensor_from_blob_v2(
    void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, Handle*,
    int32_t, const uint8_t*, int64_t);
int32_t aoti_torch_delete_tensor_object(Handle);
int32_t aoti_torch_new_tensor_handle(Handle, Handle*);
int32_t aoti_torch_get_data_ptr(Handle, void**);
int32_t aoti_torch_get_numel(Handle, int64_t*);
int32_t aoti_torch_get_sizes(Handle, int64_t**);
int32_t aoti_torch_empty_strided(
    int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Handle*);
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_device_type_mps();
int32_t aoti_torch_layout_strided();
}

namespace {
#ifdef UNPADDED
constexpr size_t kWeightBytes = 60;
#else
constexpr size_t kWeightBytes = 64;
#endif
constexpr size_t kSizes[] = {kWeightBytes, 64};
constexpr const char* kNames[] = {"fn_weight", "fn_cache"};
constexpr const char* kOriginalNames[] = {"layer.weight", "layer.cache"};
constexpr size_t kConstants = 2;

thread_local std::string last_error;

void check(int32_t status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + " API call failed");
}

float* data(Handle tensor) {
  void* pointer = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &pointer), "aoti_torch_get_data_ptr");
  return static_cast<float*>(pointer);
}

struct Container {
  void* blob = nullptr;
  Handle constants[kConstants] = {};
  bool owned[kConstants] = {};
  Entry entries[kConstants] = {};

  ~Container() {
    if (blob) aoti_torch_mps_free(blob);
    for (size_t i = 0; i < kConstants; i++) {
      if (owned[i]) aoti_torch_delete_tensor_object(constants[i]);
    }
  }

  void load(uint8_t* bytes) {
    check(aoti_torch_mps_malloc(&blob, 128), "aoti_torch_mps_malloc");
    size_t read = 0;
    for (size_t i = 0; i < kConstants; i++) {
      const size_t offset = 64 * i;
      check(aoti_torch_mps_memcpy(blob, offset, read, kSizes[i], bytes), "aoti_torch_mps_memcpy");
      read += kSizes[i];
      const int64_t sizes[] = {16}, strides[] = {1};
      check(
          aoti_torch_create_tensor_from_blob_v2(
              blob, 1, sizes, strides, offset / 4, aoti_torch_dtype_float32(),
              aoti_torch_device_type_mps(), 0, &constants[i], aoti_torch_layout_strided(), nullptr,
              0),
          "aoti_torch_create_tensor_from_blob_v2");
      owned[i] = true;
    }
  }

  void run(Handle* inputs, Handle* outputs) {
    if (data(inputs[0])[0] == -1) throw std::runtime_error("refused before taking the input");
    Handle input = inputs[0];
    inputs[0] = nullptr;
    int64_t numel = 0;
    check(aoti_torch_get_numel(input, &numel), "aoti_torch_get_numel");
    const int64_t sizes[] = {numel}, strides[] = {1};
    Handle output = nullptr;
    check(
        aoti_torch_empty_strided(
            1, sizes, strides, aoti_torch_dtype_float32(), aoti_torch_device_type_mps(), 0, &output),
        "aoti_torch_empty_strided");
    outputs[0] = output;
    if (data(input)[0] == -2) {
      aoti_torch_delete_tensor_object(input);
      throw std::runtime_error("refused after making the output");
    }
    float *in = data(input), *out = data(output);
    float *weight = data(constants[0]), *cache = data(constants[1]);
    for (int64_t i = 0; i < numel; i++) {
      out[i] = in[i] * weight[i] + cache[i];
#ifndef NO_BUFFER
      cache[i] += 1;
#endif
    }
    aoti_torch_delete_tensor_object(input);
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
} // namespace

extern "C" {
int32_t AOTInductorModelContainerCreateWithDevice(
    void** handle, size_t, const char* device, const char*) {
  return guarded([&] {
    if (std::string(device) != "mps") throw std::runtime_error("Invalid device");
    *handle = new Container;
  });
}
int32_t AOTInductorModelContainerDelete(void* handle) {
  return guarded([&] { delete container(handle); });
}
int32_t AOTInductorModelContainerRun(
    void* handle, Handle* in, size_t nin, Handle* out, size_t nout, void*, void*) {
  // Outside of any guard, as AOTI_VECTOR_SIZE_CHECK is.
  if (nin != 1 || nout != 1) throw std::runtime_error("wrong number of inputs or outputs");
  return guarded([&] { container(handle)->run(in, out); });
}
int32_t AOTInductorModelContainerRunSingleThreaded(
    void* handle, Handle* in, size_t nin, Handle* out, size_t nout, void* s, void* p) {
  return AOTInductorModelContainerRun(handle, in, nin, out, nout, s, p);
}
int32_t AOTInductorModelContainerGetNumInputs(void*, size_t* n) { return *n = 1, 0; }
int32_t AOTInductorModelContainerGetNumOutputs(void*, size_t* n) { return *n = 1, 0; }
int32_t AOTInductorModelContainerGetNumConstants(void*, size_t* n) { return *n = kConstants, 0; }
int32_t AOTInductorModelContainerGetConstantName(void*, size_t i, const char** name) {
  return *name = kNames[i], 0;
}
int32_t AOTInductorModelContainerGetConstantOriginalFQN(void*, size_t i, const char** name) {
  return *name = kOriginalNames[i], 0;
}
int32_t AOTInductorModelContainerGetConstantFromFolded(void*, size_t, bool* folded) {
  return *folded = false, 0;
}
int32_t AOTInductorModelContainerGetConstantType(void*, size_t i, int32_t* type) {
#ifdef NO_BUFFER
  return *type = 1, 0;
#else
  return *type = i == 0 ? 1 : 2, 0;
#endif
}
int32_t AOTInductorModelContainerGetConstantDataSize(void*, size_t i, size_t* bytes) {
  return *bytes = kSizes[i], 0;
}
int32_t AOTInductorModelContainerGetConstantsBlobSize(void*, uint64_t* bytes) {
  return *bytes = kSizes[0] + kSizes[1], 0;
}
int32_t AOTInductorModelUpdateConstantsFromBlob(void* handle, const uint8_t* bytes) {
  return guarded([&] { container(handle)->load(const_cast<uint8_t*>(bytes)); });
}
#ifndef NO_REPLACEMENT
int32_t AOTInductorModelContainerExtractConstantsMapEntries(
    void* handle, const Entry** entries, size_t* count, bool) {
  Container* c = container(handle);
  for (size_t i = 0; i < kConstants; i++) c->entries[i] = {kOriginalNames[i], c->constants[i]};
  return *entries = c->entries, *count = kConstants, 0;
}
int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(
    void* handle, const Entry* pairs, size_t count, bool, bool) {
  return guarded([&] {
    Container* c = container(handle);
    for (size_t p = 0; p < count; p++) {
      for (size_t i = 0; i < kConstants; i++) {
        if (std::string(pairs[p].name) != kNames[i]) continue;
        Handle replacement = nullptr;
        check(
            aoti_torch_new_tensor_handle(pairs[p].handle, &replacement),
            "aoti_torch_new_tensor_handle");
        if (c->owned[i]) aoti_torch_delete_tensor_object(c->constants[i]);
        // As MaybeOwningAtenTensorHandle: a user-managed handle is not deleted.
        c->constants[i] = replacement;
        c->owned[i] = false;
      }
    }
  });
}
#endif
int32_t AOTInductorGetLastError(const char** message) { return *message = last_error.c_str(), 0; }
}
