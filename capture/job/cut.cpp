// SPDX-License-Identifier: MIT
#include "capture/job/cut.hpp"

#include <numeric>
#include <tuple>

namespace qkgeom {
namespace {

std::vector<index_t> lengths_of_documents(const std::vector<captured_document>& documents) {
  std::vector<index_t> tokens;
  for (const captured_document& d : documents) tokens.push_back(d.tokens);
  return tokens;
}

}  // namespace

capture_cut::capture_cut(const std::vector<captured_document>& documents, bool moments, const capture_part& part)
    : lengths(lengths_of_documents(documents)),
      blocks(moment_blocks_of(lengths)),
      shards(shards_of(lengths, moments)),
      tasks(tasks_of(shards, blocks, moments)) {
  std::vector<index_t> tokens;
  for (const shard_range& t : tasks)
    tokens.push_back(std::accumulate(lengths.begin() + shards[t.first].first,
                                     lengths.begin() + shards[t.second - 1].second, index_t{0}));
  std::tie(first_task, end_task) = tasks_of_part(tokens, part.number, part.of);
  first_shard = tasks[first_task].first;
  end_shard = tasks[end_task - 1].second;
}

json part_fields(const capture_part& part, const capture_manifest& whole, const capture_cut& cut) {
  json fields = json::object();
  if (part.of == 1) return fields;
  fields[part_field] = {{"number", part.number}, {"of", part.of}};
  if (!whole.extra.contains("moments")) return fields;
  const auto [first, end] = cut.moment_range();
  fields["moments"] = whole.extra["moments"];
  fields["moments"]["blocks"] = end - first;
  fields["moments"][first_block_field] = first;
  return fields;
}

}  // namespace qkgeom
