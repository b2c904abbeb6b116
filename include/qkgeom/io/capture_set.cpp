// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_set.hpp"

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

namespace {

using detail::int32_view, detail::join;

/// Returns the largest document number of a capture plus one.
index_t document_numbers(const capture& c) {
  index_t last = -1;
  const auto& m = c.manifest();
  if (m.documents)
    for (const auto& e : *m.documents) last = std::max(last, e.index);
  for (const auto& s : m.shards)
    for (const index_t e : s.documents) last = std::max(last, e);
  if (last >= 0) return last + 1;
  for (const index_t layer : c.layers()) {
    const auto rows = c.read_layer(layer);
    for (const auto* side : {&rows.q, &rows.k})
      for (const std::int32_t e : side->document) last = std::max<index_t>(last, e);
  }
  return last + 1;
}

void shift_documents(captured_side& side, std::int32_t by) {
  auto shifted = std::make_shared<std::vector<std::int32_t>>(side.document.begin(), side.document.end());
  for (auto& e : *shifted) e += by;
  side.document = {shifted->data(), static_cast<index_t>(shifted->size())};
  side.owners.push_back(std::move(shifted));
}

/// Returns the rows i for which wanted(i) holds: a few runs, since rows are in the order of (document, position).
template <class Wanted>
captured_side rows_where(captured_side side, const Wanted& wanted) {
  const std::string file = side.file;
  const std::size_t width = side.rows > 0 ? side.bytes() / side.rows : 0;
  std::vector<captured_side> runs;
  for (index_t from = 0, to = 0; from < side.rows; from = to + 1) {
    for (to = from; to < side.rows && wanted(to);) ++to;
    if (to == from) continue;
    runs.push_back(side);
    auto& run = runs.back();
    run.rows = to - from;
    run.data += from * width;
    for (auto* values : {&run.position, &run.document, &run.token})
      if (values->size == side.rows) *values = {values->data + from, run.rows};
  }
  if (!runs.empty()) return join(std::move(runs), file);
  side.rows = 0;
  side.position = side.document = side.token = {};
  return side;
}

}  // namespace

capture_set::capture_set(std::vector<capture> captures) : captures_(std::move(captures)) {
  require(!captures_.empty(), "capture_set: at least one capture is needed");
  order_parts();
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    const auto& c = captures_[i];
    check_same_model(c);
    const bool follows = i > 0 && same_whole(captures_[i - 1].manifest(), c.manifest());
    const bool is_part = part_of(c.manifest(), c.path().string()).has_value();
    if (follows)
      require(c.manifest().documents->front().index > captures_[i - 1].manifest().documents->back().index,
              c.path().string(), " and ", captures_[i - 1].path().string(), " hold the same documents of one capture");
    offset_.push_back(follows ? offset_.back() : documents_ - (is_part ? c.manifest().documents->front().index : 0));
    documents_ = offset_.back() + document_numbers(c);
    require(documents_ <= largest_position, c.path().string(), ": more documents than 32 bits count");
    for (index_t s = 0; s < c.n_shards(); ++s) shards_.emplace_back(offset_.size() - 1, s);
  }
}

capture_set capture_set::open(const std::vector<std::filesystem::path>& paths) {
  std::vector<capture> captures;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    captures.push_back(capture::open(paths[i]));
    for (std::size_t j = 0; j < i; ++j)
      require(!std::filesystem::equivalent(paths[i], paths[j]), paths[i].string(), " is named twice");
  }
  return capture_set(std::move(captures));
}

std::vector<captured_document> capture_set::listed_documents() const {
  std::vector<captured_document> all;
  for (std::size_t c = 0; c < captures_.size(); ++c)
    if (const auto& listed = captures_[c].manifest().documents)
      for (auto e : *listed) {
        e.index += offset_[c];
        if (!holds(e.index)) continue;
        e.tokens = tokens_of(e).now;
        all.push_back(std::move(e));
      }
  return all;
}

capture_set::document_tokens capture_set::tokens_of(const captured_document& e) const {
  document_tokens found{e.tokens, e.tokens};
  for (const auto& step : changes_) {
    found.now = step->tokens(found.now);
    if (step->rotates) found.rotated = found.now;
  }
  return found;
}

std::map<index_t, capture_set::document_tokens> capture_set::tokens() const {
  std::map<index_t, document_tokens> all;
  for (std::size_t c = 0; c < captures_.size(); ++c)
    if (const auto& listed = captures_[c].manifest().documents)
      for (const auto& e : *listed) all[e.index + offset_[c]] = tokens_of(e);
  return all;
}

