// ExecuTorch's CPU kernels, for the parts of a method that no delegate took.
#ifndef ETMETAL_KERNELS_H
#define ETMETAL_KERNELS_H

namespace etmetal {

// Loads the kernel libraries that lie beside this library or libexecutorch. Returns whether
// kernels were added: false too if the process has kernels already, for registering an operator
// twice ends the process. Failures are logged.
bool load_kernels();

} // namespace etmetal

#endif
