# What the two builds of libetmetal share: this project against a finished ExecuTorch
# (CMakeLists.txt), and as a part of ExecuTorch's own build (executorch-include.cmake).

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ETMETAL_SOURCE_DIR)
cmake_path(GET ETMETAL_SOURCE_DIR PARENT_PATH ETMETAL_WORKSPACE_DIR)

# The backend itself, and the C API of etmetal_runner.h.
set(ETMETAL_BACKEND_SOURCES
    "${ETMETAL_SOURCE_DIR}/cpp/glue.cpp" "${ETMETAL_SOURCE_DIR}/cpp/log.cpp"
    "${ETMETAL_SOURCE_DIR}/cpp/registration.cpp"
)
set(ETMETAL_RUNNER_SOURCES "${ETMETAL_SOURCE_DIR}/cpp/kernels.cpp"
                           "${ETMETAL_SOURCE_DIR}/cpp/runner.cpp"
)

# One source of the version: the workspace manifest; in the crate as it is published, its own.
function(etmetal_read_version result)
  foreach(manifest "${ETMETAL_SOURCE_DIR}/Cargo.toml" "${ETMETAL_WORKSPACE_DIR}/Cargo.toml")
    # Dependencies in tables of their own are pinned: `version = "=1.2.3"`.
    file(STRINGS "${manifest}" line REGEX "^version = \"[0-9]" LIMIT_COUNT 1)
    if(line)
      break()
    endif()
  endforeach()
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${line}")
  set_property(
    DIRECTORY
    APPEND
    PROPERTY CMAKE_CONFIGURE_DEPENDS "${manifest}"
  )
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

function(etmetal_check_rust_library)
  if(NOT EXISTS "${ETMETAL_RUST_LIBRARY}")
    message(
      FATAL_ERROR
        "ETMETAL_RUST_LIBRARY=\"${ETMETAL_RUST_LIBRARY}\" is no file: build it with "
        "`cargo build --release -p etmetal --lib` and pass the path of libetmetal.a"
    )
  endif()
endfunction()

# How `target` is compiled against the ExecuTorch target `executorch`, whose files lie below
# `root`.
function(etmetal_compile target executorch root)
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_compile_options(
    ${target} PRIVATE -Wall -Wextra -Wno-unused-parameter -ffunction-sections -fdata-sections
                      -fvisibility-inlines-hidden
  )
  # ExecuTorch's headers and definitions, but not the link options of its target: they would
  # write this machine's paths into the library.
  target_include_directories(
    ${target} SYSTEM
    PRIVATE "$<TARGET_PROPERTY:${executorch},INTERFACE_INCLUDE_DIRECTORIES>"
  )
  target_compile_definitions(
    ${target}
    PRIVATE "$<TARGET_PROPERTY:${executorch},INTERFACE_COMPILE_DEFINITIONS>"
            "ETMETAL_EXECUTORCH_VERSION=\"${executorch_VERSION}\""
  )
  target_include_directories(
    ${target} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
  )
  # The same bytes wherever it is built. The most specific prefix comes last.
  target_compile_options(
    ${target}
    PRIVATE "-ffile-prefix-map=${ETMETAL_WORKSPACE_DIR}=." "-ffile-prefix-map=${root}=/executorch"
            "-ffile-prefix-map=${CMAKE_CURRENT_BINARY_DIR}=build"
  )
endfunction()

# What the Rust half needs of the system, in the variable `libraries`.
function(etmetal_system_libraries libraries)
  if(APPLE)
    set(found objc)
    foreach(framework CoreGraphics Foundation Metal MetalPerformanceShaders
                      MetalPerformanceShadersGraph
    )
      list(APPEND found "-framework ${framework}")
    endforeach()
  else()
    find_package(Threads REQUIRED)
    # By name and not as a target: who finds an installed package would have to find that first.
    set(found ${CMAKE_THREAD_LIBS_INIT} m)
  endif()
  set(${libraries} ${found} ${CMAKE_DL_LIBS} PARENT_SCOPE)
endfunction()

