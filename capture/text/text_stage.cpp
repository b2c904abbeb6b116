// SPDX-License-Identifier: MIT
#include "capture/text/text_stage.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "capture/text/regex.hpp"
#include "capture/text/unicode.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

constexpr std::size_t most_stages = 64;  // each calls the next: their number bounds the stack

/// The pattern of a Split or Replace: passes its matches to the sink, as regex::for_each_match does.
using text_pattern = std::function<bool(std::string_view, const match_sink&)>;

text_pattern literal(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text, const match_sink& match) {
    for (std::size_t i = text.find(wanted); i != text.npos; i = text.find(wanted, i + wanted.size()))
      if (!match(i, i + wanted.size())) return false;
    return true;
  };
}

text_pattern expression(std::string_view pattern) {
  return [r = regex(pattern)](std::string_view text, const match_sink& match) {
    return text.empty() || r.for_each_match(text, match);
  };
}

/// Matches single characters of a kind.
text_pattern any(bool (*is_of_kind)(char32_t)) {
  return [is_of_kind](std::string_view text, const match_sink& match) {
    for (std::size_t i = 0, begin = 0; i < text.size(); begin = i)
      if (is_of_kind(next_character(text, &i)) && !match(begin, i)) return false;
    return true;
  };
}

/// Reads the field "pattern": {"String": ..} or {"Regex": ..}.
text_pattern read_pattern(const json_value& fields) {
  const auto pattern = fields["pattern"].object();
  if (const auto regex = pattern.string("Regex")) return expression(*regex);
  const std::string& wanted = pattern["String"].string();
  return wanted.empty() ? expression("") : literal(wanted);  // an empty string matches before every character
}

/// Calls `part(begin, end, is_match)` for the matches and the gaps between them, in order, until a call returns false;
/// then returns false.
template <class F>
bool for_each_part(const text_pattern& pattern, std::string_view text, F&& part) {
  std::size_t done = 0;
  const bool complete = pattern(text, [&](std::size_t begin, std::size_t end) {
    if (begin > done && !part(done, begin, false)) return false;
    done = end;
    return static_cast<bool>(part(begin, end, true));
  });
  return complete && (done == text.size() || part(done, text.size(), false));
}

/// Passes on a text that a stage made of `piece`.
bool hand_on(text_piece piece, const std::string& text, std::size_t at_start, const piece_sink& next) {
  piece.made->spend(text.size());
  return next({text, at_start, piece.made});
}

// A prefix stands for the same character as the one after it.

/// Passes on `prefix` and what `append(text, byte)` makes of each byte of `piece`.
template <class F>
bool map_bytes(text_piece piece, std::string_view prefix, F&& append, const piece_sink& next) {
  std::string text(prefix);
  text.reserve(prefix.size() + 2 * piece.text.size());
  for (const char c : piece.text.substr(0, piece.at_start)) append(text, c);
  const std::size_t at_start = piece.at_start > 0 ? text.size() : 0;
  for (const char c : piece.text.substr(piece.at_start)) append(text, c);
  return hand_on(piece, text, at_start, next);
}

/// Passes on `prefix` and `piece`.
bool prepend(text_piece piece, std::string_view prefix, const piece_sink& next) {
  const std::size_t at_start = piece.at_start > 0 ? prefix.size() + piece.at_start : 0;
  return hand_on(piece, std::string(prefix).append(piece.text), at_start, next);
}

// Normalizers.

bool is_mark(char32_t c) { return character_class("M")->contains(static_cast<UChar32>(c)); }

/// Returns how many bytes of `text`, a normal form, stand for its first characters, which were `first` and are `alone`
/// without those after them: the bytes that agree. Where they end, a later character has joined the last one of `first`
/// or has moved a mark before its marks.
std::size_t start_of(std::string_view text, std::string_view first, std::string_view alone) {
  auto n = static_cast<std::size_t>(std::mismatch(text.begin(), text.end(), alone.begin(), alone.end()).first -
                                    text.begin());
  if (n == alone.size() || n == text.size()) return n;
  while (n > 0 && (text[n] & 0xc0) == 0x80) --n;
  std::size_t end = n, last = first.size();
  return is_mark(next_character(text, &end)) && !is_mark(previous_character(first, &last)) ? n : end;
}

/// Applies a function to the text.
template <std::string (*f)(std::string_view)>
void read_function(const json_value&, text_stages* stages) {
  stages->push_back([](text_piece piece, const piece_sink& next) {
    const std::string text = f(piece.text);
    const std::string_view first = piece.text.substr(0, piece.at_start);
    return hand_on(piece, text, start_of(text, first, f(first)), next);
  });
}

