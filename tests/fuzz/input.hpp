// SPDX-License-Identifier: MIT
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "qkgeom/core/error.hpp"

/// What libFuzzer and tests/fuzz/mutator.cpp call; each reader's file defines it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace qkgeom::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The input as a file in memory, for readers that take a path; the same file for every input, since making one takes
/// longer than most readers need.
class input_file {
 public:
  input_file(const std::uint8_t* data, std::size_t size) {
    if (::pwrite(descriptor(), data, size, 0) != static_cast<ssize_t>(size) ||
        ::ftruncate(descriptor(), static_cast<off_t>(size)) != 0)
      std::abort();
  }

  static std::filesystem::path path() { return "/proc/self/fd/" + std::to_string(descriptor()); }

 private:
  static int descriptor() {
    static const int file = ::memfd_create("input", MFD_CLOEXEC);
    return file;
  }
};

/// Runs a reader. It may refuse the input in one sentence; any other exception ends the program.
template <class Read>
int refuse_or_read(Read&& read) {
  try {
    read();
  } catch (const error& e) {
    const std::string_view sentence = e.what();
    for (const char c : sentence)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) std::abort();
    if (sentence.size() > 2000) std::abort();
  }
  return 0;
}

}  // namespace qkgeom::fuzz
