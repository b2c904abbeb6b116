// SPDX-License-Identifier: MIT
#include <array>
#include <optional>
#include <string>

#include "capture/text/text_stage_pattern.hpp"
#include "capture/text/text_stage_types.hpp"
#include "capture/text/unicode_normalize.hpp"
#include "capture/text/utf8.hpp"

namespace qkgeom {
namespace {

/// What a split does with its matches.
enum class split_behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Joins the successive matches and gaps of a text into pieces and hands them on.
class piece_joiner {
 public:
  piece_joiner(text_piece whole, split_behavior behavior, const piece_sink& next)
      : whole_(whole), behavior_(behavior), next_(next) {}

  bool add(std::size_t begin, std::size_t end, bool is_match) {
    switch (behavior_) {
      case split_behavior::removed:
        return is_match || emit(begin, end);
      case split_behavior::isolated:
        return emit(begin, end);
      case split_behavior::merged_with_next:
        if (open_ && !is_match) {
          open_ = false;
          return emit(begin_, end);
        }
        return is_match ? restart(begin, end) : emit(begin, end);
      case split_behavior::merged_with_previous:
        return join(begin, end, is_match, is_match && !was_match_);
      case split_behavior::contiguous:
        return join(begin, end, is_match, is_match == was_match_);
    }
    return true;
  }
  bool finish() { return !open_ || emit(begin_, end_); }

 private:
  bool join(std::size_t begin, std::size_t end, bool is_match, bool joined) {
    was_match_ = is_match;
    if (!(joined && open_)) return restart(begin, end);
    end_ = end;
    return true;
  }
  bool restart(std::size_t begin, std::size_t end) {
    if (open_ && !emit(begin_, end_)) return false;
    begin_ = begin;
    end_ = end;
    return open_ = true;
  }
  bool emit(std::size_t begin, std::size_t end) const {
    return begin == end || next_(whole_.with(whole_.text.substr(begin, end - begin), whole_.at_start && begin == 0));
  }

  text_piece whole_;
  split_behavior behavior_;
  const piece_sink& next_;
  std::size_t begin_ = 0, end_ = 0;
  bool open_ = false, was_match_ = false;
};

/// Cuts at the matches of a pattern; `invert` swaps matches and gaps.
class split_stage final : public text_stage {
 public:
  split_stage(text_pattern pattern, split_behavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  bool run(text_piece piece, const piece_sink& next) const override {
    piece_joiner joiner(piece, behavior_, next);
    return pattern_.for_each_part(piece.text, [&](std::size_t a, std::size_t b, bool match) {
      return joiner.add(a, b, match != invert_);
    }) && joiner.finish();
  }

 private:
  text_pattern pattern_;
  split_behavior behavior_;
  bool invert_;
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
    piece.made->spend(mapped.size());
    return next(piece.with(mapped, piece.at_start));
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
    piece.made->spend(1 + piece.text.size());
    const std::string text = ' ' + std::string(piece.text);
    return next(piece.with(text, piece.at_start));
  }
};

/// Replaces spaces by another character and puts one in front.
class metaspace_stage final : public text_stage {
 public:
  enum class prefix { always, first, never };
  metaspace_stage(std::string replacement, prefix p) : replacement_(std::move(replacement)), prefix_(p) {}
  bool run(text_piece piece, const piece_sink& next) const override {
    if (piece.text.empty()) return next(piece);
    const bool wanted = prefix_ == prefix::always || (prefix_ == prefix::first && piece.at_start);
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + replacement_.size());
    if (wanted && piece.text[0] != ' ' && !piece.text.starts_with(replacement_)) text += replacement_;
    for (const char c : piece.text)
      if (c == ' ')
        text += replacement_;
      else
        text += c;
    piece.made->spend(text.size());
    return next(piece.with(text, piece.at_start));
  }

 private:
  std::string replacement_;
  prefix prefix_;
};

void read_split(const json_value& f, text_stages* stages) {
  constexpr std::array<std::pair<std::string_view, split_behavior>, 5> behaviors{
      {{"Removed", split_behavior::removed},
       {"Isolated", split_behavior::isolated},
       {"MergedWithPrevious", split_behavior::merged_with_previous},
       {"MergedWithNext", split_behavior::merged_with_next},
       {"Contiguous", split_behavior::contiguous}}};
  const std::string name = f["behavior"].string();
  for (const auto& [known, behavior] : behaviors)
    if (known == name) {
      const bool invert = f.boolean("invert").value_or(false);
      stages->push_back(std::make_shared<split_stage>(text_pattern::read(f), behavior, invert));
      return;
    }
  fail(f.where(), ": split behavior '", printable(name),
       "' is not supported; supported: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

void read_byte_level(const json_value& f, text_stages* stages) {
  const bool space = f.boolean("add_prefix_space").value_or(true);
  if (!f.boolean("use_regex").value_or(true)) {
    stages->push_back(std::make_shared<byte_level_stage>(space));
    return;
  }
  if (space) stages->push_back(std::make_shared<prefix_space_stage>());
  constexpr std::string_view words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  stages->push_back(std::make_shared<split_stage>(text_pattern(regex(words)), split_behavior::isolated));
  stages->push_back(std::make_shared<byte_level_stage>(false));
}

void read_digits(const json_value& f, text_stages* stages) {
  const bool apart = f.boolean("individual_digits").value_or(false);
  stages->push_back(std::make_shared<split_stage>(text_pattern(is_numeral),
                                                  apart ? split_behavior::isolated : split_behavior::contiguous));
}

void read_metaspace(const json_value& f, text_stages* stages) {
  using prefix = metaspace_stage::prefix;
  const std::string replacement = f["replacement"].string();
  require(!replacement.empty() && utf8_size_at(replacement, 0) == replacement.size(), f.where(),
          ": Metaspace replacement must be one character, not '", printable(replacement), "'");
  const std::string scheme = f.string("prepend_scheme").value_or("always");
  const bool never = scheme == "never";
  require(never || scheme == "always" || scheme == "first", f.where(), ": Metaspace prepend_scheme '",
          printable(scheme), "' is not supported; supported: always, first, never");
  require(never || f.boolean("add_prefix_space").value_or(true), f.where(),
          ": Metaspace add_prefix_space is false, but prepend_scheme is ", scheme);
  stages->push_back(std::make_shared<metaspace_stage>(replacement, never               ? prefix::never
                                                                   : scheme == "first" ? prefix::first
                                                                                       : prefix::always));
  if (f.boolean("split").value_or(true))
    stages->push_back(std::make_shared<split_stage>(text_pattern(replacement), split_behavior::merged_with_next));
}

void read_whitespace_split(const json_value&, text_stages* stages) {
  stages->push_back(std::make_shared<split_stage>(text_pattern(is_space), split_behavior::removed));
}

constexpr std::array<detail::stage_type, 5> known_pre_tokenizers{{{"Split", read_split},
                                                                  {"ByteLevel", read_byte_level},
                                                                  {"Digits", read_digits},
                                                                  {"Metaspace", read_metaspace},
                                                                  {"WhitespaceSplit", read_whitespace_split}}};

}  // namespace

std::span<const detail::stage_type> detail::pre_tokenizer_types() { return known_pre_tokenizers; }

}  // namespace qkgeom