/// Puts a string before every piece that is not empty.
void read_prepend(const json_value& f, text_stages* stages) {
  stages->push_back([prefix = f["prepend"].string()](text_piece piece, const piece_sink& next) {
    return piece.text.empty() ? next(piece) : prepend(piece, prefix, next);
  });
}

void read_replace(const json_value& f, text_stages* stages) {
  stages->push_back(
      [pattern = read_pattern(f), content = f["content"].string()](text_piece piece, const piece_sink& next) {
        std::string text;
        text.reserve(piece.text.size() + piece.text.size() / 4);
        std::size_t at_start = 0;
        for_each_part(pattern, piece.text, [&](std::size_t begin, std::size_t end, bool is_match) {
          auto part = piece.part(begin, end);
          if (is_match)  // the content stands for the last character that it replaces
            part = {content, std::max<std::size_t>(end, 1) <= piece.at_start ? content.size() : 0};
          piece.made->spend(part.text.size());
          text += part.text;
          at_start += part.at_start;
          return true;
        });
        return next({text, at_start, piece.made});
      });
}

/// Strips white space from the ends.
void read_strip(const json_value& f, text_stages* stages) {
  const auto left = f.boolean("strip_left"), right = f.boolean("strip_right");
  require(left && right, f.where(), ": Strip must have strip_left and strip_right");
  stages->push_back([left = *left, right = *right](text_piece piece, const piece_sink& next) {
    const std::size_t begin = left ? space_after(piece.text, 0) : 0;
    return next(piece.part(begin, right ? space_before(piece.text, begin, piece.text.size()) : piece.text.size()));
  });
}

// Pre-tokenizers.

/// Treatment of a split's matches.
enum class split_behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Cuts at the matches of a pattern; `invert` swaps matches and gaps.
text_stage split(text_pattern pattern, split_behavior behavior, bool invert = false) {
  return [=](text_piece piece, const piece_sink& next) {
    std::size_t begin = 0, end = 0;  // the part that is held back, since the next one may join it
    bool was_match = false;
    const auto hand_on_part = [&] { return begin == end || next(piece.part(begin, end)); };
    return for_each_part(pattern, piece.text,
                         [&](std::size_t part_begin, std::size_t part_end, bool matches) {
                           const bool is_match = matches != invert;
                           const bool joins =
                               (behavior == split_behavior::contiguous && is_match == was_match) ||
                               (behavior == split_behavior::merged_with_previous && is_match && !was_match) ||
                               (behavior == split_behavior::merged_with_next && !is_match && was_match);
                           was_match = is_match;
                           if (!joins) {
                             if (!hand_on_part()) return false;
                             begin = behavior == split_behavior::removed && is_match ? part_end : part_begin;
                           }
                           end = part_end;
                           return true;
                         }) &&
           hand_on_part();
  };
}

