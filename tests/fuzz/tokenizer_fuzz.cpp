// SPDX-License-Identifier: MIT
#include "capture/text/tokenizer.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  return fuzz::refuse_or_read([&] {
    const tokenizer t(parse_json(fuzz::text_of(data, size), "tokenizer.json"), {});
    t.encode("In the beginning, 1234 \xe2\x82\xac  a\xcc\x80\n\n<|end_of_text|>", 64);
  });
}
