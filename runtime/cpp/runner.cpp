// The C API of etmetal_runner.h over executorch::extension::Module.

#include "etmetal_runner.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

#include "kernels.h"
#include "log.h"
#include "registration.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

// runtime/src/runner/ffi.rs declares the same structs.
static_assert(sizeof(void*) != 8 || sizeof(EtmetalValue) == 64);
static_assert(sizeof(void*) != 8 || sizeof(EtmetalValueInfo) == 48);
static_assert(sizeof(void*) != 8 || sizeof(EtmetalMethodInfo) == 48);

thread_local std::string last_error;

// What a method takes and gives, in the form the API lends out.
struct MethodInfo {
  EtmetalMethodInfo info{};
  std::vector<EtmetalValueInfo> inputs;
  std::vector<EtmetalValueInfo> outputs;
  std::vector<const char*> backends;
};

struct Failure {
  Error error;
  std::string text;
};

[[noreturn]] void fail(Error error, std::string text) {
  throw Failure{error, std::move(text)};
}

int32_t kind_of(Tag tag) {
  switch (tag) {
    case Tag::None:
      return ETMETAL_NONE;
    case Tag::Tensor:
      return ETMETAL_TENSOR;
    case Tag::Int:
      return ETMETAL_INT;
    case Tag::Double:
      return ETMETAL_DOUBLE;
    case Tag::Bool:
      return ETMETAL_BOOL;
    default:
      return ETMETAL_OTHER;
  }
}

// Runs `body` for an API function: collects what is logged, and makes a failure of it. `what`
// says what was being done.
template <typename What, typename Body>
uint32_t api_call(What&& what, Body&& body) noexcept {
  try {
    last_error.clear();
    etmetal::LogCapture log;
    try {
      body();
      return 0;
    } catch (const Failure& failure) {
      std::string details = failure.text;
      const std::string logged = log.text();
      if (!logged.empty()) {
        details += details.empty() ? logged : ": " + logged;
      }
      if (details.empty()) {
        details = executorch::runtime::to_string(failure.error);
      }
      last_error = what() + ": " + details;
      return static_cast<uint32_t>(failure.error);
    } catch (const std::bad_alloc&) {
      last_error = what() + ": out of memory";
      return static_cast<uint32_t>(Error::MemoryAllocationFailed);
    } catch (const std::exception& e) {
      last_error = what() + ": " + e.what();
      return static_cast<uint32_t>(Error::Internal);
    }
  } catch (...) { // not even the text could be built
    return static_cast<uint32_t>(Error::MemoryAllocationFailed);
  }
}

void check(Error error, const char* text = "") {
  if (error != Error::Ok) {
    fail(error, text);
  }
}

template <typename T>
T take(Result<T>&& result, const char* text = "") {
  check(result.error(), text);
  return std::move(*result);
}

Module::LoadMode load_mode_of(int32_t mode) {
  switch (mode) {
    case ETMETAL_LOAD_MMAP:
      return Module::LoadMode::Mmap;
    case ETMETAL_LOAD_MMAP_MLOCK:
      return Module::LoadMode::MmapUseMlockIgnoreErrors;
    case ETMETAL_LOAD_FILE:
      return Module::LoadMode::File;
    default:
      fail(Error::InvalidArgument, "load mode " + std::to_string(mode) + " is not known");
  }
}

} // namespace

struct EtmetalModule {
  std::string path;
  std::unique_ptr<Module> module;
  std::vector<std::string> names;
  mutable std::mutex mutex; // guards everything below, and calls into `module`
  std::map<std::string, MethodInfo> methods;
  std::vector<EValue> outputs;

  void require(const char* method) const {
    if (method == nullptr) {
      fail(Error::InvalidArgument, "the method's name is NULL");
    }
    std::string known;
    for (const std::string& name : names) {
      if (name == method) {
        return;
      }
      known += (known.empty() ? "" : ", ") + name;
    }
    fail(Error::NotFound, std::string("no method \"") + method + "\"; it has: " + known);
  }

  MethodInfo& method_info(const char* method);
  void load_method(const char* method);
  void read_dynamism(const char* method);
};

