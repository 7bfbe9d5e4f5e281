/* C API that runs ExecuTorch programs without Python and without libtorch.
 *
 * Functions returning uint32_t return an ExecuTorch error code (0: success); after a failure
 * etmetal_module_last_error() tells what happened. Different modules may be used from different
 * threads at the same time; calls on one module wait for each other. Nothing here throws. */
#ifndef ETMETAL_RUNNER_H
#define ETMETAL_RUNNER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded program. */
typedef struct EtmetalModule EtmetalModule;

/* What a value is. */
enum {
  ETMETAL_NONE = 0,
  ETMETAL_TENSOR = 1,
  ETMETAL_INT = 2,
  ETMETAL_DOUBLE = 3,
  ETMETAL_BOOL = 4,
  ETMETAL_OTHER = 5, /* a string or a list: neither given nor read here */
};

/* Whether a tensor's sizes may differ from those exported. */
enum {
  ETMETAL_SHAPE_UNKNOWN = -1,
  ETMETAL_SHAPE_STATIC = 0,
  ETMETAL_SHAPE_BOUNDED = 1, /* the sizes are upper bounds */
  ETMETAL_SHAPE_UNBOUNDED = 2,
};

/* A value given to a method or read from it. */
typedef struct {
  int32_t kind;             /* ETMETAL_NONE, … */
  int32_t dtype;            /* tensor: c10::ScalarType */
  size_t dim;               /* tensor: number of dimensions */
  const int32_t* sizes;     /* tensor: `dim` of them */
  const uint8_t* dim_order; /* tensor: `dim` dimensions, outermost first; NULL: row-major */
  const void* data;         /* tensor: densely packed elements in that order */
  size_t nbytes;            /* tensor: size of `data` */
  int64_t integer;          /* int; bool as 0 or 1 */
  double number;            /* double */
} EtmetalValue;

/* What a method takes or gives at one place. Unlike EtmetalValue, `dim_order` is always set. */
typedef struct {
  int32_t kind;
  int32_t dtype;
  size_t dim;
  const int32_t* sizes;
  const uint8_t* dim_order;
  size_t nbytes;         /* of a tensor with these sizes */
  int32_t shape_dynamism; /* known once the method is loaded */
} EtmetalValueInfo;

/* Lives as long as its module. */
typedef struct {
  size_t num_inputs;
  const EtmetalValueInfo* inputs;
  size_t num_outputs;
  const EtmetalValueInfo* outputs;
  size_t num_backends;
  const char* const* backends; /* the backends that the method delegates to */
} EtmetalMethodInfo;

/* How a program's file is read. */
enum {
  ETMETAL_LOAD_MMAP = 0,       /* mapped, never copied (the default) */
  ETMETAL_LOAD_MMAP_MLOCK = 1, /* mapped, and locked in memory where that is allowed */
  ETMETAL_LOAD_FILE = 2,       /* copied */
};

/* Loads a program and, for programs without weights of their own, its .ptd files. The files must
 * not change while the module lives. */
uint32_t etmetal_module_load(
    const char* path,
    const char* const* data_paths,
    size_t num_data_paths,
    int32_t load_mode,
    EtmetalModule** module);

/* NULL is ignored. */
void etmetal_module_destroy(EtmetalModule* module);

/* The names live as long as the module; NULL beyond the last. */
size_t etmetal_module_num_methods(const EtmetalModule* module);
const char* etmetal_module_method_name(const EtmetalModule* module, size_t index);

/* What a method takes and gives; does not load it. */
uint32_t etmetal_module_method_info(
    EtmetalModule* module, const char* method, const EtmetalMethodInfo** info);

/* Makes a method ready: initialises its delegates, plans its memory. Otherwise done by the first
 * execute. */
uint32_t etmetal_module_load_method(EtmetalModule* module, const char* method);

/* Runs a method. The inputs are only read. The outputs stay until the next call of execute on
 * this module. */
uint32_t etmetal_module_execute(
    EtmetalModule* module, const char* method, const EtmetalValue* inputs, size_t num_inputs);

/* The outputs of the last execute. What `*value` points to lives until the next execute. */
size_t etmetal_module_num_outputs(const EtmetalModule* module);
uint32_t etmetal_module_output(const EtmetalModule* module, size_t index, EtmetalValue* value);

/* The text of the calling thread's last failure in this API, "" if there was none. Valid until
 * this thread's next call. */
const char* etmetal_module_last_error(void);

/* ExecuTorch's version, as in "1.5.1". */
const char* etmetal_executorch_version(void);

/* The name of a registered backend; NULL beyond the last. */
const char* etmetal_registered_backend(size_t index);

/* "" if ExecuTorch finds this delegate under the name MetalBackend; else why it does not. */
const char* etmetal_registration_error(void);

#ifdef __cplusplus
}
#endif
#endif
