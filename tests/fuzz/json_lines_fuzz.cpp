// SPDX-License-Identifier: MIT
#include "capture/job/documents.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) {
  document_list({.jsonl = in.path(), .label_fields = {"language"}}).for_each([](index_t, const document&) {});
}
