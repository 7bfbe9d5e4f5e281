define_overridable_option(EXECUTORCH_BUILD_METAL "Build the Metal backend" BOOL OFF)
define_overridable_option(EXECUTORCH_BUILD_SHARED "Build one shared library" BOOL OFF)
define_overridable_option(EXECUTORCH_BUILD_PORTABLE_OPS "Build portable_ops library" BOOL ON)
define_overridable_option(EXECUTORCH_BUILD_EXECUTOR_RUNNER "Build the runner" BOOL ON)
define_overridable_option(EXECUTORCH_BUILD_EXTENSION_DATA_LOADER "Data loaders" BOOL ON)
define_overridable_option(EXECUTORCH_BUILD_EXTENSION_FLAT_TENSOR "Flat tensors" BOOL ON)
define_overridable_option(EXECUTORCH_BUILD_EXTENSION_MODULE "Modules" BOOL OFF)
define_overridable_option(EXECUTORCH_BUILD_EXTENSION_NAMED_DATA_MAP "Named data" BOOL OFF)
define_overridable_option(EXECUTORCH_BUILD_EXTENSION_TENSOR "Tensors" BOOL OFF)
define_overridable_option(EXECUTORCH_BUILD_EXTENSION_TRAINING "Training" BOOL OFF)
define_overridable_option(EXECUTORCH_BUILD_DEVTOOLS "Developer tools" BOOL OFF)
define_overridable_option(EXECUTORCH_LOG_LEVEL "The lowest level" STRING "Info")

check_required_options_on(
  IF_ON EXECUTORCH_BUILD_EXTENSION_MODULE REQUIRES EXECUTORCH_BUILD_EXTENSION_DATA_LOADER
  EXECUTORCH_BUILD_EXTENSION_FLAT_TENSOR EXECUTORCH_BUILD_EXTENSION_NAMED_DATA_MAP
)
check_required_options_on(
  IF_ON EXECUTORCH_BUILD_EXTENSION_TRAINING REQUIRES EXECUTORCH_BUILD_DEVTOOLS
)
