// SPDX-License-Identifier: MIT
// qkgeom COMMAND ...: becomes the program qkgeom-COMMAND that lies beside this one, or runs it where it is linked into
// this one.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// `main` of a program that is linked into this one, by the name of its command; null if it is not. Only the target
/// qkgeom-all defines the function, from the programs that were built.
using program = int(int, char**);
extern "C" [[gnu::weak]] program* qkgeom_linked(const char* name);

namespace {

struct command {
  const char* name;  // of a command; null in the title of a group
  const char* text;
};

constexpr command commands[]{
    {nullptr, "Capture a model"},
    {"capture", "queries and keys of a model's heads while it reads text"},
    {"merge", "the parts of one capture, joined"},
    {"evaluate", "losses and recall of a model, its heads changed or not"},
    {nullptr, "Analyse a capture"},
    {"heads", "all three analyses, one row per head, and means over heads"},
    {"pca", "how much of the variance of queries and keys is position"},
    {"rotation", "drift and separation axes, bias strength"},
    {"plasticity", "how freely each head can still reorder keys along the context"},
    {"report", "a study as one page that opens without a network"},
    {nullptr, "Look beyond its length"},
    {"grip", "which heads keep what they have found in a long context, and how far they see"},
    {"what-if", "every head at a longer context, or under another rotary embedding"},
    {"bands", "what each plane of the rotary embedding does to scores"},
    {"recovery-planes", "planted heads: which of these planes let plasticity rise again"},
    {nullptr, "Compare"},
    {"compare", "several models side by side"},
    {"dynamics", "how heads change from checkpoint to checkpoint"},
    {"drop-split", "why each head's plasticity falls along the context"},
    {nullptr, "Use what was found"},
    {"choose-heads", "heads to change, and controls, for evaluate"},
    {"interventions", "losses of models whose chosen heads were changed"},
    {"quantised-keys", "pairs of keys that swap when a cache rounds them; bits per key head"},
    {"cache-losses", "losses under caches of rounded keys"},
    {"export", "statistics of heads as TriAttention, llama.cpp, kvpress and others read them"},
    {nullptr, "Check the thesis"},
    {"thesis", "the thesis' claims beside what its published tables give"},
};

std::filesystem::path program_of(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename("qkgeom-" + name);
}

program* linked(const char* name) { return qkgeom_linked ? qkgeom_linked(name) : nullptr; }

bool is_built(const command& c) { return c.name && (linked(c.name) || std::filesystem::exists(program_of(c.name))); }

void print_help() {
  std::puts("usage: qkgeom COMMAND ...    (qkgeom COMMAND --help: the options of a command)");
  for (const auto& c : commands)
    if (c.name)
      std::printf("  %-16s %s%s\n", c.name, c.text, is_built(c) ? "" : " (not built)");
    else
      std::puts(c.text);
}

/// Counts the letters to insert, remove or replace that lead from a to b.
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char c : a) {
    std::size_t diagonal = std::exchange(row[0], row[0] + 1);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (c != b[j - 1])}));
  }
  return row.back();
}

/// Says why there is no program for `name`, and which command is nearest. Returns the exit status.
int refuse(const std::string& name, int reason) {
  const command* nearest = nullptr;
  std::size_t distance = 2 + name.size() / 3;
  for (const auto& c : commands)
    if (c.name && edits(name, c.name) < distance) nearest = &c, distance = edits(name, c.name);
  if (nearest && distance == 0)
    std::fprintf(stderr, "qkgeom: %s: %s; a whole build makes it\n", program_of(name).c_str(), std::strerror(reason));
  else if (nearest)
    std::fprintf(stderr, "qkgeom: there is no command %s; did you mean %s?\n", name.c_str(), nearest->name);
  else
    std::fprintf(stderr, "qkgeom: there is no command %s; qkgeom --help lists all\n", name.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // A linked program that starts itself anew does so by its own name (set_blas_environment).
  constexpr std::string_view prefix = "qkgeom-";
  if (const std::string called = std::filesystem::path(argv[0]).filename(); called.starts_with(prefix))
    if (program* const itself = linked(called.c_str() + prefix.size())) return itself(argc, argv);
  std::string name = argc > 1 ? argv[1] : "--help", help = "--help";
  if (name == "help" && argc == 3) {  // qkgeom help COMMAND
    name = argv[2];
    argv[2] = help.data();
  }
  if (name == "--help" || name == "-h" || name == "help") return print_help(), 0;
  if (name == "--version") return std::puts("qkgeom " QKGEOM_VERSION) < 0;
  if (name == "--commands") {  // for the completion of bash
    for (const auto& c : commands)
      if (is_built(c)) std::puts(c.name);
    return 0;
  }
  auto path = program_of(name).string();
  argv[1] = path.data();
  if (program* const found = linked(name.c_str())) return found(argc - 1, argv + 1);
  ::execv(path.c_str(), argv + 1);
  return refuse(name, errno);
}
