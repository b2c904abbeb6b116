// SPDX-License-Identifier: MIT
#include "qkgeom/io/safetensors.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  const fuzz::input_file file(data, size);
  return fuzz::refuse_or_read([&] { safetensors_file{file.path()}; });
}