capture_set::row_documents capture_set::documents_in(index_t layer) const {
  row_documents found;
  const auto add = [](const captured_side& side, std::vector<std::int32_t>& to) {
    for (const std::int32_t e : side.document)
      if (to.empty() || to.back() != e) to.push_back(e);
  };
  for (index_t p = 0; p < n_shards(); ++p) {
    const auto rows = read_shard(layer, p);
    add(rows.q, found.q);
    add(rows.k, found.k);
    forget(p);
  }
  return found;
}

std::vector<std::int32_t> capture_set::documents_with_rows() const {
  std::vector<std::int32_t> all;
  for (const index_t layer : layers()) {
    const auto found = documents_in(layer);
    for (const auto* side : {&found.q, &found.k}) all.insert(all.end(), side->begin(), side->end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

captured_layer capture_set::read_shard(index_t layer, index_t number) const {
  const auto [c, shard] = shards_[number];
  auto rows = captures_[c].read_layer(layer, shard);
  if (offset_[c] != 0)
    for (auto* side : {&rows.q, &rows.k}) shift_documents(*side, static_cast<std::int32_t>(offset_[c]));
  if (!only_.empty())
    for (auto* side : {&rows.q, &rows.k}) {
      const auto document = side->document;
      *side = rows_where(std::move(*side), [&](index_t i) { return holds(index_t{document[i]}); });
    }
  for (const auto& step : changes_) rows = step->rows(std::move(rows));
  return rows;
}

captured_layer capture_set::read_layer(index_t layer) const {
  if (captures_.size() == 1 && has_all_rows()) return captures_[0].read_layer(layer);
  auto all = read_shard(layer, 0);
  std::vector<captured_side> q{std::move(all.q)}, k{std::move(all.k)};
  for (index_t p = 1; p < n_shards(); ++p) {
    auto next = read_shard(layer, p);
    q.push_back(std::move(next.q));
    k.push_back(std::move(next.k));
  }
  all.q = join(std::move(q), captures_[0].path().string());
  all.k = join(std::move(k), captures_[0].path().string());
  return all;
}

capture_set capture_set::only(std::vector<index_t> documents) const {
  require(!documents.empty(), "capture_set: name at least one document");
  std::sort(documents.begin(), documents.end());
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  require(documents.front() >= 0 && documents.back() < documents_, "capture_set: there is no document ",
          documents.front() < 0 ? documents.front() : documents.back(), " of ", documents_);
  auto some = *this;
  std::erase_if(some.shards_, [&](const auto& shard) {
    const auto& listed = captures_[shard.first].manifest().shards;
    if (listed.empty()) return false;  // a single file may hold any document
    const auto& held = listed[shard.second].documents;
    return std::none_of(held.begin(), held.end(), [&](index_t e) {
      return std::binary_search(documents.begin(), documents.end(), e + offset_[shard.first]);
    });
  });
  require(!some.shards_.empty(), "capture_set: no shard holds document ", documents.front(),
          documents.size() > 1 ? ", nor the others asked for" : "");
  some.only_ = std::move(documents);
  return some;
}

capture_set capture_set::before(index_t length) const {
  require(length > 0 && length <= manifest().context_length, "capture_set: the context of ", manifest().context_length,
          " tokens cannot end at ", length);
  auto shorter = manifest();
  shorter.context_length = length;
  return changed({std::move(shorter),
                  [length](captured_layer rows) {
                    for (auto* side : {&rows.q, &rows.k}) {
                      const auto position = side->position;
                      *side = rows_where(std::move(*side), [&](index_t i) { return position[i] < length; });
                    }
                    return rows;
                  },
                  [length](index_t tokens) { return std::min(tokens, length); }});
}

capture_set capture_set::changed(change c) const {
  auto some = *this;
  some.changes_.push_back(std::make_shared<const change>(std::move(c)));
  return some;
}

void capture_set::forget(index_t number) const {
  const auto [c, shard] = shards_[number];
  captures_[c].file(shard)->forget();
}

void capture_set::check_same_model(const capture& c) const {
  const auto &first = manifest(), &m = c.manifest();
  const auto same = [&](bool equal, const char* what) {
    require(equal, c.path().string(), ": its ", what, " differs from that of ", captures_[0].path().string(),
            ": only captures of one model can be read as one");
  };
  same(first.model == m.model, "model");
  same(first.context_length == m.context_length, "context_length");
  same(untrained_seed(first) == untrained_seed(m), "seed of untrained weights");
  same(first.rope_stage == m.rope_stage, "rope_stage");
  same(first.layers == m.layers, "list of layers and heads");
  same(first.rope == m.rope, "rotary embedding");
}

/// Sorts the captures by part number if all are parts of one.
void capture_set::order_parts() {
  const auto number = [](const capture& c) { return part_of(c.manifest(), c.path().string())->number; };
  for (const auto& c : captures_)
    if (!same_whole(captures_[0].manifest(), c.manifest())) return;
  std::stable_sort(captures_.begin(), captures_.end(),
                   [&](const auto& a, const auto& b) { return number(a) < number(b); });
}

bool capture_set::holds(index_t document) const {
  return only_.empty() || std::binary_search(only_.begin(), only_.end(), document);
}

namespace {

/// Coordinates [first, end) of a head.
struct coordinate_range {
  index_t first, end;
};

coordinate_range find_head_part(const capture_manifest& m, const std::string& name, const std::string& where) {
  const auto parts = m.extra.find(head_parts_field);
  require(parts != m.extra.end() && parts->is_object(), where, " names no parts of its heads (head_parts)");
  std::string known;
  for (const auto& [key, range] : parts->items()) {
    known += (known.empty() ? "" : ", ") + key;
    if (key != name) continue;
    const json_value v(range, where + ": head_parts." + key);
    const auto bounds = v.integers(0, m.model.head_dim);
    v.expect(bounds.size() == 2 && bounds[0] < bounds[1], "the first coordinate and the end");
    return {bounds[0], bounds[1]};
  }
  fail(where, " has no part of heads '", name, "'; it has ", known);
}

/// Returns the rotary embedding of a part; null if it rotates none of its coordinates.
std::optional<captured_rope> rope_of_part(const captured_rope& rope, const coordinate_range& part,
                                          const std::string& where) {
  const index_t end = rope.first + rope.rotary_dim;
  if (end <= part.first || part.end <= rope.first) return std::nullopt;
  require(part.first <= rope.first && end <= part.end, where,
          ": the rotary embedding rotates some coordinates of that part of heads and not others of its own");
  captured_rope own = rope;
  own.first -= part.first;
  return own;
}

void keep_coordinates(captured_side& side, const coordinate_range& part) {
  const auto size = size_of(side.element);
  const index_t dim = part.end - part.first, heads = side.rows * side.heads;
  auto kept = std::make_shared<std::vector<std::byte>>(heads * dim * size);
  for (index_t i = 0; i < heads; ++i)
    std::memcpy(kept->data() + i * dim * size, side.data + (i * side.dim + part.first) * size, dim * size);
  side.data = kept->data();
  side.dim = dim;
  side.owners.push_back(std::move(kept));
}

}  // namespace

capture_set head_part(const capture_set& source, const std::string& name) {
  auto manifest = source.manifest();
  const std::string where = source.captures()[0].path().string();
  const auto part = find_head_part(manifest, name, where);
  for (const auto& l : manifest.layers)
    require(!l.norm, where, ": layer ", l.layer, " norms whole heads after the rotation, which a part does not tell");
  if (!manifest.score_scale) manifest.score_scale = 1 / std::sqrt(static_cast<double>(manifest.model.head_dim));
  manifest.model.name += ", " + name + " part of heads";
  manifest.model.head_dim = part.end - part.first;
  const auto whole_rope = manifest.rope;
  if (manifest.rope) manifest.rope = rope_of_part(*manifest.rope, part, where);
  for (auto& l : manifest.layers) {
    const auto& rope = l.rope_parameters ? l.rope_parameters : whole_rope;
    const auto own = rope ? rope_of_part(*rope, part, where) : std::nullopt;
    l.rope = l.rope && (!rope || own);
    if (l.rope_parameters) l.rope_parameters = own;
  }
  manifest.extra.erase(head_parts_field);
  manifest.extra.erase("moments");
  auto rows = [part, now = manifest](captured_layer layer) {
    layer.rope = now.layer(layer.layer).rope;
    for (auto* side : {&layer.q, &layer.k}) keep_coordinates(*side, part);
    return layer;
  };
  return source.changed({std::move(manifest), std::move(rows), [](index_t n) { return n; }});
}

}  // namespace qkgeom
