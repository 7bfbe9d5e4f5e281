#include "kernels.h"

#include <string>

#include <dlfcn.h>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/log.h>

namespace etmetal {
namespace {

#ifdef __APPLE__
constexpr const char* kLibrary = "libexecutorch_kernels_optimized.dylib";
#else
constexpr const char* kLibrary = "libexecutorch_kernels_optimized.so";
#endif

// The folder of the loaded file that holds `address`, with its final slash.
std::string folder_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

// An operator that every set of kernels holds. ExecuTorch's prim ops alone do not.
bool has_kernels() {
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    if (std::string("aten::add.out") == kernel.name_) {
      return true;
    }
  }
  return false;
}

bool load_from(const std::string& folder) {
  const std::string path = folder + kLibrary;
  // Never closed: the registry keeps pointers into it.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) != nullptr) {
    return true;
  }
  ET_LOG(Error, "no CPU kernels: %s", dlerror());
  return false;
}

} // namespace

bool load_kernels() {
  static const bool loaded = [] {
    return !has_kernels() &&
        (load_from(folder_of(reinterpret_cast<const void*>(&load_kernels))) ||
         load_from(folder_of(
             reinterpret_cast<const void*>(&executorch::runtime::register_backend))));
  }();
  return loaded;
}

} // namespace etmetal
