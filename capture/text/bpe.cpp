// SPDX-License-Identifier: MIT
#include "capture/text/bpe.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "capture/text/unicode.hpp"
#include "qkgeom/core/budget.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

constexpr std::size_t cached_words = 1 << 16;
constexpr std::size_t cached_word_bytes = 64;
constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

template <class T>
std::uint64_t pair_of(T a, T b) {
  return (std::uint64_t{static_cast<std::uint32_t>(a)} << 32) | static_cast<std::uint32_t>(b);
}

}  // namespace

bpe_model::bpe_model(const nlohmann::json& model) {
  const json_value fields(model, "tokenizer.json", "model");
  const std::string type = fields.string("type").value_or("BPE");
  require(type == "BPE", "tokenizer.json: model type '", printable(type), "' is not supported; supported: BPE");
  require(fields.number("dropout").value_or(0) == 0, "tokenizer.json: model dropout is not supported");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    require(fields.string(affix).value_or("").empty(), "tokenizer.json: model ", affix, " is not supported");

  const auto* vocabulary = fields.find("vocab");
  require(vocabulary && vocabulary->is_object(), "tokenizer.json: model vocab must be an object of token to id");
  read_vocabulary(*vocabulary);
  byte_fallback_ = fields.boolean("byte_fallback").value_or(false);
  fuse_unknown_ = fields.boolean("fuse_unk").value_or(false);
  ignore_merges_ = fields.boolean("ignore_merges").value_or(false);
  if (const auto token = fields.string("unk_token")) {
    unknown_ = find(*token);
    require(unknown_ >= 0, "tokenizer.json: unk_token '", printable(*token), "' is not in the vocabulary");
  }
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(b));
    byte_tokens_[b] = find(name);
  }
  all_bytes_ = byte_fallback_ && std::all_of(byte_tokens_, byte_tokens_ + 256, [](std::int32_t id) { return id >= 0; });
  if (const auto* scores = fields.find("scores")) {
    read_scores(*scores);
    return;
  }
  const auto* merges = fields.find("merges");
  require(merges && merges->is_array(), "tokenizer.json: model merges must be a list");
  read_merges(*merges);
}

void bpe_model::read_vocabulary(const nlohmann::json& vocabulary) {
  vocabulary_.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < std::numeric_limits<std::int32_t>::max();
    require(fits, "tokenizer.json: the id of '", printable(token), "' must be an integer from 0 to 2^31 - 2, not ",
            printable(id.dump()));
    vocabulary_.emplace(token, id.get<std::int32_t>());
    size_ = std::max<index_t>(size_, id.get<index_t>() + 1);
    std::size_t end = 0;
    const char32_t c = token.empty() ? 0 : next_character(token, &end);
    if (token.empty() || end != token.size()) continue;
    if (characters_.size() <= c) characters_.resize(c + 1, -1);
    characters_[c] = id.get<std::int32_t>();
  }
}

void bpe_model::read_merges(const nlohmann::json& merges) {
  require(merges.size() < std::numeric_limits<std::uint32_t>::max(), "tokenizer.json: too many merges");
  std::uint32_t rank = 0;
  for (const auto& m : merges) {
    if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      add_merge(rank++, m[0].get_ref<const std::string&>(), m[1].get_ref<const std::string&>());
      continue;
    }
    require(m.is_string(), "tokenizer.json: merge ", rank, " must be a string or a pair of strings");
    const auto& text = m.get_ref<const std::string&>();
    const auto space = text.find(' ');
    require(space != std::string::npos && text.find(' ', space + 1) == std::string::npos, "tokenizer.json: merge ",
            rank, " must be two tokens with one space between them, not '", printable(text), "'");
    add_merge(rank++, text.substr(0, space), text.substr(space + 1));
  }
}

void bpe_model::add_merge(std::uint32_t rank, const std::string& left, const std::string& right) {
  const std::int32_t a = find(left), b = find(right), merged = find(left + right);
  require(a >= 0 && b >= 0 && merged >= 0 && !left.empty() && !right.empty(), "tokenizer.json: merge ", rank, " ('",
          printable(left), "' '", printable(right), "') names a token outside the vocabulary");
  add_rule(left, right, {rank, merged});
}

/// Adds a rule; a later rule for the same pair replaces it.
void bpe_model::add_rule(std::string_view left, std::string_view right, rule becomes) {
  const std::int32_t a = find(left), b = find(right);
  rules_[pair_of(a, b)] = becomes;
  std::size_t end = left.size(), begin = 0;
  const char32_t before = previous_character(left, &end), after = next_character(right, &begin);
  joints_.insert(pair_of(before, after));
  const auto odd = [&](std::int32_t id) {
    return id == unknown_ || std::find(byte_tokens_, byte_tokens_ + 256, id) != byte_tokens_ + 256;
  };
  odd_merges_ = odd_merges_ || odd(a) || odd(b);
}

void bpe_model::read_scores(const nlohmann::json& scores) {
  require(scores.is_array() && static_cast<index_t>(scores.size()) >= size_,
          "tokenizer.json: model scores must have a number for each of the ", size_, " tokens");
  struct scored {
    double score;
    std::int32_t id;
    std::string_view text;
  };
  std::vector<scored> tokens;
  budget work(std::uint64_t{1} << 30, "tokenizer.json: the tokens are too long to be taken apart");
  for (const auto& [text, id] : vocabulary_) {
    const auto& score = scores[static_cast<std::size_t>(id)];
    require(score.is_number() && std::isfinite(score.get<double>()), "tokenizer.json: the score of token ", id,
            " must be a number, not ", printable(score.dump()));
    work.spend(std::uint64_t{text.size()} * text.size());
    tokens.push_back({score.get<double>(), id, text});
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const scored& a, const scored& b) { return a.score > b.score || (a.score == b.score && a.id < b.id); });
  std::uint32_t rank = 0;
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const auto& [score, id, text] = tokens[k];
    if (k > 0 && score < tokens[k - 1].score) ++rank;
    for (std::size_t i = 0; i < text.size();) {
      next_character(text, &i);
      const auto left = text.substr(0, i), right = text.substr(i);
      if (find(left) >= 0 && find(right) >= 0) add_rule(left, right, {rank, id});
    }
  }
}

