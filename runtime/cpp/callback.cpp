// The parts of the C ABI that need C++: calling back through a std::function, catching what a
// callback throws, and throwing.

#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>

namespace {

// Calls and gives 0; if the call throws, gives 1 and the exception's text, cut to `capacity`.
template <typename Call>
int catching(Call call, char* text, size_t capacity) noexcept {
  try {
    call();
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(text, capacity, "%s", e.what());
  } catch (...) {
    std::snprintf(text, capacity, "an exception that is no std::exception");
  }
  return 1;
}

} // namespace

extern "C" {

int etmetal_call_block(
    void (*callback)(void*, void*),
    void* func,
    void* user_data,
    char* text,
    size_t capacity) {
  return catching([&] { callback(func, user_data); }, text, capacity);
}

int etmetal_call_function(void* func, void* user_data, char* text, size_t capacity) {
  // Models pass a std::function<void(Handle)>, Handle being a pointer to an opaque struct. The
  // call goes through the object's own invoker; a pointer is passed alike whatever it points to.
  auto* function = static_cast<std::function<void(void*)>*>(user_data);
  return catching([&] { (*function)(func); }, text, capacity);
}

[[noreturn]] void etmetal_throw(const char* text) {
  throw std::runtime_error(text);
}

} // extern "C"
