// SPDX-License-Identifier: MIT
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/detail/readable_file.hpp"

namespace qkgeom {

/// A regular file mapped read-only into memory for as long as the object lives. The file must not be cut meanwhile.
/// Throws `error` naming the file if it cannot be opened or is a folder, a pipe or a device.
class mapped_file {
 public:
  explicit mapped_file(std::filesystem::path path) : path_(std::move(path)) {
    const detail::readable_file file(path_, false);
    size_ = file.info.st_size;
    if (size_ == 0) return;
    void* const memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
    if (memory == MAP_FAILED) fail("cannot map ", path_.string(), ": ", std::strerror(errno));
    data_ = static_cast<const std::byte*>(memory);
  }
  mapped_file(mapped_file&& other) noexcept
      : path_(std::move(other.path_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~mapped_file() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  }

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Takes the file's pages out of this process' memory until they are read again.
  void forget() const { forget(bytes()); }
  /// The same for the aligned blocks of 64 kB that some of its bytes lie in: the system reads a whole block at once.
  void forget(std::span<const std::byte> some) const {
    if (some.empty()) return;
    constexpr std::size_t reach = std::size_t{64} << 10;
    const std::size_t offset = some.data() - data_;
    const std::size_t begin = offset / reach * reach;
    const std::size_t end = std::min(size_, (offset + some.size() + reach - 1) / reach * reach);
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace qkgeom
