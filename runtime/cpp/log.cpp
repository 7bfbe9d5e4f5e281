#include "log.h"

#include <cstdlib>
#include <cstring>

#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

namespace etmetal {
namespace {

thread_local LogCapture* innermost = nullptr;

bool also_print() {
  static const bool print = [] {
    const char* value = std::getenv("ETMETAL_LOG");
    return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
  }();
  return print;
}

std::string join(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) {
    if (!all.empty()) {
      all += "; ";
    }
    all += line;
  }
  return all;
}

} // namespace

// ExecuTorch's log goes through one table of functions of the process. The hook puts itself
// before the function that was there and passes on what no capture wants.
struct LogHook {
  static void install() {
    static const bool installed = [] {
      previous = executorch::runtime::get_pal_impl()->emit_log_message;
      return executorch::runtime::register_pal(
          executorch::runtime::PalImpl::create(&LogHook::emit, __FILE__));
    }();
    (void)installed;
  }

  static void emit(
      et_timestamp_t timestamp,
      et_pal_log_level_t level,
      const char* filename,
      const char* function,
      size_t line,
      const char* message,
      size_t length) {
    // A fatal message precedes an abort: nobody will read the capture.
    if (innermost != nullptr && level == kError) {
      try {
        innermost->runtime_.emplace_back(message, length);
      } catch (...) { // out of memory: the message is lost, the error code is not
      }
      if (!also_print()) {
        return;
      }
    }
    if (previous != nullptr) {
      previous(timestamp, level, filename, function, line, message, length);
    }
  }

  static pal_emit_log_message_method previous;
};

pal_emit_log_message_method LogHook::previous = nullptr;

LogCapture::LogCapture() : outer_(innermost) {
  LogHook::install();
  innermost = this;
}

LogCapture::~LogCapture() {
  innermost = outer_;
}

std::string LogCapture::text() const {
  return join(delegate_.empty() ? runtime_ : delegate_);
}

void report_failure(const std::string& text) {
  if (innermost != nullptr) {
    innermost->delegate_.push_back(text);
    if (!also_print()) {
      return;
    }
  }
  constexpr size_t kPiece = 230;
  size_t start = 0;
  while (start < text.size()) {
    size_t end = text.find('\n', start);
    end = end == std::string::npos ? text.size() : end;
    const size_t length = end - start < kPiece ? end - start : kPiece;
    ET_LOG(Error, "MetalBackend: %.*s", static_cast<int>(length), text.data() + start);
    start += length;
    if (start == end) {
      ++start; // the newline
    }
  }
}

} // namespace etmetal
