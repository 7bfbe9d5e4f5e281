// Whether MetalBackend is known to the ExecuTorch runtime that will look for it.
#ifndef ETMETAL_REGISTRATION_H
#define ETMETAL_REGISTRATION_H

#include <string>

namespace etmetal {

// Registers MetalBackend once; returns "" or why programs will not find this delegate. The same
// text is logged.
const std::string& register_delegate();

// Looks for ExecuTorch runtimes in the process other than the one this library is linked with.
// Each has its own table of backends and does not see the delegate. Returns "" or the text that
// names them.
std::string find_other_runtimes();

} // namespace etmetal

#endif
