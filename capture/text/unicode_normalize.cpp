// SPDX-License-Identifier: MIT
#include "capture/text/unicode_normalize.hpp"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "capture/text/generated/unicode_tables.hpp"
#include "capture/text/utf8.hpp"

namespace qkgeom {
namespace {

constexpr char32_t l_base = 0x1100, v_base = 0x1161, t_base = 0x11a7, s_base = 0xac00;  // Hangul, section 3.12
constexpr char32_t l_count = 19, v_count = 21, t_count = 28, s_count = l_count * v_count * t_count;

struct mark {
  char32_t c;
  std::uint32_t order;  // 0: a starter
};

/// The tables, arranged for look-up. Built once, on the first text that is not ASCII.
class normal_form_tables {
 public:
  static const normal_form_tables& get() {
    static const normal_form_tables tables;
    return tables;
  }

  /// Whether normal form C (or D) leaves `c` alone whatever stands before it.
  bool stays(char32_t c, bool compose) const { return !(compose ? touched_c_ : touched_d_)[c]; }
  std::uint32_t order(char32_t c) const {
    const auto i = order_.find(c);
    return i == order_.end() ? 0 : i->second;
  }

  void decompose(char32_t c, std::vector<mark>* out) const {
    if (c >= s_base && c < s_base + s_count) {
      const char32_t s = c - s_base, t = s % t_count;
      out->push_back({l_base + s / (v_count * t_count), 0});
      out->push_back({v_base + s % (v_count * t_count) / t_count, 0});
      if (t) out->push_back({t_base + t, 0});
      return;
    }
    const auto i = parts_.find(c);
    if (i == parts_.end()) return out->push_back({c, order(c)});
    decompose(i->second.first, out);
    if (i->second.second) out->push_back({i->second.second, order(i->second.second)});
  }

  /// The character that `a` and `b` make together, or 0.
  char32_t compose(char32_t a, char32_t b) const {
    if (a >= l_base && a < l_base + l_count && b >= v_base && b < v_base + v_count)
      return s_base + ((a - l_base) * v_count + (b - v_base)) * t_count;
    if (a >= s_base && a < s_base + s_count && (a - s_base) % t_count == 0 && b > t_base && b < t_base + t_count)
      return a + (b - t_base);
    const auto i = whole_.find(pair_key(a, b));
    return i == whole_.end() ? 0 : i->second;
  }

 private:
  static std::uint64_t pair_key(char32_t a, char32_t b) { return (std::uint64_t{a} << 32) | b; }

  normal_form_tables() {
    for (const auto& r : detail::combining_ranges)
      for (char32_t c = r.first; c <= r.last; ++c) {
        order_.emplace(c, r.order);
        touched_c_.set(c);
        touched_d_.set(c);
      }
    for (const auto& p : detail::composed_pairs) {
      parts_.emplace(p.whole, std::pair{p.first, p.second});
      whole_.emplace(pair_key(p.first, p.second), p.whole);
      touched_c_.set(p.second);
      touched_d_.set(p.whole);
    }
    for (const auto& p : detail::decomposed_pairs) {
      parts_.emplace(p.whole, std::pair{p.first, p.second});
      touched_c_.set(p.whole);
      touched_d_.set(p.whole);
    }
    for (char32_t c = v_base; c < v_base + v_count; ++c) touched_c_.set(c);
    for (char32_t c = t_base + 1; c < t_base + t_count; ++c) touched_c_.set(c);
    for (char32_t c = s_base; c < s_base + s_count; ++c) touched_d_.set(c);
  }

  std::unordered_map<char32_t, std::uint32_t> order_;
  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> parts_;
  std::unordered_map<std::uint64_t, char32_t> whole_;
  std::bitset<0x110000> touched_c_, touched_d_;
};

/// Sorts each run of marks by their combining class, keeping the order of equals.
void order_marks(std::vector<mark>* text) {
  const auto starter = [](const mark& m) { return m.order == 0; };
  for (auto i = text->begin(); i != text->end();) {
    if (starter(*i)) {
      ++i;
      continue;
    }
    const auto end = std::find_if(i, text->end(), starter);
    std::stable_sort(i, end, [](const mark& a, const mark& b) { return a.order < b.order; });
    i = end;
  }
}

void compose_marks(const normal_form_tables& tables, std::vector<mark>* text) {
  std::size_t kept = 0, starter = 0;
  bool has_starter = false;
  for (const mark m : *text) {
    // A character joins the last starter unless one of the same or a higher class, or another starter, is in between.
    const std::uint32_t last = kept > starter + 1 ? (*text)[kept - 1].order : 0;
    const bool adjacent = has_starter && kept == starter + 1;
    if (has_starter && (adjacent || (last != 0 && last < m.order)))
      if (const char32_t whole = tables.compose((*text)[starter].c, m.c)) {
        (*text)[starter].c = whole;
        continue;
      }
    if (m.order == 0) {
      starter = kept;
      has_starter = true;
    }
    (*text)[kept++] = m;
  }
  text->resize(kept);
}

std::string normal_form(std::string_view text, bool compose) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  const auto& tables = normal_form_tables::get();
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  std::vector<mark> part;
  std::size_t copied = 0, last = 0;  // bytes done; start of the last character seen
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = utf8_at(text, i);
    if (tables.stays(c, compose)) {
      last = i;
      i += utf8_size_at(text, i);
      continue;
    }
    // Normalise from the previous character to the next one that stays; nothing reaches further.
    const std::size_t begin = std::max(last, copied);
    out.append(text, copied, begin - copied);
    part.clear();
    std::size_t end = begin;
    while (end < text.size()) {
      const char32_t x = utf8_at(text, end);
      if (end > i && tables.stays(x, compose)) break;
      tables.decompose(x, &part);
      end += utf8_size_at(text, end);
    }
    order_marks(&part);
    if (compose) compose_marks(tables, &part);
    for (const mark& m : part) append_utf8(out, m.c);
    copied = last = i = end;
  }
  out.append(text, copied);
  return out;
}

bool within(std::span<const detail::point_range> ranges, char32_t c) {
  const auto i =
      std::upper_bound(ranges.begin(), ranges.end(), c, [](char32_t x, const auto& r) { return x < r.first; });
  return i != ranges.begin() && c <= std::prev(i)->last;
}

}  // namespace

std::string normal_form_c(std::string_view text) { return normal_form(text, true); }
std::string normal_form_d(std::string_view text) { return normal_form(text, false); }

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto& ranges = detail::lower_ranges;
  for (std::size_t i = 0; i < text.size(); i += utf8_size_at(text, i)) {
    const char32_t c = utf8_at(text, i);
    if (c == 0x130) {  // the only one that becomes two
      out += "i\xcc\x87";
      continue;
    }
    auto r = std::upper_bound(ranges.begin(), ranges.end(), c, [](char32_t x, const auto& a) { return x < a.first; });
    char32_t lower = c;
    if (r != ranges.begin() && c <= (--r)->last && (c - r->first) % r->step == 0)
      lower = static_cast<char32_t>(static_cast<std::int32_t>(c) + r->difference);
    append_utf8(out, lower);
  }
  return out;
}

bool is_numeral(char32_t c) { return within(detail::numeral_ranges, c); }
bool is_word_character(char32_t c) { return within(detail::word_ranges, c); }

}  // namespace qkgeom
