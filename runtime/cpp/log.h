// Error texts: ExecuTorch's log messages and the delegate's, collected for the caller.
#ifndef ETMETAL_LOG_H
#define ETMETAL_LOG_H

#include <string>
#include <vector>

namespace etmetal {

// Reports the failure of the delegate on this thread. While a LogCapture is active the whole text
// goes there; otherwise it goes to ExecuTorch's log, in pieces, for that log cuts each message at
// 255 bytes.
void report_failure(const std::string& text);

// While it lives, errors that ExecuTorch logs on this thread are kept here instead of being
// printed (ETMETAL_LOG=1 prints them as well). Messages of other threads, and those below error
// level, go where they went before. Captures nest; the innermost gets the messages.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // What was reported so far: the delegate's own text if there is one (ExecuTorch's messages then
  // only repeat that something failed), else ExecuTorch's messages. "" if there was nothing.
  std::string text() const;

 private:
  friend void report_failure(const std::string& text);
  friend struct LogHook;

  LogCapture* outer_;
  std::vector<std::string> delegate_;
  std::vector<std::string> runtime_;
};

} // namespace etmetal

#endif
