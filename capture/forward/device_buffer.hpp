// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/buffer.hpp"

namespace qkgeom {

/// Memory of a device for n values of type T, which `reserve` may make larger.
template <class Device, class T>
struct device_buffer : buffer<T, typename Device::memory_type> {
  device_buffer(Device& m, index_t n = 0) : buffer<T, typename Device::memory_type>(m.memory(), n) {}
};

}  // namespace qkgeom