std::int32_t bpe_model::find(std::string_view token) const {
  const auto i = vocabulary_.find(token);
  return i == vocabulary_.end() ? -1 : i->second;
}

/// Returns whether no merge can join the symbols of these neighbours in any context: a merge takes a symbol that ends
/// with `before` and one that starts with `after`.
bool bpe_model::may_cut(char32_t before, char32_t after) const {
  const bool a = character(before) >= 0, b = character(after) >= 0;
  if (a && b) return !joints_.contains(pair_of(before, after));
  // Byte and unknown tokens take part in no merge. But a run of unknown tokens may become one, and the neighbours of a
  // dropped character meet.
  return !odd_merges_ && (all_bytes_ || (a != b && unknown_ >= 0));
}

/// Returns the bytes of the first part of `word` that can be encoded by itself.
std::size_t bpe_model::part_size(std::string_view word) const {
  std::size_t i = 0, end = 0;
  char32_t before = next_character(word, &i);
  while ((end = i) < word.size()) {
    const char32_t c = next_character(word, &i);
    if (may_cut(before, c)) break;
    before = c;
  }
  return end;
}

std::vector<std::int32_t> bpe_model::symbols(std::string_view word) const {
  std::vector<std::int32_t> symbols;
  symbols.reserve(word.size());
  bool pending = false;  // an unknown token is due; byte tokens overtake it, as they do in the `tokenizers` library
  for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    if (const std::int32_t id = character(next_character(word, &end)); id >= 0) {
      if (std::exchange(pending, false)) symbols.push_back(unknown_);
      symbols.push_back(id);
      continue;
    }
    const std::string_view c = word.substr(begin, end - begin);
    const auto byte_token = [&](char b) { return byte_tokens_[static_cast<unsigned char>(b)]; };
    if (byte_fallback_ && std::all_of(c.begin(), c.end(), [&](char b) { return byte_token(b) >= 0; })) {
      for (const char b : c) symbols.push_back(byte_token(b));
    } else if (unknown_ >= 0) {
      if (pending && !fuse_unknown_) symbols.push_back(unknown_);
      pending = true;
    }
  }
  if (pending) symbols.push_back(unknown_);
  return symbols;
}

/// Merges the pair of lowest rank (ties: the leftmost) until no rule applies.
void bpe_model::merge(std::vector<std::int32_t>* ids) const {
  const auto n = static_cast<std::uint32_t>(ids->size());
  std::vector<symbol> word(n);
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue;  // rank and position
  const auto look = [&](std::uint32_t i) {
    symbol& s = word[i];
    s.with_next.rank = none;
    if (s.next == none) return;
    ++lookups_;
    const auto found = rules_.find(pair_of(s.id, word[s.next].id));
    if (found == rules_.end()) return;
    s.with_next = found->second;
    queue.push(pair_of(s.with_next.rank, i));
  };
  for (std::uint32_t i = 0; i < n; ++i)
    word[i] = {(*ids)[i], i == 0 ? none : i - 1, i + 1 == n ? none : i + 1, {none, 0}};
  for (std::uint32_t i = 0; i < n; ++i) look(i);
  while (!queue.empty()) {
    const auto rank = static_cast<std::uint32_t>(queue.top() >> 32), i = static_cast<std::uint32_t>(queue.top());
    queue.pop();
    symbol& s = word[i];
    if (s.with_next.rank != rank) continue;  // a neighbour has merged since
    symbol& gone = word[s.next];
    s.id = s.with_next.merged;
    s.next = gone.next;
    gone.with_next.rank = none;
    if (s.next != none) word[s.next].previous = i;
    if (s.previous != none) look(s.previous);
    look(i);
  }
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i != none && n > 0; i = word[i].next) (*ids)[kept++] = word[i].id;
  ids->resize(kept);
}

void bpe_model::encode_part(std::string_view part, std::vector<std::int32_t>* ids) const {
  const auto add = [&](const std::vector<std::int32_t>& more) { ids->insert(ids->end(), more.begin(), more.end()); };
  if (part.size() <= cached_word_bytes)
    if (const auto known = cache_.find(part); known != cache_.end()) return add(known->second);
  require(part.size() < std::numeric_limits<std::int32_t>::max(), "a word of ", part.size(),
          " bytes is too long to encode");
  std::vector<std::int32_t> list = symbols(part);
  merge(&list);
  add(list);
  if (part.size() > cached_word_bytes) return;
  if (cache_.size() >= cached_words) cache_.clear();
  cache_.emplace(std::string(part), std::move(list));
}

void bpe_model::encode(std::string_view word, std::size_t limit, std::vector<std::int32_t>* ids) const {
  if (word.empty()) return;
  if (ignore_merges_)
    if (const std::int32_t id = find(word); id >= 0) {
      ids->push_back(id);
      return;
    }
  if (word.size() <= cached_word_bytes) return encode_part(word, ids);
  while (!word.empty() && ids->size() < limit) {
    const std::size_t n = part_size(word);
    encode_part(word.substr(0, n), ids);
    word.remove_prefix(n);
  }
}

}  // namespace qkgeom
