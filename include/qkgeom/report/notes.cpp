// SPDX-License-Identifier: MIT
#include "qkgeom/report/notes.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom {

namespace {

/// Writes x with one decimal.
std::string one_decimal(double x) {
  const auto tenths = static_cast<index_t>(10 * x + 0.5);
  return std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10);
}

std::string n_of(index_t n, index_t all) { return std::to_string(n) + " of " + std::to_string(all); }

void note_rope_stage(const capture_manifest& manifest, std::vector<report_note>& notes) {
  if (manifest.rope_stage == "post") return;
  notes.push_back({"before_rope",
                   "queries and keys are from before the rotary embedding (rope_stage pre): their products are not the "
                   "model's scores",
                   "before the rotary embedding"});
}

/// Notes heads with fewer queries or keys than dimensions, unless the report has moments of every token.
void note_rows(const model_report& report, index_t head_dim, std::vector<report_note>& notes) {
  if (report.moment_tokens > 0) return;
  const auto short_of_rows = [&](const head_report& h) { return std::min(h.queries, h.keys) < head_dim; };
  const auto first = std::find_if(report.heads.begin(), report.heads.end(), short_of_rows);
  if (first == report.heads.end()) return;
  const std::string heads = n_of(std::count_if(report.heads.begin(), report.heads.end(), short_of_rows),
                                 static_cast<index_t>(report.heads.size()));
  notes.push_back({"few_rows",
                   heads + " heads have fewer rows than dimensions, e.g. layer " + std::to_string(first->layer) +
                       " head " + std::to_string(first->q_head) + ": " + std::to_string(first->queries) +
                       " queries and " + std::to_string(first->keys) + " keys of " + std::to_string(head_dim) +
                       " dimensions: their correlations, classes and bias are large by chance",
                   "fewer rows than dimensions"});
}

/// Notes query buckets with a value from few queries, in the head that has most of them.
void note_queries(const model_report& report, std::vector<report_note>& notes) {
  index_t most = 0;
  for (const auto& h : report.heads) {
    if (h.profiles.empty()) continue;
    const auto& buckets = h.profiles[0].buckets;
    most = std::max<index_t>(most, std::count_if(buckets.begin(), buckets.end(), [](const profile_bucket& b) {
                               return b.pairs > 0 && b.queries >= 2 && b.queries < queries_of_a_fair_model;
                             }));
  }
  if (most == 0) return;
  const std::string buckets = n_of(most, report.buckets.count()) + " query buckets";
  notes.push_back({"few_queries",
                   buckets + " hold fewer than " + std::to_string(queries_of_a_fair_model) +
                       " queries of a head: their query models are rough",
                   "fewer than " + std::to_string(queries_of_a_fair_model) + " queries in " + buckets});
}

void note_positions(const position_range& rows, index_t context_length, std::vector<report_note>& notes) {
  if (rows.last < 0) return;
  const std::string last = std::to_string(rows.last), length = std::to_string(context_length);
  if (rows.first == rows.last)
    notes.push_back({"positions_alike",
                     "positions do not vary: every row stands at position " + last + ", and nothing can follow it",
                     "positions do not vary"});
  else if (2 * (rows.last + 1) < context_length)
    notes.push_back({"context_unfilled",
                     "rows end at position " + last + " of a context of " + length +
                         " tokens: values over the whole context and at its end reach beyond them",
                     "rows end at position " + last + " of " + length});
}

/// Notes documents that are cut beyond the model's context, from the field that qkgeom capture writes.
void note_model_context(const capture_manifest& manifest, std::vector<report_note>& notes) {
  const auto made_for = manifest.extra.find("model_context");
  if (made_for == manifest.extra.end() || !made_for->is_number_integer()) return;
  const std::string tokens = std::to_string(made_for->get<index_t>());
  notes.push_back({"beyond_model",
                   "the context of " + std::to_string(manifest.context_length) + " tokens goes beyond the " + tokens +
                       " that the model was made for",
                   "model made for " + tokens + " tokens"});
}

/// Notes a dynamic scaling of the rotary embedding that does nothing in so short a context.
void note_idle_scaling(const capture_manifest& manifest, std::vector<report_note>& notes) {
  const auto& rope = manifest.rope;
  if (!rope || !rope->by_length || !rope->by_length->beyond.empty()) return;
  const index_t from = rope->by_length->context;
  if (manifest.context_length > from) return;
  notes.push_back({"scaling_idle",
                   "the scaling of the rotary embedding acts past " + std::to_string(from) +
                       " tokens, and never in a context of " + std::to_string(manifest.context_length),
                   "scaling never acts"});
}

