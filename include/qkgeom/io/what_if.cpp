// SPDX-License-Identifier: MIT
#include "qkgeom/io/what_if.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/io/rope_config.hpp"
#include "qkgeom/rotary/embedding.hpp"
#include "qkgeom/rotary/rotation_between.hpp"

namespace qkgeom {

namespace {

/// Returns a b / c rounded up, for positions of 32 bits.
index_t share_up(index_t a, index_t b, index_t c) { return (a * b + c - 1) / c; }

/// Gives the rows of a side new positions.
void move_positions(captured_side& side, const rotary_change& change, index_t from, index_t to) {
  auto moved = std::make_shared<std::vector<std::int32_t>>();
  moved->reserve(side.rows);
  for (index_t i = 0; i < side.rows; ++i)
    moved->push_back(static_cast<std::int32_t>(stretched_position(
        side.position[i], from, to, static_cast<std::uint32_t>(side.document[i]), change.keep_first, change.seed)));
  side.position = {moved->data(), side.rows};
  side.owners.push_back(std::move(moved));
}

/// Rows of a layer at a stage: from before its steps, or from after them.
struct row_stage {
  row_steps steps;
  bool after;
};

/// Returns the embedding of a document; `tokens` is nullopt where the captures do not list it.
captured_rope rope_in(const captured_rope& rope, std::optional<index_t> tokens, index_t context) {
  require(tokens || !rope.by_length || context <= rope.by_length->context,
          "the rotary embedding depends on a document's length, and the capture does not list its documents");
  return rope.at_length(tokens.value_or(context));
}

/// Takes rows of one side of a layer from one stage to another: the one place that undoes and redoes `row_steps`.
class row_carrier {
 public:
  row_carrier(row_stage from, row_stage to, bool query, index_t dim)
      : from_(std::move(from)), to_(std::move(to)), query_(query), row_(static_cast<std::size_t>(dim)) {
    if (const auto& norm = from_.steps.norm) weights_ = query ? norm->query : norm->key;
    require(!from_.after || std::find(weights_.begin(), weights_.end(), 0) == weights_.end(),
            "the norm after the rotation weighs a channel by 0, which cannot be taken back");
  }

  /// Begins the rows of a document, under the embeddings that it has at both stages.
  void begin(const captured_rope& applied, const captured_rope& wanted) {
    const captured_rope none{applied.style, applied.rotary_dim, 1, std::vector<double>(applied.inv_freq.size()),
                             applied.first};
    rotation_ = rotation_between(from_.after ? &applied : nullptr, to_.after ? wanted : none);
    factor_from_ = from_.after ? 1 : applied.attention_factor;
    factor_to_ = from_.after ? wanted.attention_factor / applied.attention_factor : wanted.attention_factor;
  }

  /// Carries the row of all heads that stood at position `was` and stands at `is`.
  template <class From, class To>
  void operator()(const From* x, index_t heads, index_t was, index_t is, To* y) {
    const vector_rotation rotation(rotation_, static_cast<double>(was), static_cast<double>(is));
    const double growth =
        !query_ ? 1 : (to_.after ? to_.steps.growth.at(is) : 1) / (from_.after ? from_.steps.growth.at(was) : 1);
    const std::size_t d = row_.size();
    for (index_t h = 0; h < heads; ++h, x += d, y += d) {
      for (std::size_t c = 0; c < d; ++c) {
        row_[c] = static_cast<double>(x[c]);
        if (from_.after && !weights_.empty()) row_[c] /= weights_[c];
      }
      const double scale = growth * norm_factor();
      rotation(row_.data());
      for (std::size_t c = 0; c < d; ++c)
        y[c] = static_cast<To>(scale * row_[c] * (to_.after && !weights_.empty() ? weights_[c] : 1));
    }
  }

 private:
  /// Returns the factor of the norm for the row, which is not rotated yet.
  double norm_factor() const {
    const auto& norm = from_.steps.norm;
    if (!norm) return 1;
    const double size = mean_square(factor_to_);
    if (!from_.after && !norm->divided) return 1 / std::sqrt(size + norm->eps);
    return factor_from_ == factor_to_ ? 1 : std::sqrt(mean_square(factor_from_) / size);
  }
  /// Mean over coordinates, the rotated ones times `factor`.
  double mean_square(double factor) const {
    double sum = 0, rotated = 0;
    for (const double x : row_) sum += x * x;
    for (const auto& p : rotation_.planes) rotated += row_[p.first] * row_[p.first] + row_[p.second] * row_[p.second];
    return (sum + (factor * factor - 1) * rotated) / static_cast<double>(row_.size());
  }

