// SPDX-License-Identifier: MIT
#include "capture/text/tokenizer.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) {
  const tokenizer t(parse_json(in.text(), "tokenizer.json"), {});
  t.encode("In the beginning, 1234 \xe2\x82\xac  a\xcc\x80\n\n<|end_of_text|>", 64);
}
