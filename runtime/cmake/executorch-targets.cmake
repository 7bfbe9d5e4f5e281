# The backend as targets of ExecuTorch's own build: what executorch-include.cmake runs at the end
# of ExecuTorch's CMakeLists.txt.
#
#   metal_backend  static, under the name that ExecuTorch gives its Metal backend: all that links
#                  `executorch::backends`, as executor_runner, holds it
#   etmetal        libetmetal, beside libexecutorch; with EXECUTORCH_BUILD_SHARED

include(GNUInstallDirs)
etmetal_read_version(ETMETAL_VERSION)

# --- metal_backend ---------------------------------------------------------------------------
add_library(metal_backend STATIC ${ETMETAL_BACKEND_SOURCES})
set_target_properties(metal_backend PROPERTIES POSITION_INDEPENDENT_CODE ON)
etmetal_compile(metal_backend executorch_core "${CMAKE_CURRENT_SOURCE_DIR}")
etmetal_system_libraries(_etmetal_libraries)
target_link_libraries(metal_backend PUBLIC executorch_core ${_etmetal_libraries})

# Nothing refers to the backend's registration, nor to the C ABI that models call: both archives
# go into programs whole, and programs export that C ABI.
set(_etmetal_installed "$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/libetmetal.a")
set(_etmetal_rust
    "$<BUILD_INTERFACE:${ETMETAL_RUST_LIBRARY}>$<INSTALL_INTERFACE:${_etmetal_installed}>"
)
set(_etmetal_is_program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
foreach(_archive "$<TARGET_FILE:metal_backend>" "${_etmetal_rust}")
  if(APPLE)
    target_link_options(metal_backend INTERFACE "LINKER:-force_load,${_archive}")
  else()
    target_link_options(
      metal_backend INTERFACE "LINKER:--push-state,--whole-archive,${_archive},--pop-state"
    )
  endif()
endforeach()
foreach(_symbols "aoti_torch_*" "etmetal_*" "torch_*")
  if(APPLE)
    set(_option "LINKER:-exported_symbol,_${_symbols}")
  else()
    set(_option "LINKER:--export-dynamic-symbol=${_symbols}")
  endif()
  target_link_options(metal_backend INTERFACE "$<${_etmetal_is_program}:${_option}>")
endforeach()
# A file in a link option is no prerequisite; this one makes programs link anew.
set_property(
  TARGET metal_backend
  APPEND
  PROPERTY INTERFACE_LINK_DEPENDS "$<BUILD_INTERFACE:${ETMETAL_RUST_LIBRARY}>"
)

install(
  TARGETS metal_backend
  EXPORT ExecuTorchTargets
  DESTINATION "${CMAKE_INSTALL_LIBDIR}"
)
install(
  FILES "${ETMETAL_RUST_LIBRARY}"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RENAME libetmetal.a
)
if(TARGET executorch_backends)
  target_link_libraries(executorch_backends INTERFACE metal_backend)
endif()

# ExecuTorch's programs and packages name the portable kernels even where they are not built.
if(NOT EXECUTORCH_BUILD_PORTABLE_OPS AND NOT TARGET portable_ops_lib)
  add_library(portable_ops_lib INTERFACE)
  install(TARGETS portable_ops_lib EXPORT ExecuTorchTargets)
endif()

# --- etmetal ---------------------------------------------------------------------------------
if(NOT TARGET executorch_shared)
  return()
endif()
if(NOT TARGET extension_module_static OR NOT TARGET extension_tensor)
  message(
    FATAL_ERROR
      "libetmetal needs EXECUTORCH_BUILD_EXTENSION_MODULE and EXECUTORCH_BUILD_EXTENSION_TENSOR: "
      "set both to ON"
  )
endif()
add_library(etmetal SHARED ${ETMETAL_BACKEND_SOURCES} ${ETMETAL_RUNNER_SOURCES})
add_dependencies(etmetal executorch_shared)
etmetal_compile(etmetal executorch_shared "${CMAKE_CURRENT_SOURCE_DIR}")
etmetal_link(etmetal "$<TARGET_FILE:executorch_shared>")
etmetal_install(etmetal "${ETMETAL_VERSION}")