void read_split(const json_value& f, text_stages* stages) {
  constexpr std::array<std::pair<std::string_view, split_behavior>, 5> behaviors{
      {{"Removed", split_behavior::removed},
       {"Isolated", split_behavior::isolated},
       {"MergedWithPrevious", split_behavior::merged_with_previous},
       {"MergedWithNext", split_behavior::merged_with_next},
       {"Contiguous", split_behavior::contiguous}}};
  const std::string name = f["behavior"].string();
  for (const auto& [known, behavior] : behaviors)
    if (known == name) return stages->push_back(split(read_pattern(f), behavior, f.boolean("invert").value_or(false)));
  fail(f.where(), ": split behavior '", printable(name),
       "' is not supported; supported: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

/// Returns the printable characters that byte-level vocabularies use for bytes (Radford et al., GPT-2): bytes 33-126,
/// 161-172 and 174-255 stand for themselves, the others are U+0100 onwards in order.
std::array<std::string, 256> byte_characters() {
  std::array<std::string, 256> characters;
  char32_t other = 0x100;
  for (std::size_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    append_utf8(characters[b], printable ? static_cast<char32_t>(b) : other++);
  }
  return characters;
}

void read_byte_level(const json_value& f, text_stages* stages) {
  const bool space = f.boolean("add_prefix_space").value_or(true), words = f.boolean("use_regex").value_or(true);
  if (words && space)
    stages->push_back([](text_piece piece, const piece_sink& next) {
      if (piece.text.empty() || piece.text[0] == ' ') return next(piece);
      return prepend(piece, " ", next);
    });
  if (words)
    stages->push_back(split(expression(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
                            split_behavior::isolated));
  stages->push_back(
      [characters = byte_characters(), space = space && !words](text_piece piece, const piece_sink& next) {
        if (piece.text.empty()) return true;
        return map_bytes(
            piece, space && piece.text[0] != ' ' ? characters[' '] : "",
            [&](std::string& text, char c) { text += characters[static_cast<unsigned char>(c)]; }, next);
      });
}

void read_digits(const json_value& f, text_stages* stages) {
  const bool apart = f.boolean("individual_digits").value_or(false);
  stages->push_back(split(any(is_numeral), apart ? split_behavior::isolated : split_behavior::contiguous));
}

/// Replaces spaces by another character and puts one in front.
void read_metaspace(const json_value& f, text_stages* stages) {
  const std::string replacement = f["replacement"].string();
  std::size_t size = 0;
  if (!replacement.empty()) next_character(replacement, &size);
  require(!replacement.empty() && size == replacement.size(), f.where(),
          ": Metaspace replacement must be one character, not '", printable(replacement), "'");
  const std::string scheme = f.string("prepend_scheme").value_or("always");
  const bool always = scheme == "always", first = scheme == "first";
  require(always || first || scheme == "never", f.where(), ": Metaspace prepend_scheme '", printable(scheme),
          "' is not supported; supported: always, first, never");
  require(scheme == "never" || f.boolean("add_prefix_space").value_or(true), f.where(),
          ": Metaspace add_prefix_space is false, but prepend_scheme is ", scheme);
  stages->push_back([=](text_piece piece, const piece_sink& next) {
    if (piece.text.empty()) return next(piece);
    const bool prepends =
        (always || (first && piece.at_start > 0)) && piece.text[0] != ' ' && !piece.text.starts_with(replacement);
    return map_bytes(
        piece, prepends ? replacement : "",
        [&](std::string& text, char c) { c == ' ' ? text += replacement : text += c; }, next);
  });
  if (f.boolean("split").value_or(true))
    stages->push_back(split(literal(replacement), split_behavior::merged_with_next));
}

void read_whitespace_split(const json_value&, text_stages* stages) {
  stages->push_back(split(any(is_space), split_behavior::removed));
}

/// A type of stage that tokenizer.json may name, with its reader.
struct stage_type {
  std::string_view name;
  void (*read)(const json_value&, text_stages*);
};
constexpr std::array<stage_type, 6> normalizer_types{{{"Prepend", read_prepend},
                                                      {"Replace", read_replace},
                                                      {"NFC", read_function<normal_form_c>},
                                                      {"NFD", read_function<normal_form_d>},
                                                      {"Lowercase", read_function<lower_case>},
                                                      {"Strip", read_strip}}};
constexpr std::array<stage_type, 5> pre_tokenizer_types{{{"Split", read_split},
                                                         {"ByteLevel", read_byte_level},
                                                         {"Digits", read_digits},
                                                         {"Metaspace", read_metaspace},
                                                         {"WhitespaceSplit", read_whitespace_split}}};

void read_stages(const nlohmann::json& object, const char* what, const char* list, std::span<const stage_type> types,
                 text_stages* out) {
  const json_value fields(object, "tokenizer.json", what);
  const std::string type = fields["type"].string();
  if (type == "Sequence") {
    const auto* parts = fields.find(list);
    require(parts && parts->is_array(), fields.where(), ": Sequence has no list ", list);
    for (const auto& part : *parts) read_stages(part, what, list, types, out);
    return;
  }
  std::string supported = "none, Sequence";
  for (const auto& t : types) {
    supported += ", " + std::string(t.name);
    if (t.name != type) continue;
    t.read(fields, out);
    require(out->size() <= most_stages, "tokenizer.json: ", what, " has more than ", most_stages, " steps");
    return;
  }
  fail("tokenizer.json: ", what, " '", printable(type), "' is not supported; supported: ", supported);
}

}  // namespace

text_stages read_normalizer(const nlohmann::json* object) {
  text_stages stages;
  if (object) read_stages(*object, "normalizer", "normalizers", normalizer_types, &stages);
  return stages;
}

text_stages read_pre_tokenizer(const nlohmann::json* object) {
  text_stages stages;
  if (object) read_stages(*object, "pre_tokenizer", "pretokenizers", pre_tokenizer_types, &stages);
  return stages;
}

bool run_stages(const text_stages& stages, std::size_t first, text_piece piece, const piece_sink& sink) {
  if (first == stages.size()) return sink(piece);
  return stages[first](piece, [&](text_piece p) { return run_stages(stages, first + 1, p, sink); });
}

}  // namespace qkgeom
