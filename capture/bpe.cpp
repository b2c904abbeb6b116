// SPDX-License-Identifier: MIT
#include "capture/bpe.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <queue>

#include "capture/json_access.hpp"
#include "capture/utf8.hpp"

namespace qkgeom {
namespace {

constexpr std::size_t cached_words = 1 << 16;
constexpr std::size_t cached_word_bytes = 64;

}  // namespace

bpe_model::bpe_model(const nlohmann::json& model) {
  const json_fields fields(model, "tokenizer.json: model");
  const std::string type = fields.string("type").value_or("BPE");
  require(type == "BPE", "tokenizer.json: model type '", type, "' is not supported; supported: BPE");
  require(fields.number("dropout").value_or(0) == 0, "tokenizer.json: model dropout is not supported");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    require(fields.string(affix).value_or("").empty(), "tokenizer.json: model ", affix, " is not supported");

  const auto* vocabulary = fields.find("vocab");
  require(vocabulary && vocabulary->is_object(), "tokenizer.json: model vocab must be an object of token to id");
  vocabulary_.reserve(vocabulary->size());
  for (const auto& [token, id] : vocabulary->items()) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < std::numeric_limits<std::int32_t>::max();
    require(fits, "tokenizer.json: the id of '", token, "' must be an integer from 0 to 2^31 - 2, not ", id.dump());
    vocabulary_.emplace(token, id.get<std::int32_t>());
    size_ = std::max<index_t>(size_, id.get<index_t>() + 1);
  }
  byte_fallback_ = fields.boolean("byte_fallback").value_or(false);
  fuse_unknown_ = fields.boolean("fuse_unk").value_or(false);
  ignore_merges_ = fields.boolean("ignore_merges").value_or(false);
  if (const auto token = fields.string("unk_token")) {
    unknown_ = find(*token);
    require(unknown_ >= 0, "tokenizer.json: unk_token '", *token, "' is not in the vocabulary");
  }
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(b));
    byte_tokens_[b] = find(name);
  }
  const auto* merges = fields.find("merges");
  require(merges && merges->is_array(), "tokenizer.json: model merges must be a list");
  read_merges(*merges);
}

void bpe_model::read_merges(const nlohmann::json& merges) {
  require(merges.size() < std::numeric_limits<std::uint32_t>::max(), "tokenizer.json: too many merges");
  merges_.reserve(merges.size());
  std::uint32_t rank = 0;
  for (const auto& m : merges) {
    std::string left, right;
    if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      left = m[0].get<std::string>();
      right = m[1].get<std::string>();
    } else if (m.is_string()) {
      const auto text = m.get<std::string>();
      const auto space = text.find(' ');
      require(space != std::string::npos && text.find(' ', space + 1) == std::string::npos, "tokenizer.json: merge ",
              rank, " must be two tokens with one space between them, not '", text, "'");
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      fail("tokenizer.json: merge ", rank, " must be a string or a pair of strings");
    }
    const std::int32_t a = find(left), b = find(right), merged = find(left + right);
    require(a >= 0 && b >= 0 && merged >= 0, "tokenizer.json: merge ", rank, " ('", left, "' '", right,
            "') names a token outside the vocabulary");
    merges_.insert_or_assign(key(a, b), merge{rank++, merged});
  }
}

std::int32_t bpe_model::find(std::string_view token) const {
  const auto i = vocabulary_.find(token);
  return i == vocabulary_.end() ? -1 : i->second;
}

std::vector<std::int32_t> bpe_model::characters(std::string_view word) const {
  std::vector<std::int32_t> symbols;
  symbols.reserve(word.size());
  bool after_unknown = false;
  for (std::size_t i = 0, n = 0; i < word.size(); i += n) {
    n = std::min(utf8_size(static_cast<unsigned char>(word[i])), word.size() - i);
    const std::string_view c = word.substr(i, n);
    const bool was_unknown = std::exchange(after_unknown, false);
    if (const std::int32_t id = find(c); id >= 0) {
      symbols.push_back(id);
      continue;
    }
    const auto byte_token = [&](char b) { return byte_tokens_[static_cast<unsigned char>(b)]; };
    if (byte_fallback_ && std::all_of(c.begin(), c.end(), [&](char b) { return byte_token(b) >= 0; })) {
      for (const char b : c) symbols.push_back(byte_token(b));
    } else if (unknown_ >= 0) {
      if (!(fuse_unknown_ && was_unknown)) symbols.push_back(unknown_);
      after_unknown = true;
    }
  }
  return symbols;
}

void bpe_model::apply_merges(std::vector<std::int32_t>* symbols) const {
  // A merge that has become impossible stays in the heap and is recognised by its ids when it comes up.
  struct candidate {
    std::uint32_t rank, at;
    std::int32_t left, right, id;
    bool operator<(const candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  struct node {
    std::int32_t id;
    std::uint32_t previous, next;
  };
  constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  const auto n = static_cast<std::uint32_t>(symbols->size());
  std::vector<node> nodes(n);
  for (std::uint32_t i = 0; i < n; ++i) nodes[i] = {(*symbols)[i], i == 0 ? none : i - 1, i + 1 == n ? none : i + 1};

  std::vector<candidate> first;
  const auto look = [&](std::uint32_t at, auto&& add) {
    if (at == none || nodes[at].next == none) return;
    const std::int32_t a = nodes[at].id, b = nodes[nodes[at].next].id;
    if (const auto m = merges_.find(key(a, b)); m != merges_.end())
      add(candidate{m->second.rank, at, a, b, m->second.id});
  };
  for (std::uint32_t i = 0; i + 1 < n; ++i) look(i, [&](const candidate& c) { first.push_back(c); });
  std::priority_queue<candidate> heap(std::less<candidate>{}, std::move(first));
  while (!heap.empty()) {
    const candidate c = heap.top();
    heap.pop();
    const std::uint32_t right = nodes[c.at].next;
    if (nodes[c.at].id != c.left || right == none || nodes[right].id != c.right) continue;
    nodes[c.at].id = c.id;
    nodes[c.at].next = nodes[right].next;
    if (nodes[right].next != none) nodes[nodes[right].next].previous = c.at;
    nodes[right].id = -1;
    look(nodes[c.at].previous, [&](const candidate& x) { heap.push(x); });
    look(c.at, [&](const candidate& x) { heap.push(x); });
  }
  symbols->clear();
  for (std::uint32_t i = n == 0 ? none : 0; i != none; i = nodes[i].next) symbols->push_back(nodes[i].id);
}

void bpe_model::encode(std::string_view word, std::vector<std::int32_t>* ids) const {
  if (word.empty()) return;
  const auto add = [&](const std::vector<std::int32_t>& more) { ids->insert(ids->end(), more.begin(), more.end()); };
  if (ignore_merges_)
    if (const std::int32_t id = find(word); id >= 0) {
      ids->push_back(id);
      return;
    }
  if (word.size() <= cached_word_bytes)
    if (const auto known = cache_.find(word); known != cache_.end()) return add(known->second);
  require(word.size() < std::numeric_limits<std::int32_t>::max(), "a word of ", word.size(),
          " bytes is too long to encode");
  std::vector<std::int32_t> symbols = characters(word);
  apply_merges(&symbols);
  add(symbols);
  if (word.size() > cached_word_bytes) return;
  if (cache_.size() >= cached_words) cache_.clear();
  cache_.emplace(std::string(word), std::move(symbols));
}

}  // namespace qkgeom
