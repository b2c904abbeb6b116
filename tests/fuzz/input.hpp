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

namespace qkgeom::fuzz {

/// What a reader gets, as text or as a file in memory. The file is the same for every input, since making one takes
/// longer than most readers need.
class input {
 public:
  explicit input(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  /// Writes the file and returns its path.
  std::filesystem::path path() const {
    if (::pwrite(descriptor(), text_.data(), text_.size(), 0) != static_cast<ssize_t>(text_.size()) ||
        ::ftruncate(descriptor(), static_cast<off_t>(text_.size())) != 0)
      std::abort();
    return "/proc/self/fd/" + std::to_string(descriptor());
  }

 private:
  static int descriptor() {
    static const int made = ::memfd_create("input", MFD_CLOEXEC);
    return made;
  }

  std::string_view text_;
};

/// Runs the reader, which each NAME_fuzz.cpp defines. It may refuse the input in one sentence; any other exception ends
/// the program.
void read(const input& in);

}  // namespace qkgeom::fuzz

/// What libFuzzer and mutator.cpp call. A program has one file that includes this one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  try {
    fuzz::read(fuzz::input({reinterpret_cast<const char*>(data), size}));
  } catch (const error& e) {
    const std::string_view sentence = e.what();
    for (const char c : sentence)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) std::abort();
    if (sentence.size() > 2000) std::abort();
  }
  return 0;
}
