// SPDX-License-Identifier: MIT
// The rows of a capture, and its description in words.
#include <set>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::examples {

bool has_rows(const capture_set& source) {
  index_t rows = 0;
  bool known = true;
  for (const auto& c : source.captures()) {
    known = known && !c.manifest().shards.empty();
    for (const auto& shard : c.manifest().shards) rows += shard.rows;
  }
  return rows > 0 || !known;
}

captured_layer analysed::rows(index_t layer) const { return source->read_layer(layer); }

void print_notes(printer& out, const std::vector<report_note>& notes, const std::string& about) {
  for (const auto& n : notes) out.line("  note: " + (about.empty() ? "" : about + ": ") + n.text);
}

void print_capture(printer& out, const analysed& a) {
  const auto& manifest = a.source->manifest();
  const auto& report = a.report;
  std::set<index_t> layers;
  for (const auto& h : report.heads) layers.insert(h.layer);
  std::string line = printable(manifest.model.name, 200) + " (" + printable(manifest.model.model_type) +
                     "): " + counted(report.heads.size(), "query head") + " in " + counted(layers.size(), "layer") +
                     ", head size " + std::to_string(manifest.model.head_dim);
  out.heading(line);
  line = "  context of " + grouped(manifest.context_length) + " tokens";
  const std::size_t documents = a.source->listed_documents().size();
  if (documents > 0) line += ", " + counted(documents, "document");
  if (!report.heads.empty())
    line += ", " + grouped(report.heads[0].queries) + " queries and " + grouped(report.heads[0].keys) +
            " keys per head in layer " + std::to_string(report.heads[0].layer);
  out.line(line);
  if (report.moment_tokens > 0)
    out.line("  moments of every token: " + grouped(report.moment_tokens) +
             " queries per head behind PCA, rotation and query models");
  print_notes(out, report.notes);
}

}  // namespace qkgeom::examples
