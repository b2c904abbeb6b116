// SPDX-License-Identifier: MIT
#include "capture/job/documents.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  const fuzz::input_file file(data, size);
  return fuzz::refuse_or_read([&] {
    document_list({.jsonl = file.path(), .label_fields = {"language"}}).for_each([](index_t, const document&) {});
  });
}
