// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Allocates host memory, 64-byte aligned. Device memory is another type with the same members.
struct cpu_memory {
  static constexpr memory_space space = memory_space::host;
  void* allocate(std::size_t bytes) const { return ::operator new(bytes, line); }
  void release(void* p) const { ::operator delete(p, line); }
  void to_host(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  void from_host(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

 private:
  static constexpr std::align_val_t line{64};
};

/// Owns uninitialised memory for n values of trivial type T.
template <class T, class Memory>
class buffer {
 public:
  buffer(const Memory& memory, index_t n) : memory_(&memory) { reserve(n); }
  buffer(const Memory& memory, const std::vector<T>& values) : buffer(memory, values.size()) { set(values); }
  buffer(buffer&& o) noexcept : memory_(o.memory_), data_(std::exchange(o.data_, nullptr)), size_(o.size_) {}
  buffer& operator=(buffer&& o) noexcept {
    std::swap(memory_, o.memory_);
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~buffer() { clear(); }

  T* data() const { return data_; }
  index_t size() const { return size_; }
  /// Makes room for at least n values; the values are lost if the buffer grows.
  void reserve(index_t n) {
    if (n <= size_ || n < 0) return;
    clear();
    data_ = static_cast<T*>(memory_->allocate(n * sizeof(T)));
    size_ = n;
  }
  void set(const std::vector<T>& values) {
    reserve(values.size());
    if (!values.empty()) memory_->from_host(data_, values.data(), values.size() * sizeof(T));
  }
  std::vector<T> host(index_t n) const {
    std::vector<T> values(n);
    if (n > 0) memory_->to_host(values.data(), data_, values.size() * sizeof(T));
    return values;
  }
  std::vector<T> host() const { return host(size_); }

 private:
  void clear() {
    if (data_) memory_->release(data_);
    data_ = nullptr;
    size_ = 0;
  }
  const Memory* memory_;
  T* data_ = nullptr;
  index_t size_ = 0;
};

}  // namespace qkgeom
