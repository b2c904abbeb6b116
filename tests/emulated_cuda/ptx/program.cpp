// SPDX-License-Identifier: MIT
#include "tests/emulated_cuda/ptx/program.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>

#include "qkgeom/core/error.hpp"

namespace qkgeom::ptx {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

/// Splits at separators that are not within brackets.
std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size()) {
      depth += (s[i] == '{' || s[i] == '[') - (s[i] == '}' || s[i] == ']');
      if (s[i] != separator || depth > 0) continue;
    }
    if (const auto part = trimmed(s.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

template <class T>
T number_of(std::string_view s, int base = 10) {
  T value{};
  const auto [end, status] = std::from_chars(s.data(), s.data() + s.size(), value, base);
  require(status == std::errc{} && end == s.data() + s.size(), "PTX: ", s, " is no number");
  return value;
}

/// The bits of a number, such as 7, 0x1f, 0f3F800000, 0d3FF0000000000000 or -1.
std::uint64_t bits_of(std::string_view s) {
  if (s[0] == '-') return 0 - bits_of(s.substr(1));
  if (s.size() > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'f' || s[1] == 'd'))
    return number_of<std::uint64_t>(s.substr(2), 16);
  return number_of<std::uint64_t>(s);
}

/// As in `.shared .align 16 .b8 name[32]` or `.param .u64 name`.
struct variable {
  std::string name;
  std::size_t bytes = 0, alignment = 1;
};

variable read_variable(std::string_view text) {
  variable v;
  std::size_t size = 1, count = 1;
  const auto words = split(text, ' ');
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = words[i];
    if (word == ".align") {
      v.alignment = number_of<std::size_t>(words.at(++i));
    } else if (word[0] != '.') {
      const auto bracket = std::min(word.find('['), word.size());
      v.name = word.substr(0, bracket);
      if (bracket < word.size()) count = number_of<std::size_t>(word.substr(bracket + 1, word.size() - bracket - 2));
    } else if (is_digit(word.back())) {
      size = number_of<std::size_t>(word.substr(2)) / 8;
      v.alignment = std::max(v.alignment, size);
    }
  }
  v.bytes = size * count;
  return v;
}

class reader final : public operands {
 public:
  explicit reader(const kernel_text& of) : of_(of) { into_.name = of.name; }

  kernel read() {
    const auto open = of_.text.find('('), close = of_.text.find(')'), body = of_.text.find('{'),
               end = of_.text.rfind('}');
    require(open < close && close < body && body < end && end != of_.text.npos, "PTX: ", of_.name, " has no body");
    for (const auto one : split(of_.text.substr(open + 1, close - open - 1), ',')) {
      const variable v = read_variable(one);
      variables_[v.name] = {put(into_.parameter_bytes, v), memory::parameters};
    }
    const auto head = of_.text.substr(close, body - close);
    if (const auto at = head.find(".maxntid"); at != head.npos)
      into_.most_threads = number_of<int>(split(head.substr(at + 8, head.find('\n', at) - at - 8), ',').at(0));
    read_body(body + 1, end);
    for (auto& [at, label] : branches_) {
      const auto found = labels_.find(label);
      require(found != labels_.end(), "PTX: there is no label ", label);
      into_.code[at].target = found->second;
    }
    return std::move(into_);
  }

  int row(std::string_view name) override {
    const auto [found, is_new] = row_of_.emplace(name, into_.rows);
    if (!is_new) return found->second;
    const int made = into_.rows++;
    const auto variable = variables_.find(found->first);
    if (variable != variables_.end())
      into_.numbers.emplace_back(made, variable->second.offset);
    else if (name == of_.dynamic_shared && !name.empty())
      into_.numbers.emplace_back(made, (into_.static_shared_bytes + 15) / 16 * 16);
    else if (is_digit(name.at(0)) || name[0] == '-')
      into_.numbers.emplace_back(made, bits_of(name));
    else if (name.find('.') != name.npos || name == "%laneid")
      into_.specials.emplace_back(made, name);
    else
      require(name[0] == '%', "PTX: ", name, " is not known here");
    return made;
  }

  std::vector<int> rows(std::string_view names) override {
    if (names[0] != '{') return {row(names)};
    std::vector<int> all;
    for (const auto name : split(names.substr(1, names.size() - 2), ',')) all.push_back(row(name));
    return all;
  }