namespace {

EtmetalValueInfo value_info(Result<Tag> tag, Result<TensorInfo> (MethodMeta::*tensor)(size_t) const,
                            const MethodMeta& meta, size_t index) {
  EtmetalValueInfo info{};
  info.shape_dynamism = ETMETAL_SHAPE_UNKNOWN;
  // ExecuTorch has no tag for what it cannot describe, an optional input for instance.
  info.kind = tag.ok() ? kind_of(*tag) : ETMETAL_OTHER;
  if (info.kind != ETMETAL_TENSOR) {
    return info;
  }
  const TensorInfo described = take((meta.*tensor)(index));
  info.dtype = static_cast<int32_t>(described.scalar_type());
  info.dim = described.sizes().size();
  info.sizes = described.sizes().data();
  info.dim_order = described.dim_order().data();
  info.nbytes = described.nbytes();
  return info;
}

MethodInfo describe(const MethodMeta& meta) {
  MethodInfo method;
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    method.inputs.push_back(
        value_info(meta.input_tag(i), &MethodMeta::input_tensor_meta, meta, i));
  }
  for (size_t i = 0; i < meta.num_outputs(); ++i) {
    method.outputs.push_back(
        value_info(meta.output_tag(i), &MethodMeta::output_tensor_meta, meta, i));
  }
  for (size_t i = 0; i < meta.num_backends(); ++i) {
    method.backends.push_back(take(meta.get_backend_name(i)));
  }
  method.info.num_inputs = method.inputs.size();
  method.info.inputs = method.inputs.data();
  method.info.num_outputs = method.outputs.size();
  method.info.outputs = method.outputs.data();
  method.info.num_backends = method.backends.size();
  method.info.backends = method.backends.data();
  return method;
}

void set_dynamism(EtmetalValueInfo& info, const EValue& value) {
  if (info.kind == ETMETAL_TENSOR && value.isTensor()) {
    info.shape_dynamism = static_cast<int32_t>(value.toTensor().shape_dynamism());
  }
}

} // namespace

MethodInfo& EtmetalModule::method_info(const char* method) {
  require(method);
  const auto found = methods.find(method);
  if (found != methods.end()) {
    return found->second;
  }
  // Moving a vector keeps its elements where they are: the pointers in `info` stay right.
  return methods.emplace(method, describe(take(module->method_meta(method)))).first->second;
}

void EtmetalModule::load_method(const char* method) {
  require(method);
  if (module->is_method_loaded(method)) {
    return;
  }
  Error error = module->load_method(method);
  if (error == Error::OperatorMissing && etmetal::load_kernels()) {
    error = module->load_method(method);
  }
  check(error);
  read_dynamism(method);
}

void EtmetalModule::read_dynamism(const char* method) {
  MethodInfo& info = method_info(method);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // nothing else tells the dynamism
  executorch::runtime::Method* loaded = take(module->method(method));
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    set_dynamism(info.inputs[i], loaded->get_input(i));
  }
#pragma GCC diagnostic pop
  for (size_t i = 0; i < info.outputs.size(); ++i) {
    set_dynamism(info.outputs[i], loaded->get_output(i));
  }
}

namespace {

std::string sizes_text(const int32_t* sizes, size_t dim) {
  std::string text = "[";
  for (size_t i = 0; i < dim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]";
}

// make_tensor_ptr ends the process for a dim order that is none.
void check_dim_order(const EtmetalValue& value, const std::string& at) {
  std::vector<bool> seen(value.dim, false);
  for (size_t i = 0; value.dim_order != nullptr && i < value.dim; ++i) {
    const size_t at_dim = value.dim_order[i];
    if (at_dim >= value.dim || seen[at_dim]) {
      fail(Error::InvalidArgument, at + " has a dim order that is no permutation");
    }
    seen[at_dim] = true;
  }
}

// Refuses what Method::set_input would refuse, with a text that names the input.
void check_tensor(const EtmetalValue& value, const EtmetalValueInfo& wanted, const std::string& at) {
  if (value.dtype != wanted.dtype) {
    fail(
        Error::InvalidArgument,
        at + " has dtype code " + std::to_string(value.dtype) + ", the method takes " +
            std::to_string(wanted.dtype));
  }
  if (value.dim != 0 && value.sizes == nullptr) {
    fail(Error::InvalidArgument, at + " has no sizes: the pointer is NULL");
  }
  bool fits = value.dim == wanted.dim;
  size_t count = 1;
  for (size_t i = 0; fits && i < value.dim; ++i) {
    const int32_t size = value.sizes[i];
    fits = size >= 0 &&
        (wanted.shape_dynamism == ETMETAL_SHAPE_UNBOUNDED ||
         (wanted.shape_dynamism == ETMETAL_SHAPE_BOUNDED ? size <= wanted.sizes[i]
                                                         : size == wanted.sizes[i]));
    if (fits && size != 0 && count > SIZE_MAX / static_cast<size_t>(size)) {
      fits = false;
    }
    count *= static_cast<size_t>(size);
  }
  if (!fits) {
    fail(
        Error::InvalidArgument,
        at + " has shape " + sizes_text(value.sizes, value.dim) + ", the method takes " +
            (wanted.shape_dynamism == ETMETAL_SHAPE_BOUNDED ? "at most " : "") +
            sizes_text(wanted.sizes, wanted.dim));
  }
  const size_t element = executorch::runtime::elementSize(static_cast<ScalarType>(value.dtype));
  if (value.nbytes / element != count || value.nbytes % element != 0) {
    fail(
        Error::InvalidArgument,
        at + " has " + std::to_string(value.nbytes) + " bytes of data for " +
            std::to_string(count) + " elements of " + std::to_string(element) + " bytes");
  }
  if (count != 0 && value.data == nullptr) {
    fail(Error::InvalidArgument, at + " has no data");
  }
}

// The inputs of one call. Tensors only borrow the caller's data.
struct Inputs {
  std::deque<TensorPtr> tensors;
  std::vector<EValue> values;

