// SPDX-License-Identifier: MIT
#include "examples/common/figures/gnuplot.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string_view>

#include "examples/common/table.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

extern char** environ;

namespace qkgeom::examples {
namespace {

namespace fs = std::filesystem;

/// A file in memory without a name; programs that this one starts find it under `path`.
class memory_file {
 public:
  explicit memory_file(std::string_view text = {}) : file_(::memfd_create("figure", 0)) {
    require(file_ >= 0, "no memory for a figure: ", std::strerror(errno));
    while (!text.empty()) {
      const ssize_t n = ::write(file_, text.data(), text.size());
      require(n >= 0 || errno == EINTR, "no memory for a figure: ", std::strerror(errno));
      if (n > 0) text.remove_prefix(n);
    }
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
  std::string text() const {
    std::string all;
    char part[65536];
    for (;;) {
      const ssize_t n = ::pread(file_, part, sizeof part, static_cast<off_t>(all.size()));
      if (n < 0 && errno == EINTR) continue;
      require(n >= 0, "a figure cannot be read back: ", std::strerror(errno));
      if (n == 0) return all;
      all.append(part, static_cast<std::size_t>(n));
    }
  }

 private:
  int file_;
};

/// gnuplot's messages on one line.
std::string complaint(const std::string& text) {
  std::string line;
  for (const char c : text)
    if (c != '\n' && c != '\r')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  const std::size_t from = line.find_first_not_of(" ^");
  line = from == std::string::npos ? std::string() : line.substr(from, 300);
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line.empty() ? "no message" : line;
}

/// Returns false if gnuplot is not installed. The script is a file, since gnuplot reads what comes through a pipe byte
/// by byte.
bool run_gnuplot(const std::string& script) {
  const memory_file commands(script), messages;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, messages.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, messages.get(), STDERR_FILENO);
  char name[] = "gnuplot", plain[] = "-d";  // -d: ignores personal settings
  std::string file = commands.path();
  char* arguments[] = {name, plain, file.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, name, &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT) return false;
  require(failed == 0, "gnuplot does not start: ", std::strerror(failed));

  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) fail("gnuplot was ended by signal ", WTERMSIG(status));
  require(WEXITSTATUS(status) == 0, "gnuplot failed: ", complaint(messages.text()));
  return true;
}

/// Whether an installed font has the character; the PNG terminal draws a black field over the figure if none has.
/// Assumes the common alphabets and signs, asks fontconfig for others.
bool has_font(char32_t code) {
  if (code < 0x530 || (code >= 0x2000 && code < 0x2300)) return true;
  static const std::map<char32_t, char32_t> ranges = [] {  // last by first
    std::map<char32_t, char32_t> all;
    std::FILE* const list = ::popen("fc-list --format '%{charset} ' 2>/dev/null", "re");
    unsigned first = 0, last = 0;
    for (int read = 0; list && (read = std::fscanf(list, "%x-%x", &first, &last)) > 0;) {
      char32_t& end = all[first];
      end = std::max<char32_t>(end, read == 2 ? last : first);
    }
    if (list) ::pclose(list);
    return all;
  }();
  for (auto range = ranges.upper_bound(code); range != ranges.begin();)
    if ((--range)->second >= code) return true;
  return false;
}

/// The Unicode number of a character that is not ill-formed.
char32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  char32_t code = character.size() == 1 ? lead : lead & (0x7fu >> character.size());
  for (const char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fu);
  return code;
}

/// Replaces characters that no font has by question marks.
std::string with_fonts(const std::string& script) {
  if (std::all_of(script.begin(), script.end(), [](char c) { return (c & 0x80) == 0; })) return script;
  std::string s;
  for (const std::string_view c : characters(script)) s += has_font(code_point(c)) ? c : "?";
  return s;
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string s = "\"";
  for (const std::string_view c : characters(text)) {
    if (c == "\"" || c == "\\") s += '\\';
    const bool no_character = ill_formed(c) || code_point(c) == 0xfffe || code_point(c) == 0xffff;  // in XML
    s += no_character ? "?" : static_cast<unsigned char>(c[0]) < 0x20 ? " " : c == "`" ? "\\140" : c;
  }
  return s + "\"";
}

std::string quoted_tic(const std::string& text) {
  std::string s;
  for (const char c : text) s += c == '%' ? "%%" : std::string(1, c);
  return examples::quoted(s);
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "NaN";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

bool has_gnuplot() { return run_gnuplot({}); }

void write_plot(const plot_script& script, const fs::path& stem) {
  if (stem.empty()) return;
  constexpr double most_pixels = 8192;  // along a side of the PNG; cairo itself ends at 32767
  const double scale = std::min(2.0, most_pixels / std::max(script.width, script.height));
  const auto size = [&](double factor) {
    return std::to_string(static_cast<int>(factor * script.width)) + "," +
           std::to_string(static_cast<int>(factor * script.height));
  };
  const memory_file svg, png;
  const std::string start = "set encoding utf8\n" + script.data;
  const std::string to_svg = "set terminal svg size " + size(1) +
                             " noenhanced background rgb 'white' font 'sans-serif,12' rounded\nset output '" +
                             svg.path() + "'\n" + script.commands + "\nunset output\nreset\n";
  const std::string to_png = "set terminal pngcairo size " + size(scale) +
                             " noenhanced background rgb 'white' font 'sans-serif,12' fontscale " +
                             number_text(0.75 * scale) + " linewidth " + number_text(scale) + " pointscale " +
                             number_text(scale) + " rounded\nset output '" + png.path() + "'\n" +
                             with_fonts(script.commands) + "\nunset output\n";
  require(run_gnuplot(start + to_svg + to_png),
          "gnuplot is not installed, figures need it (Debian package gnuplot-nox)");
  const auto write = [&](const char* ending, const std::string& image, std::string_view closing) {
    const fs::path target = stem.string() + ending;
    // gnuplot ends well even if it lacked the memory for the figure.
    require(image.find(closing, image.size() - std::min<std::size_t>(image.size(), 64)) != std::string::npos,
            target.string(), ": gnuplot did not draw the figure to its end");
    write_text(target, image);
  };
  // gnuplot does not escape >, which XML forbids after ]].
  std::string drawing = svg.text();
  for (std::size_t at = 0; (at = drawing.find("]]>", at)) != std::string::npos;) drawing.replace(at, 3, "]]&gt;");
  write(".svg", drawing, "</svg>");
  write(".png", png.text(), "IEND");
}

}  // namespace qkgeom::examples
