# Adds this backend to an ExecuTorch source tree without a change in it:
#
#   cmake -S executorch -B build -DEXECUTORCH_BUILD_METAL=ON \
#         -DCMAKE_PROJECT_executorch_INCLUDE=<this file> \
#         -DETMETAL_RUST_LIBRARY=<target>/release/libetmetal.a
#
# `cargo xtask build` does that for presets with `executorch.from = "source"` or "git".
# project(executorch) includes this file. EXECUTORCH_BUILD_METAL then means this backend, and
# ExecuTorch's own one (which needs PyTorch and a Mac) stays out.

# CMAKE_PROJECT_INCLUDE would bring it here for every project() of the tree.
if(NOT PROJECT_NAME STREQUAL "executorch" OR NOT EXECUTORCH_BUILD_METAL)
  return()
endif()

set(ETMETAL_RUST_LIBRARY "" CACHE FILEPATH "libetmetal.a, as built by cargo")
include("${CMAKE_CURRENT_LIST_DIR}/targets.cmake")
etmetal_check_rust_library()

# A variable of the directory hides that of the cache, which keeps what the user asked for.
set(EXECUTORCH_BUILD_METAL OFF)

# The targets to link with exist once all of ExecuTorch's CMakeLists.txt has run.
set(_etmetal_in_executorch "${CMAKE_CURRENT_LIST_DIR}/executorch-targets.cmake")
cmake_language(DEFER CALL include "${_etmetal_in_executorch}")
