// SPDX-License-Identifier: MIT
// Statistics of heads as files that methods for small key-value caches read: TriAttention, kvpress, DuoAttention.
#include <iostream>

#include "examples/common/cli.hpp"
#include "examples/export/exports.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  export_arguments choice;
  command_line app{
      "Statistics of a capture as files that other tools read: triattention (triattention.pt), expected-attention "
      "(kvpress: model.safetensors, config.json), duo (DuoAttention: full_attention_heads.tsv, config.json)"};
  app.add_option("FORMAT", choice.format, "triattention, expected-attention or duo")
      .required()
      .one_of({"triattention", "expected-attention", "duo"});
  add_arguments(app, a);
  app.add_option("--texts", choice.texts, "What the documents are called in the file; default: the captures' folders");
  app.add_option("--sink", choice.sink_tokens, "duo: first tokens of a document that every head keeps: 1, 4 or 64")
      .one_of({1, 4, 64})
      .shows_default();
  app.add_option("--recent", choice.recent_tokens, "duo: latest tokens that every head keeps, a power of 2")
      .positive()
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    if (choice.texts.empty())
      for (const auto& path : a.captures) choice.texts += (choice.texts.empty() ? "" : " ") + path.filename().string();
    choice.note = [](const std::string& text) { std::cerr << "note: " << text << '\n'; };
    output_folder folder(a.out, a.figures);
    if (choice.format == "triattention")
      export_triattention(folder, a, choice);
    else if (choice.format == "expected-attention")
      export_expected_attention(folder, a, choice);
    else
      export_duo(folder, a, choice);
    printer out;
    folder.print(out);
  });
}
