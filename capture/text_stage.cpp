// SPDX-License-Identifier: MIT
#include "capture/text_stage.hpp"

#include <array>
#include <string>

#include "capture/json_access.hpp"
#include "capture/regex.hpp"
#include "capture/utf8.hpp"

namespace qkgeom {
namespace {

/// Cuts at the matches of a regular expression; the matches are words of their own ("Isolated") or dropped ("Removed").
class split_stage final : public text_stage {
 public:
  split_stage(std::string_view pattern, bool keep_matches, bool keep_gaps)
      : regex_(pattern), keep_matches_(keep_matches), keep_gaps_(keep_gaps) {}

  bool run(text_piece piece, const piece_sink& next) const override {
    const std::string_view text = piece.text;
    const auto hand_on = [&](std::size_t a, std::size_t b, bool keep) {
      return !keep || a == b || next({text.substr(a, b - a), piece.at_start && a == 0});
    };
    std::size_t gap = 0, from = 0;
    for (regex::span m; from < text.size() && regex_.find(text, from, &m);) {
      if (m.begin == m.end) {  // an empty match cuts nothing
        from = m.end < text.size() ? m.end + utf8_size(static_cast<unsigned char>(text[m.end])) : text.size();
        continue;
      }
      if (!hand_on(gap, m.begin, keep_gaps_) || !hand_on(m.begin, m.end, keep_matches_)) return false;
      gap = from = m.end;
    }
    return hand_on(gap, text.size(), keep_gaps_);
  }

 private:
  regex regex_;
  bool keep_matches_, keep_gaps_;
};

/// Writes each byte as the printable character that byte-level vocabularies use for it (Radford et al., GPT-2): 33-126,
/// 161-172 and 174-255 stand for themselves, the others are U+0100 onwards in order.
class byte_level_stage final : public text_stage {
 public:
  explicit byte_level_stage(bool add_prefix_space) : add_prefix_space_(add_prefix_space) {
    char32_t other = 0x100;
    for (std::size_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      append_utf8(characters_[b], printable ? static_cast<char32_t>(b) : other++);
    }
  }
  bool run(text_piece piece, const piece_sink& next) const override {
    if (piece.text.empty()) return true;
    std::string mapped;
    mapped.reserve(2 * piece.text.size() + 2);
    if (add_prefix_space_ && piece.text[0] != ' ') mapped += characters_[' '];
    for (const char c : piece.text) mapped += characters_[static_cast<unsigned char>(c)];
    return next({mapped, piece.at_start});
  }

 private:
  std::array<std::string, 256> characters_;
  bool add_prefix_space_;
};

/// Puts a space before a piece that does not start with one.
class prefix_space_stage final : public text_stage {
 public:
  bool run(text_piece piece, const piece_sink& next) const override {
    if (piece.text.empty() || piece.text[0] == ' ') return next(piece);
    std::string text(1, ' ');
    text += piece.text;
    return next({text, piece.at_start});
  }
};

void read_split(const json_fields& f, text_stages* stages) {
  const auto pattern = f.child("pattern");
  require(pattern.has_value(), f.where(), " has no pattern");
  std::string expression;
  if (const auto regular = pattern->string("Regex"))
    expression = *regular;
  else
    for (const char c : pattern->required_string("String")) {
      if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(c)) expression += '\\';
      expression += c;
    }
  const std::string behavior = f.required_string("behavior");
  require(behavior == "Isolated" || behavior == "Removed", f.where(), ": split behavior '", behavior,
          "' is not supported; supported: Isolated, Removed");
  const bool invert = f.boolean("invert").value_or(false), isolated = behavior == "Isolated";
  stages->push_back(std::make_shared<split_stage>(expression, isolated || invert, isolated || !invert));
}

void read_byte_level(const json_fields& f, text_stages* stages) {
  const bool space = f.boolean("add_prefix_space").value_or(true);
  if (!f.boolean("use_regex").value_or(true)) {
    stages->push_back(std::make_shared<byte_level_stage>(space));
    return;
  }
  if (space) stages->push_back(std::make_shared<prefix_space_stage>());
  constexpr std::string_view words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  stages->push_back(std::make_shared<split_stage>(words, true, true));
  stages->push_back(std::make_shared<byte_level_stage>(false));
}

/// A type of stage: another one is a line in the table.
struct stage_type {
  std::string_view name;
  void (*read)(const json_fields&, text_stages*);
};
constexpr std::array<stage_type, 0> normalizers{};
constexpr std::array<stage_type, 2> pre_tokenizers{{{"Split", read_split}, {"ByteLevel", read_byte_level}}};

template <class Table>
void read_stages(const nlohmann::json& object, const char* what, const char* list, const Table& table,
                 text_stages* out) {
  const json_fields fields(object, std::string("tokenizer.json: ") + what);
  const std::string type = fields.required_string("type");
  if (type == "Sequence") {
    const auto* parts = fields.find(list);
    require(parts && parts->is_array(), fields.where(), ": Sequence has no list ", list);
    for (const auto& part : *parts) read_stages(part, what, list, table, out);
    return;
  }
  for (const stage_type& t : table)
    if (t.name == type) return t.read(fields, out);
  std::string supported = "none";
  for (const stage_type& t : table) supported += ", " + std::string(t.name);
  fail("tokenizer.json: ", what, " '", type, "' is not supported; supported: ", supported);
}

}  // namespace

text_stages read_normalizer(const nlohmann::json* object) {
  text_stages stages;
  if (object) read_stages(*object, "normalizer", "normalizers", normalizers, &stages);
  return stages;
}

text_stages read_pre_tokenizer(const nlohmann::json* object) {
  text_stages stages;
  if (object) read_stages(*object, "pre_tokenizer", "pretokenizers", pre_tokenizers, &stages);
  return stages;
}

bool run_stages(const text_stages& stages, std::size_t first, text_piece piece, const piece_sink& sink) {
  if (first == stages.size()) return sink(piece);
  return stages[first]->run(piece, [&](text_piece p) { return run_stages(stages, first + 1, p, sink); });
}

}  // namespace qkgeom
