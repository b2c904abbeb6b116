// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/detail/descriptor.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

/// A file that appears whole or not at all: it is written as `<name>.partial` beside the target, then synced and
/// renamed by `commit`. Without a commit the destructor removes the partial file and the target stays as it was. The
/// remains of a killed program are overwritten by its next run; a lock keeps a second writer out. A target that is a
/// device or a pipe is written directly. Every failure throws `error` with the file's name.
class atomic_file {
 public:
  explicit atomic_file(const std::filesystem::path& path);
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file();

  /// Appends bytes.
  void write(std::span<const std::byte> bytes);
  /// Appends text.
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Adds whatever is written from now on to `digest` too, which must outlive the file.
  void digest_into(sha256& digest) { digest_ = &digest; }

  /// Bytes given to `write` so far.
  std::size_t written() const { return written_; }
  const std::filesystem::path& path() const { return target_; }

  /// Flushes, syncs and renames: from here on the target holds what was written.
  void commit();

 private:
  static constexpr std::size_t buffer_size = std::size_t{1} << 18;

  /// The file itself where `path` is a symbolic link, which stays.
  static std::filesystem::path resolve(const std::filesystem::path& path);

  void open_partial();

  void flush();

  void write_through(std::span<const std::byte> bytes);

  /// Makes the rename survive a crash. Not every file system can, so that a failure is ignored.
  void sync_folder() const;

  [[noreturn]] void fail_with(const char* what, int code) const;

  std::filesystem::path target_, partial_;
  detail::descriptor file_;
  std::vector<std::byte> buffer_;
  std::size_t written_ = 0;
  sha256* digest_ = nullptr;
  bool direct_ = false, committed_ = false;
};

/// Writes a whole text file through `atomic_file`.
QKGEOM_INLINE void write_text(const std::filesystem::path& path, std::string_view text);

/// Longest name of a tensor, a model, a document or a label that readers accept, bytes.
inline constexpr std::size_t max_name_bytes = 4096;

/// Reads a whole file of at most `max_bytes`. Throws `error` naming the file if it cannot be read, is larger, or is a
/// folder, a device or a named pipe; a pipe of the shell (/dev/stdin, <(...)) is read to its end.
QKGEOM_INLINE std::string read_text(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/file.hpp"
#endif
