// SPDX-License-Identifier: MIT
#include "examples/common/figures/gnuplot.hpp"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>

#include "examples/common/figures/characters.hpp"
#include "qkgeom/core/error.hpp"

extern char** environ;

namespace qkgeom::examples {
namespace {

namespace fs = std::filesystem;

/// A file descriptor with an owner.
class descriptor {
 public:
  explicit descriptor(int value) : value_(value) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() { close(); }
  int get() const { return value_; }
  void close() {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }

 private:
  int value_;
};

struct temporary_file {
  fs::path path;
  ~temporary_file() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

std::string all_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
  return text;
}

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

/// Sends gnuplot the script. A socket, unlike a pipe, reports a closed reader without a signal.
void feed(int socket, std::string_view script) {
  while (!script.empty()) {
    const ssize_t n = ::send(socket, script.data(), script.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // gnuplot has ended; its exit status says why
    script.remove_prefix(n);
  }
}

void run_gnuplot(const std::string& script) {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
          "no channel to gnuplot: ", std::strerror(errno));
  descriptor ours(ends[0]), theirs(ends[1]);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> messages(std::tmpfile(), &std::fclose);
  require(messages != nullptr, "no temporary file for gnuplot's messages: ", std::strerror(errno));

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(messages.get()), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(messages.get()), STDERR_FILENO);
  char name[] = "gnuplot", plain[] = "-d";  // -d: ignores personal settings
  char* arguments[] = {name, plain, nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, name, &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  require(failed != ENOENT, "gnuplot is not installed, figures need it (Debian package gnuplot-nox)");
  require(failed == 0, "gnuplot does not start: ", std::strerror(failed));

  theirs.close();
  feed(ours.get(), script);
  ours.close();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) fail("gnuplot was ended by signal ", WTERMSIG(status));
  require(WEXITSTATUS(status) != 127, "gnuplot is not installed, figures need it (Debian package gnuplot-nox)");
  require(WEXITSTATUS(status) == 0, "gnuplot failed: ", complaint(all_of(messages.get())));
}

/// gnuplot does not notice a full disk: a file is complete if it ends in `closing`.
void require_complete(const fs::path& path, std::string_view closing, const fs::path& target) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  std::string tail(std::min<std::streamoff>(size, 64), '\0');
  file.seekg(size - static_cast<std::streamoff>(tail.size()));
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  require(tail.find(closing) != std::string::npos, target.string(), ": the figure could not be written whole");
}

/// Whether an installed font has the character; the PNG terminal draws a black field over the figure if none has.
/// Assumes the common alphabets and signs, asks fontconfig for others.
bool has_font(char32_t code) {
  if (code < 0x530 || (code >= 0x2000 && code < 0x2300)) return true;
  static std::map<char32_t, bool> known;
  const auto [entry, is_new] = known.emplace(code, false);
  if (is_new) {
    char command[64];
    std::snprintf(command, sizeof command, "fc-list :charset=%lx family 2>/dev/null", static_cast<unsigned long>(code));
    if (std::FILE* const list = ::popen(command, "re")) {
      entry->second = std::fgetc(list) != EOF;
      while (std::fgetc(list) != EOF) {
      }
      ::pclose(list);
    }
  }
  return entry->second;
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
  std::string s = "'";
  for (const std::string_view c : characters(text)) {
    if (c == "'") s += '\'';
    s += ill_formed(c) ? "?" : static_cast<unsigned char>(c[0]) < 0x20 ? " " : c;
  }
  return s + "'";
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "NaN";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

void write_plot(const plot_script& script, const fs::path& stem) {
  const auto target = [&](const char* ending) { return fs::path(stem.string() + ending); };
  const std::string temporary = std::string(".") + stem.filename().string() + "." + std::to_string(::getpid());
  const temporary_file svg{stem.parent_path() / (temporary + ".svg")}, png{stem.parent_path() / (temporary + ".png")};

  const auto size = [&](int scale) {
    return std::to_string(scale * script.width) + "," + std::to_string(scale * script.height);
  };
  const std::string start = "set encoding utf8\n" + script.data;
  const std::string to_svg = "set terminal svg size " + size(1) +
                             " noenhanced background rgb 'white' font 'sans-serif,12' rounded\nset output " +
                             quoted(svg.path.string()) + "\n" + script.commands + "\nunset output\nreset\n";
  const std::string to_png =
      "set terminal pngcairo size " + size(2) +
      " noenhanced background rgb 'white' font 'sans-serif,12' fontscale 1.5 linewidth 2 pointscale 2 rounded\n"
      "set output " +
      quoted(png.path.string()) + "\n" + with_fonts(script.commands) + "\nunset output\n";
  run_gnuplot(start + to_svg + to_png);
  require_complete(svg.path, "</svg>", target(".svg"));
  require_complete(png.path, "IEND", target(".png"));
  std::error_code failed;
  fs::rename(svg.path, target(".svg"), failed);
  if (!failed) fs::rename(png.path, target(".png"), failed);
  require(!failed, stem.string(), ": the figure could not be moved into place: ", failed.message());
}

}  // namespace qkgeom::examples
