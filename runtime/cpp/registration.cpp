#include "registration.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include <dlfcn.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <mach-o/getsect.h>
#else
#include <link.h>
#endif

#include <executorch/runtime/backend/interface.h>

namespace etmetal {
namespace {

// The mangled name of executorch::runtime::register_backend(const Backend&).
constexpr const char* kRegisterBackend =
    "_ZN10executorch7runtime16register_backendERKNS0_7BackendE";

struct Range {
  const char* begin;
  size_t size;
};

struct Image {
  std::string path;
  std::vector<Range> constants; // mapped, read-only
};

#ifdef __APPLE__

std::vector<Image> loaded_images() {
  std::vector<Image> images;
  for (uint32_t i = 0; i < _dyld_image_count(); ++i) {
    Image image;
    image.path = _dyld_get_image_name(i);
    auto* header = reinterpret_cast<const mach_header_64*>(_dyld_get_image_header(i));
    unsigned long size = 0;
    if (const uint8_t* text = getsectiondata(header, "__TEXT", "__cstring", &size)) {
      image.constants.push_back({reinterpret_cast<const char*>(text), size});
    }
    images.push_back(std::move(image));
  }
  return images;
}

#else

int add_image(dl_phdr_info* info, size_t, void* images) {
  Image image;
  image.path = info->dlpi_name; // "" for the program itself
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && (header.p_flags & PF_R) && !(header.p_flags & PF_W)) {
      auto* begin = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
      image.constants.push_back({begin, header.p_filesz});
    }
  }
  static_cast<std::vector<Image>*>(images)->push_back(std::move(image));
  return 0;
}

std::vector<Image> loaded_images() {
  std::vector<Image> images;
  dl_iterate_phdr(add_image, &images);
  return images;
}

#endif

bool contains(const Range& range, const std::string& needle) {
  return memmem(range.begin, range.size, needle.data(), needle.size()) != nullptr;
}

// Whether a statically linked runtime lies in the program: its symbols need not be visible, but
// it must hold the message for a backend that is missing.
bool holds_static_runtime(const Image& program) {
  // Put together here, so that a program holding this very code is not taken for a runtime.
  std::string needle = "Backend %s is ";
  needle += "not registered.";
  for (const Range& range : program.constants) {
    if (contains(range, needle)) {
      return true;
    }
  }
  return false;
}

// Where `symbol` is defined for the loaded image at `path`, looking through what it links with.
void* find_symbol(const std::string& path, const char* symbol) {
  void* image = dlopen(path.empty() ? nullptr : path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (image == nullptr) {
    return nullptr;
  }
  void* address = dlsym(image, symbol);
  dlclose(image);
  return address;
}

std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

} // namespace

std::string find_other_runtimes() {
  const std::vector<Image> images = loaded_images();
  const std::string ours =
      file_of(reinterpret_cast<const void*>(&executorch::runtime::register_backend));
  std::vector<std::string> others;
  const auto add = [&](const std::string& file) {
    for (const std::string& known : others) {
      if (known == file) {
        return;
      }
    }
    if (file != ours) {
      others.push_back(file);
    }
  };
  for (const Image& image : images) {
    if (void* found = find_symbol(image.path, kRegisterBackend)) {
      add(file_of(found));
    }
  }
  // The first image is the program.
  if (others.empty() && !images.empty() && holds_static_runtime(images.front())) {
    const std::string program = file_of(images.front().constants.front().begin);
    add(program.empty() ? "the program itself" : program);
  }
  if (others.empty()) {
    return "";
  }
  std::string text = "this process holds more than one ExecuTorch runtime: " + ours;
  for (const std::string& file : others) {
    text += " and " + file;
  }
  return text +
      "; MetalBackend is registered with the first only, and programs run by another do not "
      "find it. Link the program and libetmetal with the same libexecutorch";
}

} // namespace etmetal
