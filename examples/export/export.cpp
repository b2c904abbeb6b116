// SPDX-License-Identifier: MIT
// Statistics of heads as files that other tools read: methods for small key-value caches, and monitors of training.
#include <iostream>

#include "examples/common/cli.hpp"
#include "examples/export/exports.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom::examples {
namespace {

/// Writes each format to a folder of its own; one that the captures do not allow, which it says before it writes, is a
/// note. Throws `error` if they allow none, or a file cannot be written.
void export_all(const arguments& a, const export_arguments& choice, printer& out) {
  bool any = false;
  for (const auto& f : export_formats) {
    const made_folder made(a.out / f.name);
    output_folder folder(a.out / f.name, a.figures);
    try {
      f.write(folder, a, choice);
    } catch (const error& e) {
      if (!folder.tables().empty()) throw;
      choice.note(std::string("no ") + f.name + ": " + e.what());
      continue;
    }
    folder.print(out);
    any = true;
  }
  require(any, "these captures allow none of the formats");
}

}  // namespace
}  // namespace qkgeom::examples

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  export_arguments choice;
  std::string format;
  std::vector<std::string> names;
  for (const auto& f : export_formats) names.emplace_back(f.name);
  names.emplace_back("all");
  command_line app{
      "Statistics of a capture as files that other tools read: triattention (triattention.pt), tria (TriAttention in "
      "llama.cpp: tria.bin), expected-attention (kvpress: model.safetensors, config.json), duo (DuoAttention: "
      "full_attention_heads.tsv, config.json), rope-profiler (rope_profiler.json)"};
  add_arguments(app, a);
  app.add_option("--for", format,
                 "The file's reader; all: each format that the captures allow, in a folder of its name")
      .required()
      .one_of(names);
  app.add_option("--texts", choice.texts, "What the documents are called in the file; default: the captures' folders");
  app.add_option("--sink", choice.sink_tokens, "duo: first tokens of a document that every head keeps: 1, 4 or 64")
      .one_of({1, 4, 64})
      .shows_default();
  app.add_option("--recent", choice.recent_tokens, "duo: latest tokens that every head keeps, a power of 2")
      .positive()
      .shows_default();
  app.add_option("--least-turn", choice.least_turn,
                 "rope-profiler: radians over the context from which a plane counts as of high frequency")
      .positive()
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    if (choice.texts.empty())
      for (const auto& path : a.captures) choice.texts += (choice.texts.empty() ? "" : " ") + path.filename().string();
    choice.note = [](const std::string& text) { std::cerr << "note: " << text << '\n'; };
    printer out;
    require_attention(open_captures(a), "files are for the cache or the softmax of the attention");
    if (format == "all") return export_all(a, choice, out);
    output_folder folder(a.out, a.figures);
    for (const auto& f : export_formats)
      if (format == f.name) f.write(folder, a, choice);
    folder.print(out);
  });
}