  void address(instruction& i, std::string_view text) override {
    require(text.size() > 2 && text.front() == '[' && text.back() == ']', "PTX: ", text, " is no address");
    text = text.substr(1, text.size() - 2);
    const auto plus = std::min(text.find('+'), text.size());
    const auto base = trimmed(text.substr(0, plus));
    i.from[0] = row(base);
    i.offset = plus < text.size() ? number_of<std::int64_t>(trimmed(text.substr(plus + 1))) : 0;
    if (const auto found = variables_.find(std::string(base)); found != variables_.end()) i.where = found->second.where;
  }

 private:
  struct place {
    std::size_t offset;
    memory where;
  };

  static std::size_t put(std::size_t& bytes, const variable& v) {
    const std::size_t at = (bytes + v.alignment - 1) / v.alignment * v.alignment;
    bytes = at + v.bytes;
    return at;
  }

  /// Statements end with ';', labels with ':', comments with their line.
  void read_body(std::size_t begin, std::size_t end) {
    int line = of_.line + static_cast<int>(std::count(of_.text.data(), of_.text.data() + begin, '\n')), first = line;
    std::string now;
    for (std::size_t i = begin; i < end; ++i) {
      const char c = of_.text[i];
      if (c == '/' && of_.text.substr(i, 2) == "//") {
        i = of_.text.find('\n', i) - 1;
      } else if (c == ';') {
        read_statement(first, trimmed(now));
        now.clear();
      } else if (c == ':' && !now.empty() && now[0] == '$') {
        labels_[now] = static_cast<int>(into_.code.size());
        now.clear();
      } else {
        line += c == '\n';
        if (now.empty() && (is_space(c) || c == '{' || c == '}')) continue;  // scopes reuse names for the same types
        if (now.empty()) first = line;
        now += is_space(c) ? ' ' : c;
      }
    }
  }

  void read_statement(int line, std::string_view text) {
    if (text.substr(0, 4) == ".reg" || text.substr(0, 7) == ".pragma") return;
    if (text[0] == '.') {
      const bool shared = text.substr(0, 7) == ".shared";
      require(shared || text.substr(0, 6) == ".local", "PTX: ", text, " is not known here");
      const variable v = read_variable(text);
      variables_[v.name] = shared ? place{put(into_.static_shared_bytes, v), memory::shared}
                                  : place{put(into_.local_bytes, v), memory::local};
      return;
    }
    instruction i;
    i.line = line;
    i.text = text;
    if (text[0] == '@') {
      const auto space = text.find(' ');
      i.guard_is_not = text[1] == '!';
      i.guard = row(text.substr(i.guard_is_not ? 2 : 1, space - (i.guard_is_not ? 2 : 1)));
      text = trimmed(text.substr(space));
    }
    const auto space = std::min(text.find(' '), text.size());
    const auto words = split(text.substr(0, space), '.');
    const auto given = split(text.substr(space), ',');
    if (words[0] == "bra") {
      i.is = instruction::kind::branch;
      branches_.emplace_back(into_.code.size(), given.at(0));
    } else {
      decode(i, words, given, *this);
    }
    if (i.bytes > 0 && i.where != memory::parameters) into_.granule = std::min(into_.granule, i.bytes);
    into_.code.push_back(std::move(i));
  }

  const kernel_text& of_;
  kernel into_;
  std::map<std::string, int> row_of_, labels_;
  std::map<std::string, place> variables_;
  std::vector<std::pair<std::size_t, std::string>> branches_;  // instruction, label
};

}  // namespace

std::string readable(std::string_view mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : std::string(mangled);
}

std::vector<kernel_text> find_kernels(std::string_view module) {
  constexpr std::string_view entry = ".entry ", shared = ".extern .shared";
  std::string_view dynamic_shared;
  if (const auto at = module.find(shared); at != module.npos) {
    const auto bracket = module.find('[', at), space = module.rfind(' ', bracket);
    dynamic_shared = module.substr(space + 1, bracket - space - 1);
  }
  std::vector<kernel_text> all;
  int line = 1;
  for (std::size_t at = 0, before = 0; (at = module.find(entry, at)) != module.npos;) {
    line += static_cast<int>(std::count(module.data() + before, module.data() + at, '\n'));
    before = at;
    const auto begin = at + entry.size(), open = module.find('(', begin), end = module.find("\n}", open);
    require(end != module.npos, "PTX: a kernel has no end");
    all.push_back({.name = readable(module.substr(begin, open - begin)),
                   .text = module.substr(begin, end + 2 - begin),
                   .line = line,
                   .dynamic_shared = dynamic_shared});
    at = end;
  }
  return all;
}

kernel read_kernel(const kernel_text& of) { return reader(of).read(); }

}  // namespace qkgeom::ptx
