// SPDX-License-Identifier: MIT
#include "qkgeom/io/csv.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  const fuzz::input_file file(data, size);
  return fuzz::refuse_or_read([&] {
    const auto table = read_csv(file.path());
    for (const auto& name : table.columns()) table.numbers(name);
  });
}