  row_stage from_, to_;
  bool query_;
  std::vector<double> weights_{}, row_;
  row_rotation rotation_{};
  double factor_from_ = 1, factor_to_ = 1;  // what the rotation multiplies rows by that it has not multiplied yet
};

/// Returns the base of frequencies theta^(-2i/d). Throws `error` on others.
double theta_of(const captured_rope& rope) {
  if (rope.by_length && rope.by_length->beyond.empty()) return rope.by_length->theta;
  const auto d = 2 * static_cast<index_t>(rope.inv_freq.size());
  require(d > 2, "--rope-scaling alone needs two rotary planes or more; give --rope-theta");
  const double theta = std::round(std::pow(rope.inv_freq[0] / rope.inv_freq[1], static_cast<double>(d) / 2));
  const auto plain = default_frequencies(theta, d);
  for (std::size_t i = 0; i < plain.size(); ++i)
    require(
        std::abs(static_cast<double>(plain[i]) / rope.inv_freq[i] - 1) < 1e-3,
        "--rope-scaling alone needs a capture without scaling; give --rope-theta, the base of its frequencies, too");
  return theta;
}

/// The stages between which the rows of a set are carried.
struct carriage {
  capture_manifest was, is;
  std::map<index_t, capture_set::document_tokens> documents;
  std::function<index_t(index_t)> tokens;
  std::string where;

