// SPDX-License-Identifier: MIT
#include <array>
#include <string>

#include "capture/text/text_stage_pattern.hpp"
#include "capture/text/text_stage_types.hpp"
#include "capture/text/unicode_normalize.hpp"
#include "capture/text/utf8.hpp"

namespace qkgeom {
namespace {

using normalized_text = std::string (*)(std::string_view);

/// Applies a function to the text.
class function_stage final : public text_stage {
 public:
  explicit function_stage(normalized_text f) : f_(f) {}
  bool run(text_piece piece, const piece_sink& next) const override {
    const std::string text = f_(piece.text);
    piece.made->spend(text.size());
    return next(piece.with(text, piece.at_start));
  }

 private:
  normalized_text f_;
};

/// Puts a string before every piece that is not empty.
class prepend_stage final : public text_stage {
 public:
  explicit prepend_stage(std::string prefix) : prefix_(std::move(prefix)) {}
  bool run(text_piece piece, const piece_sink& next) const override {
    if (piece.text.empty()) return next(piece);
    piece.made->spend(prefix_.size() + piece.text.size());
    const std::string text = prefix_ + std::string(piece.text);
    return next(piece.with(text, piece.at_start));
  }

 private:
  std::string prefix_;
};

class replace_stage final : public text_stage {
 public:
  replace_stage(text_pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool run(text_piece piece, const piece_sink& next) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 4);
    bool at_start = piece.at_start;
    pattern_.for_each_part(piece.text, [&](std::size_t begin, std::size_t end, bool is_match) {
      const std::string_view part = is_match ? content_ : piece.text.substr(begin, end - begin);
      piece.made->spend(part.size());
      text += part;
      if (text.empty()) at_start = false;  // what follows is not the document's first byte
      return true;
    });
    return next(piece.with(text, at_start));
  }

 private:
  text_pattern pattern_;
  std::string content_;
};

class strip_stage final : public text_stage {
 public:
  strip_stage(bool left, bool right) : left_(left), right_(right) {}
  bool run(text_piece piece, const piece_sink& next) const override {
    std::string_view text = piece.text;
    const std::size_t begin = left_ ? space_after(text, 0) : 0;
    const std::size_t end = right_ ? space_before(text, begin, text.size()) : text.size();
    return next(piece.with(text.substr(begin, end - begin), piece.at_start && begin == 0));
  }

 private:
  bool left_, right_;
};

template <normalized_text f>
void read_function(const json_value&, text_stages* stages) {
  stages->push_back(std::make_shared<function_stage>(f));
}

void read_prepend(const json_value& f, text_stages* stages) {
  stages->push_back(std::make_shared<prepend_stage>(f["prepend"].string()));
}

void read_replace(const json_value& f, text_stages* stages) {
  stages->push_back(std::make_shared<replace_stage>(text_pattern::read(f), f["content"].string()));
}

void read_strip(const json_value& f, text_stages* stages) {
  const auto left = f.boolean("strip_left"), right = f.boolean("strip_right");
  require(left && right, f.where(), ": Strip must have strip_left and strip_right");
  stages->push_back(std::make_shared<strip_stage>(*left, *right));
}

constexpr std::array<detail::stage_type, 6> known_normalizers{{{"Prepend", read_prepend},
                                                               {"Replace", read_replace},
                                                               {"NFC", read_function<normal_form_c>},
                                                               {"NFD", read_function<normal_form_d>},
                                                               {"Lowercase", read_function<lower_case>},
                                                               {"Strip", read_strip}}};

}  // namespace

std::span<const detail::stage_type> detail::normalizer_types() { return known_normalizers; }

}  // namespace qkgeom
