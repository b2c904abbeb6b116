// SPDX-License-Identifier: MIT
#include "capture/job/cut.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

std::size_t with_tokens(std::span<const index_t> tokens) {
  return std::count_if(tokens.begin(), tokens.end(), [](index_t n) { return n > 0; });
}

std::vector<index_t> lengths_of_documents(const std::vector<captured_document>& documents) {
  std::vector<index_t> tokens;
  for (const captured_document& d : documents) tokens.push_back(d.tokens);
  return tokens;
}

}  // namespace

std::size_t moment_blocks(std::span<const index_t> tokens) {
  return std::clamp<std::size_t>(with_tokens(tokens), 1, most_moment_blocks);
}

std::vector<std::size_t> moment_blocks_of(std::span<const index_t> tokens) {
  const std::size_t documents = std::max<std::size_t>(1, with_tokens(tokens)), blocks = moment_blocks(tokens);
  std::vector<std::size_t> block;
  std::size_t before = 0;
  for (const index_t n : tokens) {
    block.push_back(std::min(before, documents - 1) * blocks / documents);
    before += n > 0;
  }
  return block;
}

std::vector<document_range> shards_of(std::span<const index_t> tokens, bool by_block) {
  const std::vector<std::size_t> block = by_block ? moment_blocks_of(tokens) : std::vector<std::size_t>(tokens.size());
  std::vector<document_range> ranges;
  index_t sum = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += tokens[i];
    if (sum < shard_tokens && i + 1 < tokens.size() && block[i + 1] == block[i]) continue;
    ranges.emplace_back(begin, i + 1);
    begin = i + 1;
    sum = 0;
  }
  return ranges;
}

std::vector<shard_range> tasks_of(std::span<const document_range> shards, std::span<const std::size_t> block,
                                  bool by_block) {
  std::vector<shard_range> tasks;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const bool joins = by_block && s > 0 && block[shards[s].first] == block[shards[s - 1].first];
    if (joins)
      tasks.back().second = s + 1;
    else
      tasks.emplace_back(s, s + 1);
  }
  return tasks;
}

std::pair<std::size_t, std::size_t> tasks_of_part(std::span<const index_t> tokens, index_t number, index_t of) {
  const auto count = static_cast<index_t>(tokens.size());
  require(of <= count, "the documents make ", count, " piece", count == 1 ? "" : "s",
          " that can be captured apart, fewer than ", of, " parts");
  const index_t all = std::accumulate(tokens.begin(), tokens.end(), index_t{0});
  index_t begin = 0;
  for (index_t part = 1;; ++part) {
    index_t end = begin + 1, before = std::accumulate(tokens.begin(), tokens.begin() + end, index_t{0});
    // Ends at the cut nearest to this part's share of all tokens; each later part keeps a task.
    while (end < count - (of - part) && of * (before + tokens[end] / 2) <= part * all) before += tokens[end++];
    if (part == of) end = count;
    if (part == number) return {begin, end};
    begin = end;
  }
}

std::size_t batch_end(std::span<const index_t> tokens, std::size_t first, std::size_t end, index_t max_tokens) {
  index_t sum = tokens[first];
  std::size_t i = first + 1;
  while (i < end && sum + tokens[i] <= max_tokens) sum += tokens[i++];
  return i;
}

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
