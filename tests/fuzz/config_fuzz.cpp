// SPDX-License-Identifier: MIT
#include "capture/model/description.hpp"
#include "qkgeom/io/json.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  return fuzz::refuse_or_read([&] { read_description(parse_json(fuzz::text_of(data, size), "config.json")); });
}