void note_soft_cap(const capture_manifest& manifest, std::vector<report_note>& notes) {
  if (!manifest.score_softcap) return;
  notes.push_back({"soft_cap",
                   "the model bends its scores by a soft cap of " + one_decimal(*manifest.score_softcap) +
                       " logits; logits here are from before it",
                   ""});
}

/// Repeats the notes that captures keep of their making.
void note_makings(const capture_set& source, std::vector<report_note>& notes) {
  std::set<std::string> seen;
  for (const auto& c : source.captures()) {
    const auto& extra = c.manifest().extra;
    const auto kept = extra.find(notes_field);
    if (kept == extra.end() || !kept->is_array()) continue;
    for (const json& n : *kept) {
      if (!n.is_object() || !n.value("note", json()).is_string() || !n.value("text", json()).is_string()) continue;
      const std::string text = printable(n["text"].get<std::string>(), 1000);
      if (seen.insert(text).second) notes.push_back({printable(n["note"].get<std::string>()), text, ""});
    }
  }
}

/// Notes captures of the same texts, by the hash that qkgeom capture writes; a part's is of the texts of all parts.
void note_same_texts(const capture_set& source, std::vector<report_note>& notes) {
  std::map<std::string, std::string> seen;  // hash of the texts -> the first capture with it
  for (const auto& c : source.captures()) {
    const auto& extra = c.manifest().extra;
    if (!extra.contains(inputs_field) || !extra[inputs_field].is_string()) continue;
    const std::string part = extra.contains(part_field) ? extra[part_field].dump() : "";
    const auto [first, fresh] = seen.emplace(extra[inputs_field].get<std::string>() + part, c.path().string());
    if (!fresh)
      notes.push_back({"same_texts",
                       first->second + " and " + c.path().string() +
                           " are of the same texts: errors over documents take them for different ones",
                       "captures of the same texts"});
  }
}

}  // namespace

std::optional<report_note> note_on_documents(index_t documents) {
  const std::string n = std::to_string(documents) + (documents == 1 ? " document" : " documents");
  if (documents < documents_of_an_error)
    return report_note{"no_errors",
                       n + (documents == 1 ? " gives" : " give") + " no errors: these need " +
                           std::to_string(documents_of_an_error) + " or more",
                       n};
  if (documents >= documents_of_a_fair_error) return std::nullopt;
  return report_note{"few_documents",
                     "errors over " + n + " are rough: a 95 % interval is ± " +
                         one_decimal(interval_factor(static_cast<double>(documents - 1))) + " standard errors",
                     n};
}

void position_range::add(const captured_layer& rows) {
  for (const auto* side : {&rows.q, &rows.k}) {
    const auto [low, high] = std::minmax_element(side->position.begin(), side->position.end());
    if (low == side->position.end()) continue;
    first = std::min<index_t>(first, *low);
    last = std::max<index_t>(last, *high);
  }
}

std::vector<report_note> notes_of(const capture_set& source, const model_report& report, const position_range& rows) {
  const auto& manifest = source.manifest();
  const auto listed = static_cast<index_t>(source.listed_documents().size());
  std::vector<report_note> notes;
  note_rope_stage(manifest, notes);
  if (auto n = note_on_documents(listed > 0 ? listed : source.documents())) notes.push_back(std::move(*n));
  note_rows(report, manifest.model.head_dim, notes);
  note_queries(report, notes);
  note_positions(rows, manifest.context_length, notes);
  note_model_context(manifest, notes);
  note_idle_scaling(manifest, notes);
  note_soft_cap(manifest, notes);
  note_same_texts(source, notes);
  note_makings(source, notes);
  return notes;
}

table notes_table(const std::vector<std::pair<std::string, std::vector<report_note>>>& models) {
  struct row {
    const std::string& model;
    const report_note& note;
  };
  table_columns<row> c;
  c.add("model", "name of the model, or its label where several are compared; empty: all of them",
        [](auto& r) { return r.model; });
  c.add("note", "kind of the note", [](auto& r) { return r.note.name; });
  c.add("text", "sentence of the note", [](auto& r) { return r.note.text; });
  return std::move(c).with_rows([&models](const auto& f) {
    for (const auto& [model, notes] : models)
      for (const auto& n : notes) f(row{model, n});
  });
}

}  // namespace qkgeom