  void add(const EtmetalValue& value, const EtmetalValueInfo& wanted, size_t index) {
    const std::string at = "input " + std::to_string(index);
    if (value.kind != wanted.kind) {
      fail(
          Error::InvalidArgument,
          at + " is of kind " + std::to_string(value.kind) + ", the method takes kind " +
              std::to_string(wanted.kind));
    }
    switch (value.kind) {
      case ETMETAL_TENSOR:
        check_tensor(value, wanted, at);
        check_dim_order(value, at);
        add_tensor(value);
        break;
      case ETMETAL_INT:
        values.emplace_back(value.integer);
        break;
      case ETMETAL_DOUBLE:
        values.emplace_back(value.number);
        break;
      case ETMETAL_BOOL:
        values.emplace_back(value.integer != 0);
        break;
      case ETMETAL_NONE:
        values.emplace_back();
        break;
      default:
        fail(Error::NotSupported, at + " is a string or a list, which cannot be given");
    }
  }

 private:
  void add_tensor(const EtmetalValue& value) {
    std::vector<int32_t> sizes(value.sizes, value.sizes + value.dim);
    std::vector<uint8_t> dim_order;
    if (value.dim_order != nullptr) {
      dim_order.assign(value.dim_order, value.dim_order + value.dim);
    }
    tensors.push_back(executorch::extension::make_tensor_ptr(
        std::move(sizes),
        const_cast<void*>(value.data),
        std::move(dim_order),
        {},
        static_cast<ScalarType>(value.dtype)));
    values.emplace_back(*tensors.back());
  }
};

void run(EtmetalModule& module, const char* method, const EtmetalValue* inputs, size_t num_inputs) {
  module.outputs.clear();
  module.load_method(method);
  const MethodInfo& info = module.method_info(method);
  if (num_inputs != 0 && inputs == nullptr) {
    fail(Error::InvalidArgument, "the pointer to the inputs is NULL");
  }
  if (num_inputs != info.inputs.size()) {
    fail(
        Error::InvalidArgument,
        std::to_string(num_inputs) + " inputs given, the method takes " +
            std::to_string(info.inputs.size()));
  }
  Inputs given;
  for (size_t i = 0; i < num_inputs; ++i) {
    given.add(inputs[i], info.inputs[i], i);
  }
  module.outputs = take(module.module->execute(method, given.values));
}

void read_output(const EValue& output, EtmetalValue& value) {
  value = {};
  value.kind = kind_of(output.tag);
  switch (value.kind) {
    case ETMETAL_TENSOR: {
      const Tensor tensor = output.toTensor();
      value.dtype = static_cast<int32_t>(tensor.scalar_type());
      value.dim = static_cast<size_t>(tensor.dim());
      value.sizes = tensor.sizes().data();
      value.dim_order = tensor.dim_order().data();
      value.data = tensor.const_data_ptr();
      value.nbytes = tensor.nbytes();
      break;
    }
    case ETMETAL_INT:
      value.integer = output.toInt();
      break;
    case ETMETAL_DOUBLE:
      value.number = output.toDouble();
      break;
    case ETMETAL_BOOL:
      value.integer = output.toBool() ? 1 : 0;
      break;
    default:
      break;
  }
}

// `method "forward" of model.pte`, for messages.
std::string method_of(const EtmetalModule* module, const char* method) {
  return std::string("method \"") + (method == nullptr ? "" : method) + "\" of " + module->path;
}

std::unique_ptr<EtmetalModule> load(
    const char* path, const std::vector<std::string>& data_paths, int32_t mode) {
  executorch::runtime::runtime_init();
  etmetal::register_delegate();
  auto loaded = std::make_unique<EtmetalModule>();
  loaded->path = path;
  const Module::LoadMode load_mode = load_mode_of(mode);
  loaded->module = data_paths.empty()
      ? std::make_unique<Module>(loaded->path, load_mode)
      : std::make_unique<Module>(loaded->path, data_paths, load_mode);
  check(loaded->module->load(Program::Verification::InternalConsistency));
  const auto program = loaded->module->program();
  for (size_t i = 0; i < program->num_methods(); ++i) {
    loaded->names.emplace_back(take(program->get_method_name(i)));
  }
  return loaded;
}

} // namespace

