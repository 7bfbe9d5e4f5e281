// ExecuTorch's backend interface over the delegate's C ABI (etmetal_delegate.h). Only plain data
// crosses, and no exception does.

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include "etmetal_delegate.h"
#include "log.h"
#include "registration.h"

namespace etmetal {
namespace {

using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;
using executorch::runtime::Span;

constexpr const char* kBackendName = "MetalBackend";

using TensorImpl = std::remove_pointer_t<decltype(std::declval<Tensor>().unsafeGetTensorImpl())>;

// What the ABI's header promises about ExecuTorch's types.
static_assert(std::is_same_v<executorch::aten::SizesType, int32_t>);
static_assert(std::is_same_v<executorch::aten::StridesType, int32_t>);
static_assert(sizeof(Error) == sizeof(uint32_t));

uint32_t code(Error error) {
  return static_cast<uint32_t>(error);
}

// Runs `body`; turns an exception into a code. Nothing may unwind into the caller's frames.
template <typename Body>
uint32_t guarded(const char* what, Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    ET_LOG(Error, "MetalBackend: out of memory in %s", what);
    return code(Error::MemoryAllocationFailed);
  } catch (const std::exception& e) {
    ET_LOG(Error, "MetalBackend: %s in %s", e.what(), what);
  } catch (...) {
    ET_LOG(Error, "MetalBackend: unknown exception in %s", what);
  }
  return code(Error::Internal);
}

// EtmetalHost::get_named_data. The token owns the buffer; for a memory-mapped program the bytes
// are the mapping itself.
uint32_t get_named_data(
    void* context, const char* key, const void** data, size_t* nbytes, void** token) {
  return guarded("get_named_data", [&] {
    const auto* map = static_cast<const NamedDataMap*>(context);
    if (map == nullptr) {
      return code(Error::NotFound);
    }
    Result<FreeableBuffer> found = map->get_data(key);
    if (!found.ok()) {
      return code(found.error());
    }
    auto buffer = std::make_unique<FreeableBuffer>(std::move(*found));
    Result<const void*> bytes = buffer->data_safe();
    if (!bytes.ok()) {
      return code(bytes.error());
    }
    *data = *bytes;
    *nbytes = buffer->size();
    *token = buffer.release();
    return code(Error::Ok);
  });
}

// EtmetalHost::release.
void release_named_data(void* token) {
  delete static_cast<FreeableBuffer*>(token);
}

// EtmetalResize.
uint32_t resize(void* tensor, const int32_t* sizes, size_t dim, void** data) {
  return guarded("resize", [&] {
    auto* impl = static_cast<TensorImpl*>(tensor);
    const Error error =
        executorch::runtime::internal::resize_tensor_impl(impl, ArrayRef<int32_t>(sizes, dim));
    if (error == Error::Ok) {
      *data = impl->mutable_data();
    }
    return code(error);
  });
}

EtmetalTensor describe(EValue& argument) {
  EtmetalTensor described{};
  if (!argument.isTensor()) {
    return described;
  }
  TensorImpl* impl = argument.toTensor().unsafeGetTensorImpl();
  described.data = impl->mutable_data();
  described.nbytes = impl->nbytes();
  described.sizes = impl->sizes().data();
  described.strides = impl->strides().data();
  described.dim = static_cast<size_t>(impl->dim());
  described.dtype = static_cast<int32_t>(impl->scalar_type());
  described.tensor = impl;
  return described;
}

class MetalBackend final : public BackendInterface {
 public:
  bool is_available() const override {
    const bool available = etmetal_delegate_is_available();
    if (!available) {
      // ExecuTorch itself only says that there is no backend.
      report_failure(etmetal_last_error());
    }
    return available;
  }

  Result<DelegateHandle*> init(
      BackendInitContext& context,
      FreeableBuffer* processed,
      ArrayRef<CompileSpec> compile_specs) const override {
    void* handle = nullptr;
    const uint32_t status = guarded("init", [&] {
      std::vector<EtmetalSpec> specs;
      specs.reserve(compile_specs.size());
      for (const CompileSpec& spec : compile_specs) {
        specs.push_back({spec.key, spec.value.buffer, spec.value.nbytes});
      }
      EtmetalHost host{};
      host.context = const_cast<NamedDataMap*>(context.get_named_data_map());
      host.method_name = context.get_method_name();
      host.get_named_data = get_named_data;
      host.release = release_named_data;
      const uint32_t code = etmetal_delegate_init(
          &host, processed->data(), processed->size(), specs.data(), specs.size(), &handle);
      if (code != 0) {
        report_failure(etmetal_last_error());
      }
      return code;
    });
    if (status != 0) {
      return static_cast<Error>(status);
    }
    processed->Free();
    return handle;
  }

  Error execute(
      BackendExecutionContext&, DelegateHandle* handle, Span<EValue*> arguments) const override {
    return static_cast<Error>(guarded("execute", [&] {
      std::vector<EtmetalTensor> tensors;
      tensors.reserve(arguments.size());
      for (EValue* argument : arguments) {
        tensors.push_back(describe(*argument));
      }
      const uint32_t code =
          etmetal_delegate_execute(handle, tensors.data(), tensors.size(), resize);
      if (code != 0) {
        report_failure(etmetal_last_error());
      }
      return code;
    }));
  }

  void destroy(DelegateHandle* handle) const override {
    etmetal_delegate_destroy(handle);
  }
};

std::string describe_registration(Error error) {
  switch (error) {
    case Error::Ok:
      return "";
    case Error::InvalidArgument:
      return "another MetalBackend is already registered in this process and stays in use; load "
             "libetmetal before it, or build ExecuTorch without EXECUTORCH_BUILD_METAL";
    default:
      return std::string("ExecuTorch did not register MetalBackend (") +
          executorch::runtime::to_string(error) + "; its table holds 16 backends)";
  }
}

std::string register_once() {
  // Never destroyed: the registry keeps the pointer for the life of the process.
  static auto* backend = new MetalBackend();
  std::string problem =
      describe_registration(executorch::runtime::register_backend({kBackendName, backend}));
  if (problem.empty()) {
    problem = find_other_runtimes();
  }
  if (!problem.empty()) {
    report_failure(problem);
  }
  return problem;
}

} // namespace

const std::string& register_delegate() {
  static const auto* problem = new std::string(register_once());
  return *problem;
}

namespace {

// At load time of this library, as ExecuTorch's own backends do.
[[maybe_unused]] const bool registered = [] {
  guarded("registration", [] {
    register_delegate();
    return 0u;
  });
  return true;
}();

} // namespace
} // namespace etmetal