  row_stage from(index_t layer) const { return {was.steps_of(was.layer(layer)), was.rope_stage == "post"}; }
  row_stage to(index_t layer) const { return {is.steps_of(is.layer(layer)), is.rope_stage == "post"}; }
};

template <class From>
void carry_side(captured_side& side, const carriage& by, index_t layer, bool query,
                vector_view<const std::int32_t> was) {
  using to = compute_t<From>;
  const row_stage from_stage = by.from(layer), to_stage = by.to(layer);
  row_carrier carrier(from_stage, to_stage, query, side.dim);
  auto carried = std::make_shared<std::vector<to>>(side.rows * side.heads * side.dim);
  const index_t width = side.heads * side.dim;
  for (index_t i = 0; i < side.rows; ++i) {
    if (from_stage.steps.rope && (i == 0 || side.document[i] != side.document[i - 1])) {
      const auto found = by.documents.find(side.document[i]);
      const bool listed = found != by.documents.end();
      std::optional<index_t> before, now;
      if (listed) before = from_stage.after ? found->second.rotated : found->second.now;
      if (listed) now = by.tokens(found->second.now);
      const auto applied = rope_in(*from_stage.steps.rope, before, by.was.context_length);
      carrier.begin(applied, to_stage.after ? rope_in(*to_stage.steps.rope, now, by.is.context_length) : applied);
    }
    carrier(reinterpret_cast<const From*>(side.data) + i * width, side.heads, was[i], side.position[i],
            carried->data() + i * width);
  }
  side.data = reinterpret_cast<const std::byte*>(carried->data());
  side.element = dtype_of<to>();
  side.owners.push_back(std::move(carried));
}

/// Carries the rows of a layer, which stood at `was` (queries, keys).
captured_layer carried_layer(captured_layer layer, const carriage& by,
                             std::array<vector_view<const std::int32_t>, 2> was) {
  const row_steps steps = by.from(layer.layer).steps;
  if (!steps.rope && !steps.norm && steps.growth.beta == 0) return layer;
  require(!steps.rope || steps.rope->first + steps.rope->rotary_dim <= layer.k.dim, layer.k.file, ": layer ",
          layer.layer, ": the rotary embedding rotates more coordinates than heads have");
  try {
    visit_element_type(layer.element, [&]<class From>() {
      carry_side<From>(layer.q, by, layer.layer, true, was[0]);
      carry_side<From>(layer.k, by, layer.layer, false, was[1]);
    });
  } catch (const error& e) {
    fail(by.where, ": layer ", layer.layer, ": ", e.what());
  }
  layer.element = layer.k.element;
  return layer;
}

}  // namespace

index_t wanted_context(const capture_manifest& captured, index_t asked) {
  if (asked > 0) return asked;
  if (!captured.extra.contains("short_of")) return captured.context_length;
  return json_value(captured.extra["short_of"], "short_of").integer(captured.context_length, largest_position);
}

std::optional<captured_rope> wanted_rope(const capture_manifest& captured, const wanted_embedding& wanted,
                                         index_t context) {
  if (!wanted.theta && wanted.scaling.empty()) return std::nullopt;
  require(captured.rope.has_value(), "--rope-theta and --rope-scaling need a capture that says its rotary embedding");
  const auto& was = *captured.rope;
  const index_t made_for = captured.model.context;
  require(made_for > 0 || !wanted.scaling.starts_with("dynamic"),
          "--rope-scaling dynamic counts from the model's "
          "context, which the capture does not say (model.context)");
  const rope_description planes{
      .rotary_dim = was.rotary_dim, .first = was.first, .interleaved = was.style == "interleaved"};
  return captured_rope_of(other_rope(planes, wanted.theta ? *wanted.theta : theta_of(was), wanted.scaling,
                                     made_for > 0 ? made_for : captured.context_length),
                          context);
}

index_t stretched_position(index_t position, index_t from, index_t to, std::uint32_t document, index_t keep_first,
                           std::uint64_t seed) {
  if (position < keep_first || from == to) return position;
  const index_t first = share_up(position, to, from), end = share_up(position + 1, to, from);
  const random_stream draws{seed, document, 0, draw::stretched_position};
  return first + static_cast<index_t>(draws.below(position, static_cast<std::uint64_t>(end - first)));
}

capture_set what_if(const capture_set& source, const rotary_change& change) {
  const std::string where = source.captures()[0].path().string();
  carriage by{source.manifest(), source.manifest(), source.tokens(), {}, where};
  capture_manifest& manifest = by.is;
  const index_t from = manifest.context_length;
  const index_t to = change.context_length > 0 ? change.context_length : from;
  require(to >= from, where, ": a context of ", from, " tokens cannot be stretched to ", to);
  require(to <= largest_position, where, ": a context of ", to, " tokens is more than 32 bits count");
  by.tokens = [from, to](index_t n) { return share_up(n, to, from); };
  const auto place = [&](captured_rope& rope) {
    rope.set_context(to);
    if (!change.rotating) return;
    for (double& f : rope.inv_freq)
      if (!change.rotating(f)) f = 0;
  };
  for (auto& l : manifest.layers) {
    by.was.rope_of(l);  // refuses a capture that does not say
    if (l.norm) l.norm->divided = false;
    if (!change.rope) continue;
    require(!l.rope_parameters || l.rope_parameters == manifest.rope, where, ": layer ", l.layer,
            " has a rotary embedding of its own, and one for all layers cannot replace it");
    l.rope_parameters.reset();
  }
  if (change.rope) manifest.rope = change.rope;
  if (manifest.rope) place(*manifest.rope);
  for (auto& l : manifest.layers)
    if (l.rope_parameters) place(*l.rope_parameters);
  manifest.rope_stage = "post";
  manifest.context_length = to;
  if (manifest.bucket.kind != "log2") manifest.bucket.size = share_up(by.was.usual_bucket_size(), to, from);
  manifest.extra.erase("moments");
  auto rows = [change, by, from, to](captured_layer layer) {
    const std::array positions{layer.q.position, layer.k.position};
    for (auto* side : {&layer.q, &layer.k}) move_positions(*side, change, from, to);
    return carried_layer(std::move(layer), by, positions);
  };
  return source.changed({manifest, std::move(rows), by.tokens, true});
}

capture_set what_if_as_in(const capture_set& source, const capture_manifest& other, index_t keep_first,
                          std::uint64_t seed) {
  const index_t to = other.context_length;
  const rotary_change change{.context_length = to, .rope = other.rope, .keep_first = keep_first, .seed = seed};
  return what_if(source.manifest().context_length > to ? source.before(to) : source, change);
}

capture_set before_rope(const capture_set& source) {
  carriage by{source.manifest(), source.manifest(), source.tokens(), [](index_t n) { return n; },
              source.captures()[0].path().string()};
  bool changes = by.was.rope_stage == "post";
  for (auto& l : by.is.layers) {
    by.was.rope_of(l);
    if (!l.norm) continue;
    changes = changes || !l.norm->divided;
    l.norm->divided = true;
  }
  if (!changes) return source;
  by.is.rope_stage = "pre";
  by.is.extra.erase("moments");
  auto rows = [by](captured_layer layer) {
    const std::array positions{layer.q.position, layer.k.position};
    return carried_layer(std::move(layer), by, positions);
  };
  return source.changed({by.is, std::move(rows), by.tokens});
}

std::optional<captured_rope> sole_rope_of(const capture_set& source, index_t layer, const std::string& why) {
  const auto& m = source.manifest();
  const row_steps steps = m.steps_of(m.layer(layer));
  const std::string where = source.captures()[0].path().string() + ": layer " + std::to_string(layer);
  require(!steps.norm || !steps.norm->weighs(), where,
          " norms queries and keys by weights of channels after the rotation: ", why);
  if (!steps.rope || !steps.rope->by_length) return steps.rope;
  std::optional<captured_rope> sole;
  for (const auto& [document, tokens] : source.tokens()) {
    auto rope = steps.rope->at_length(m.rope_stage == "post" ? tokens.rotated : tokens.now);
    require(!sole || *sole == rope, where, " has other rotary frequencies in longer documents: ", why);
    sole = std::move(rope);
  }
  return sole ? sole : rope_in(*steps.rope, std::nullopt, m.context_length);
}

}  // namespace qkgeom
