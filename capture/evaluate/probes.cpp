// SPDX-License-Identifier: MIT
#include "capture/evaluate/probes.hpp"

#include <algorithm>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

constexpr index_t unannounced = 8, asked = 64, other_records = 8;

std::vector<std::string> strings(const json_value& v) {
  std::vector<std::string> list;
  for (const auto& entry : v.entries()) list.push_back(entry.string());
  return list;
}

random_stream stream_of(std::uint64_t seed, index_t distance, index_t trial) {
  return {seed, static_cast<std::uint32_t>(distance), static_cast<std::uint32_t>(trial), draw::probe};
}

void append(std::vector<std::int32_t>& to, std::span<const std::int32_t> ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace

probe copy_probe(index_t vocabulary, index_t distance, index_t trial, std::uint64_t seed) {
  require(vocabulary >= 2 && distance > unannounced, "copy probes need a distance above ", unannounced, " tokens, not ",
          distance);
  const auto stream = stream_of(seed, distance, trial);
  probe p{"copy", distance, trial, {}, distance + unannounced};
  for (index_t i = 0; i < distance; ++i)
    p.ids.push_back(static_cast<std::int32_t>(1 + stream.below(i, vocabulary - 1)));
  const index_t again = std::min(distance, unannounced + asked);
  for (index_t i = 0; i < again; ++i) p.ids.push_back(p.ids[i]);
  return p;
}

record_words read_record_words(const std::filesystem::path& path) {
  const json document = parse_json(read_text(path, std::size_t{1} << 20), path.string());
  const json_value v(document, path.string());
  record_words w{v["before"].string(), v["between"].string(), v["after"].string(), strings(v["names"]),
                 strings(v["things"])};
  require(w.names.size() > other_records && !w.things.empty(), path.string(), ": more than ", other_records,
          " names are needed, and a thing");
  return w;
}

probe lookup_probe(const record_words& words, const std::function<std::vector<std::int32_t>(std::string_view)>& encode,
                   std::span<const std::int32_t> text, index_t distance, index_t trial, std::uint64_t seed) {
  const auto stream = stream_of(seed, distance, trial);
  std::uint64_t draws = 0;
  const auto below = [&](std::size_t n) { return stream.below(draws++, n); };
  auto names = words.names;
  std::vector<std::vector<std::int32_t>> records;
  std::vector<std::int32_t> stem;
  index_t size = 0;
  for (std::size_t i = 0; i <= other_records; ++i) {
    std::swap(names[i], names[i + below(names.size() - i)]);
    const std::string start = words.before + names[i] + words.between;
    records.push_back(encode(start + words.things[below(words.things.size())] + words.after));
    size += static_cast<index_t>(records.back().size());
    // The stem ends before the blank that belongs to the thing's first token.
    if (i == 0) stem = encode(std::string_view(start).substr(0, start.find_last_not_of(' ') + 1));
  }
  const index_t gap = distance - size - static_cast<index_t>(stem.size());
  require(stem.size() < records[0].size() && std::equal(stem.begin(), stem.end(), records[0].begin()),
          "lookup probes: the tokens of a record must begin with those of its first words");
  require(gap >= 0, "lookup probes of ", distance, " tokens are too short for nine records, which take ",
          distance - gap);
  require(gap < static_cast<index_t>(text.size()), "lookup probes of ", distance, " tokens need a longer text than ",
          text.size(), " tokens");
  const auto filler = text.subspan(below(text.size() - gap), gap);
  const auto half = filler.size() / 2;
  probe p{"lookup", distance, trial, records[0], 0};
  append(p.ids, filler.first(half));
  for (std::size_t i = 1; i < records.size(); ++i) append(p.ids, records[i]);
  append(p.ids, filler.subspan(half));
  append(p.ids, stem);
  p.first = static_cast<index_t>(p.ids.size());
  p.ids.push_back(records[0][stem.size()]);
  return p;
}

}  // namespace qkgeom