# Links the shared library `target` with the Rust half and the ExecuTorch library `executorch`.
#
# What `cargo xtask build` sets, from the preset: ETMETAL_EXPORTS, the list of exports as the linker
# reads it; ETMETAL_RPATHS, further folders where the loader looks (not on Apple);
# ETMETAL_LINK_OPTIONS, all of how libetmetal is linked on Apple systems.
function(etmetal_link target executorch)
  add_library(etmetal-rust STATIC IMPORTED)
  set_target_properties(etmetal-rust PROPERTIES IMPORTED_LOCATION "${ETMETAL_RUST_LIBRARY}")
  etmetal_system_libraries(libraries)
  if(APPLE AND ETMETAL_LINK_OPTIONS)
    # The options name the frameworks, some of them as weak.
    set(libraries ${CMAKE_DL_LIBS})
  endif()
  # The models' C ABI is used by no code of ours: without WHOLE_ARCHIVE the linker would leave it
  # out.
  target_link_libraries(
    ${target} PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,etmetal-rust>" "${executorch}" ${libraries}
  )
  if(APPLE)
    # The objects that debuggers look into are named from here on.
    target_link_options(${target} PRIVATE "LINKER:-oso_prefix,${ETMETAL_WORKSPACE_DIR}/")
  endif()
  if(APPLE AND ETMETAL_LINK_OPTIONS)
    target_link_options(${target} PRIVATE ${ETMETAL_LINK_OPTIONS})
    set_target_properties(
      ${target} PROPERTIES INSTALL_NAME_DIR "@rpath" LINK_DEPENDS "${ETMETAL_EXPORTS}"
    )
  elseif(APPLE)
    target_link_options(
      ${target} PRIVATE "LINKER:-dead_strip" "LINKER:-exported_symbol,_aoti_torch_*"
      "LINKER:-exported_symbol,_etmetal_*" "LINKER:-exported_symbol,_torch_*"
    )
    set_target_properties(
      ${target} PROPERTIES INSTALL_NAME_DIR "@rpath" INSTALL_RPATH "@loader_path"
    )
  else()
    set(exports "${ETMETAL_SOURCE_DIR}/cmake/exports.map")
    if(ETMETAL_EXPORTS)
      set(exports "${ETMETAL_EXPORTS}")
    endif()
    set(rpaths "$ORIGIN" ${ETMETAL_RPATHS})
    # Bsymbolic: a program may hold the Rust crate too (the command does), and its copy must not
    # answer this library's calls of itself.
    # nodelete: the registry keeps pointers into the library for the life of the process.
    target_link_options(
      ${target}
      PRIVATE
      "LINKER:--version-script=${exports}"
      "LINKER:-Bsymbolic"
      "LINKER:-z,defs"
      "LINKER:-z,nodelete"
      "LINKER:-z,relro,-z,now"
      "LINKER:-z,noexecstack"
      "LINKER:--gc-sections"
      "LINKER:--enable-new-dtags"
    )
    set_target_properties(
      ${target} PROPERTIES LINK_DEPENDS "${exports}" INSTALL_RPATH "${rpaths}"
    )
  endif()
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

function(etmetal_install_headers)
  install(FILES "${ETMETAL_SOURCE_DIR}/cpp/etmetal_delegate.h"
                "${ETMETAL_SOURCE_DIR}/cpp/etmetal_runner.h"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  )
endfunction()

# Installs the shared library `target` of `version` with its headers, the CMake package `etmetal`
# and a file for pkg-config: ${prefix}/{lib,include,lib/cmake/etmetal,lib/pkgconfig}.
function(etmetal_install target version)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/etmetal")
  install(TARGETS ${target} EXPORT etmetal-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  etmetal_install_headers()
  install(
    EXPORT etmetal-targets
    NAMESPACE etmetal::
    DESTINATION "${package_dir}"
  )
  include(CMakePackageConfigHelpers)
  configure_package_config_file(
    "${ETMETAL_SOURCE_DIR}/cmake/etmetal-config.cmake.in"
    "${CMAKE_CURRENT_BINARY_DIR}/etmetal-config.cmake" INSTALL_DESTINATION "${package_dir}"
  )
  write_basic_package_version_file(
    "${CMAKE_CURRENT_BINARY_DIR}/etmetal-config-version.cmake"
    VERSION "${version}"
    COMPATIBILITY SameMinorVersion
  )
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/etmetal-config.cmake"
                "${CMAKE_CURRENT_BINARY_DIR}/etmetal-config-version.cmake"
          DESTINATION "${package_dir}"
  )
  set(ETMETAL_PC_VERSION "${version}")
  configure_file(
    "${ETMETAL_SOURCE_DIR}/cmake/etmetal.pc.in" "${CMAKE_CURRENT_BINARY_DIR}/etmetal.pc" @ONLY
  )
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/etmetal.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
  )
endfunction()
