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

/// `main` of each program, defined in the target qkgeom-all alone.
using program = int(int, char**);
extern "C" [[gnu::weak]] program qkgeom_capture, qkgeom_merge, qkgeom_evaluate, qkgeom_heads, qkgeom_pca,
    qkgeom_rotation, qkgeom_plasticity, qkgeom_report, qkgeom_grip, qkgeom_what_if, qkgeom_bands,
    qkgeom_recovery_planes, qkgeom_compare, qkgeom_dynamics, qkgeom_drop_split, qkgeom_choose_heads,
    qkgeom_interventions, qkgeom_quantised_keys, qkgeom_cache_losses, qkgeom_export, qkgeom_thesis;

namespace {

struct command {
  const char* name;  // of a command; null in the title of a group
  const char* text;
  program* linked = nullptr;  // null where it is a file of its own
};

constexpr command commands[]{
    {nullptr, "Capture a model"},
    {"capture", "queries and keys of a model's heads while it reads text", qkgeom_capture},
    {"merge", "the parts of one capture, joined", qkgeom_merge},
    {"evaluate", "losses and recall of a model, its heads changed or not", qkgeom_evaluate},
    {nullptr, "Analyse a capture"},
    {"heads", "all three analyses, one row per head, and means over heads", qkgeom_heads},
    {"pca", "how much of the variance of queries and keys is position", qkgeom_pca},
    {"rotation", "drift and separation axes, bias strength", qkgeom_rotation},
    {"plasticity", "how freely each head can still reorder keys along the context", qkgeom_plasticity},
    {"report", "a study as one page that opens without a network", qkgeom_report},
    {nullptr, "Look beyond its length"},
    {"grip", "which heads keep what they have found in a long context, and how far they see", qkgeom_grip},
    {"what-if", "every head at a longer context, or under another rotary embedding", qkgeom_what_if},
    {"bands", "what each plane of the rotary embedding does to scores", qkgeom_bands},
    {"recovery-planes", "planted heads: which of these planes let plasticity rise again", qkgeom_recovery_planes},
    {nullptr, "Compare"},
    {"compare", "several models side by side", qkgeom_compare},
    {"dynamics", "how heads change from checkpoint to checkpoint", qkgeom_dynamics},
    {"drop-split", "why each head's plasticity falls along the context", qkgeom_drop_split},
    {nullptr, "Use what was found"},
    {"choose-heads", "heads to change, and controls, for evaluate", qkgeom_choose_heads},
    {"interventions", "losses of models whose chosen heads were changed", qkgeom_interventions},
    {"quantised-keys", "pairs of keys that swap when a cache rounds them; bits per key head", qkgeom_quantised_keys},
    {"cache-losses", "losses under caches of rounded keys", qkgeom_cache_losses},
    {"export", "statistics of heads for TriAttention, kvpress and DuoAttention", qkgeom_export},
    {nullptr, "Check the thesis"},
    {"thesis", "the thesis' claims beside what its published tables give", qkgeom_thesis},
};

std::filesystem::path program_of(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename("qkgeom-" + name);
}

bool is_built(const command& c) { return c.name && (c.linked || std::filesystem::exists(program_of(c.name))); }

/// The program `name` where it is linked into this one, else null.
program* linked(std::string_view name) {
  for (const auto& c : commands)
    if (c.name && c.name == name) return c.linked;
  return nullptr;
}

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
    if (program* const itself = linked(called.substr(prefix.size()))) return itself(argc, argv);
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
  if (program* const found = linked(name)) return found(argc - 1, argv + 1);
  ::execv(path.c_str(), argv + 1);
  return refuse(name, errno);
}
