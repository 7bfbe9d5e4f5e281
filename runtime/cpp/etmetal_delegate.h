/* C ABI between the ExecuTorch glue (C++) and the delegate (Rust). Plain data only: no ExecuTorch
 * or C++ type crosses it, so both sides may be built with different standard libraries.
 * The Rust side is runtime/src/delegate/ffi.rs; sizes and offsets are checked there. */
#ifndef ETMETAL_DELEGATE_H
#define ETMETAL_DELEGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One compile spec of the delegate. `data` lives as long as the call. */
typedef struct {
  const char* key;
  const void* data;
  size_t nbytes;
} EtmetalSpec;

/* One argument of execute; `data` is NULL and `tensor` is NULL for a value that is no tensor. */
typedef struct {
  void* data;
  size_t nbytes;
  const int32_t* sizes;   /* `dim` of them */
  const int32_t* strides; /* `dim` of them, in elements */
  size_t dim;
  int32_t dtype;  /* c10::ScalarType */
  void* tensor;   /* for EtmetalResize */
} EtmetalTensor;

/* What init may ask of its host. Functions return an executorch::runtime::Error code. */
typedef struct {
  void* context;
  const char* method_name; /* may be NULL */
  /* Borrows a named blob until `release` is given its token. The bytes stay valid till then. */
  uint32_t (*get_named_data)(
      void* context, const char* key, const void** data, size_t* nbytes, void** token);
  void (*release)(void* token);
} EtmetalHost;

/* Resizes an output tensor (dynamic shapes) and gives its data pointer. */
typedef uint32_t (*EtmetalResize)(void* tensor, const int32_t* sizes, size_t dim, void** data);

bool etmetal_delegate_is_available(void);

/* `processed` is only borrowed for the call. On success *handle is the loaded model. The host's
 * functions (not `EtmetalHost` itself) must stay callable until destroy. */
uint32_t etmetal_delegate_init(
    const EtmetalHost* host,
    const void* processed,
    size_t nbytes,
    const EtmetalSpec* specs,
    size_t num_specs,
    void** handle);

/* Arguments: inputs first, then outputs, as ExecuTorch passes them. */
uint32_t etmetal_delegate_execute(
    void* handle, const EtmetalTensor* arguments, size_t num_arguments, EtmetalResize resize);

void etmetal_delegate_destroy(void* handle);

/* The text of the calling thread's last error, "" if there was none. Valid until the next call
 * into this library from this thread. */
const char* etmetal_last_error(void);

/* Process-wide statistics as JSON (see docs); returns the bytes needed without the final NUL and
 * writes at most `capacity` bytes including it. */
size_t etmetal_stats_json(char* buffer, size_t capacity);

/* Turns statistics on or off; they are off unless ETMETAL_STATS=1. */
void etmetal_stats_enable(bool on);

/* What is lent to models now, by which call, and what destroyed models left behind, as JSON;
 * returns and writes as etmetal_stats_json does. */
size_t etmetal_tracked_json(char* buffer, size_t capacity);

/* Turns this tracking on or off; it is off unless ETMETAL_TRACK=1. */
void etmetal_tracking_enable(bool on);

/* What was done when, on threads and on the device, as JSON; returns and writes as
 * etmetal_stats_json does. Times are in nanoseconds of etmetal_profile_now. */
size_t etmetal_profile_json(char* buffer, size_t capacity);

/* Turns this recording on or off; it is off at first. What was recorded stays. */
void etmetal_profile_enable(bool on);

/* The time now, in nanoseconds since the profile's origin. */
uint64_t etmetal_profile_now(void);

/* Makes a device the one of the models that the calling thread loads from now on: "host", "metal",
 * "compare metal" (each command on the host device too, and compared), "compare host" (with a host
 * device that checks each access of shaders); null for the default again. Returns the bytes of the
 * text of the error, 0 if there is none, and writes it as etmetal_stats_json does. */
size_t etmetal_device_use(const char* name, char* error, size_t capacity);

/* What the comparing device that this thread chose last has found, as JSON; returns and writes as
 * etmetal_stats_json does. */
size_t etmetal_comparison_json(char* buffer, size_t capacity);

/* Checks a whole device ("metal", "host", null for the default), with the models in a folder unless
 * `models` is null. `sink` gets lines of JSON: the device, each check, an error. */
typedef void (*EtmetalSink)(void* context, const char* line, size_t length);
void etmetal_selftest(const char* device, const char* models, EtmetalSink sink, void* context);

#ifdef __cplusplus
}
#endif
#endif