uint32_t etmetal_module_load(
    const char* path,
    const char* const* data_paths,
    size_t num_data_paths,
    int32_t load_mode,
    EtmetalModule** module) {
  const auto what = [&] {
    return std::string("cannot load ") + (path == nullptr ? "a program" : path);
  };
  return api_call(what, [&] {
    if (path == nullptr || module == nullptr) {
      fail(Error::InvalidArgument, "path or module is NULL");
    }
    *module = nullptr;
    const std::vector<std::string> data(data_paths, data_paths + num_data_paths);
    *module = load(path, data, load_mode).release();
  });
}

void etmetal_module_destroy(EtmetalModule* module) {
  delete module;
}

size_t etmetal_module_num_methods(const EtmetalModule* module) {
  return module->names.size();
}

const char* etmetal_module_method_name(const EtmetalModule* module, size_t index) {
  return index < module->names.size() ? module->names[index].c_str() : nullptr;
}

uint32_t etmetal_module_method_info(
    EtmetalModule* module, const char* method, const EtmetalMethodInfo** info) {
  const auto what = [&] { return "cannot describe " + method_of(module, method); };
  return api_call(what, [&] {
    const std::lock_guard<std::mutex> lock(module->mutex);
    *info = &module->method_info(method).info;
  });
}

uint32_t etmetal_module_load_method(EtmetalModule* module, const char* method) {
  const auto what = [&] { return "cannot load " + method_of(module, method); };
  return api_call(what, [&] {
    const std::lock_guard<std::mutex> lock(module->mutex);
    module->load_method(method);
  });
}

uint32_t etmetal_module_execute(
    EtmetalModule* module, const char* method, const EtmetalValue* inputs, size_t num_inputs) {
  const auto what = [&] { return "cannot execute " + method_of(module, method); };
  return api_call(what, [&] {
    const std::lock_guard<std::mutex> lock(module->mutex);
    run(*module, method, inputs, num_inputs);
  });
}

size_t etmetal_module_num_outputs(const EtmetalModule* module) {
  const std::lock_guard<std::mutex> lock(module->mutex);
  return module->outputs.size();
}

uint32_t etmetal_module_output(const EtmetalModule* module, size_t index, EtmetalValue* value) {
  const auto what = [&] { return "cannot read output " + std::to_string(index); };
  return api_call(what, [&] {
    const std::lock_guard<std::mutex> lock(module->mutex);
    if (index >= module->outputs.size()) {
      fail(
          Error::InvalidArgument,
          "the last execute gave " + std::to_string(module->outputs.size()) + " outputs");
    }
    read_output(module->outputs[index], *value);
  });
}

const char* etmetal_module_last_error(void) {
  return last_error.c_str();
}

const char* etmetal_executorch_version(void) {
  return ETMETAL_EXECUTORCH_VERSION;
}

const char* etmetal_registered_backend(size_t index) {
  if (index >= executorch::runtime::get_num_registered_backends()) {
    return nullptr;
  }
  const Result<const char*> name = executorch::runtime::get_backend_name(index);
  return name.ok() ? *name : nullptr;
}

const char* etmetal_registration_error(void) {
  static const auto* text = new std::string([] {
    const std::string& problem = etmetal::register_delegate();
    return problem.empty() ? etmetal::find_other_runtimes() : problem;
  }());
  return text->c_str();
}
