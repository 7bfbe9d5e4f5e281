// A device guard for MPS that does nothing. Linux builds of torch have none, and without one they
// refuse even fake tensors on "mps": c10 asks the guard for the current device and stream.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

struct NoMpsGuard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::MPS; }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Device getDevice() const override { return Device(DeviceType::MPS, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return Stream(Stream::DEFAULT, getDevice()); }
  Stream getNewStream(Device, int = 0) const override { return getStream(getDevice()); }
  Stream exchangeStream(Stream) const override { return getStream(getDevice()); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
};

const NoMpsGuard guard;

std::atomic<const c10::impl::DeviceGuardImplInterface*>& slot() {
  return c10::impl::device_guard_impl_registry[static_cast<size_t>(DeviceType::MPS)];
}

}  // namespace

// 0 if the guard was set; 1 if there was one already, which stays.
extern "C" int etmetal_guard_install() {
  const c10::impl::DeviceGuardImplInterface* none = nullptr;
  return slot().compare_exchange_strong(none, &guard) ? 0 : 1;
}

// Takes the guard away, if it is ours.
extern "C" void etmetal_guard_remove() {
  const c10::impl::DeviceGuardImplInterface* ours = &guard;
  slot().compare_exchange_strong(ours, nullptr);
}
