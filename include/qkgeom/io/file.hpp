// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

namespace detail {

/// Owns a file descriptor.
class descriptor {
 public:
  explicit descriptor(int fd = -1) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Closes now, so that the caller sees a late error of the file system: returns false and sets errno.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

}  // namespace detail

/// A file that appears whole or not at all: it is written as `<name>.partial` beside the target, then `commit` syncs
/// and renames it. Without a commit the destructor removes the partial file and the target does not change. A later run
/// overwrites the partial file of a killed program; a lock keeps a second writer out. Devices and pipes are written
/// directly. Every failure throws `error` with the file's name.
class atomic_file {
 public:
  explicit atomic_file(const std::filesystem::path& path);
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Adds all later bytes to `digest` too, which must outlive the file.
  void digest_into(sha256& digest) { digest_ = &digest; }

  /// Counts the bytes written so far.
  std::size_t written() const { return written_; }
  const std::filesystem::path& path() const { return target_; }

  /// Flushes, syncs and renames: the target now holds the written bytes.
  void commit();

 private:
  static constexpr std::size_t buffer_size = std::size_t{1} << 18;

  /// Follows a symbolic link to its file; the link stays.
  static std::filesystem::path resolve(const std::filesystem::path& path);

  void open_partial();

  void flush();

  void write_through(std::span<const std::byte> bytes);

  /// Makes the rename survive a crash; ignores failure, since not every file system can.
  void sync_folder() const;

  [[noreturn]] void fail_with(const char* what, int code) const;

  std::filesystem::path target_, partial_;
  detail::descriptor file_;
  std::vector<std::byte> buffer_;
  std::size_t written_ = 0;
  sha256* digest_ = nullptr;
  bool direct_ = false, committed_ = false;
};

/// Throws `error` if `start`, the beginning of a file, is that of a pointer of git-lfs, which stands where the file
/// should.
void require_no_pointer(std::string_view start, const std::string& file);

/// Writes a whole text file through `atomic_file`.
void write_text(const std::filesystem::path& path, std::string_view text);

/// Longest name of a tensor, a model, a document or a label that readers accept, bytes.
inline constexpr std::size_t max_name_bytes = 4096;

/// Reads a whole file of at most `max_bytes`. Throws `error` naming the file if it cannot be read, is larger, or is a
/// folder, a device or a named pipe; a pipe of the shell (/dev/stdin, <(...)) is read to its end.
std::string read_text(const std::filesystem::path& path, std::size_t max_bytes);

/// A regular file mapped read-only into memory for the object's life. The file must not be truncated meanwhile. Throws
/// `error` naming the file if it cannot be opened or is a folder, a pipe or a device; with `shell_pipes` a pipe of the
/// shell (/dev/stdin, <(...)) is read to its end and kept in memory.
class mapped_file {
 public:
  explicit mapped_file(std::filesystem::path path, bool shell_pipes = false);
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
  ~mapped_file();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Releases the file's pages from this process' memory until they are read again.
  void forget() const { forget(bytes()); }
  /// Releases the aligned blocks of 64 kB that hold some of its bytes: the system reads a whole block at once.
  void forget(std::span<const std::byte> some) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace qkgeom
