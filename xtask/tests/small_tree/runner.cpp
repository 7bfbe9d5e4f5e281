// In place of executor_runner: tells what backends this program holds.
#include <cstdio>

#include <dlfcn.h>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

int main() {
  executorch::runtime::runtime_init();
  auto* backend = executorch::runtime::get_backend_class("MetalBackend");
  const bool available = backend != nullptr && backend->is_available();
  const bool exported = dlsym(RTLD_DEFAULT, "aoti_torch_delete_tensor_object") != nullptr;
  std::printf("registered %d, available %d, exported %d\n", backend != nullptr, available, exported);
}
