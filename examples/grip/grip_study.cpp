// SPDX-License-Identifier: MIT
#include "examples/grip/grip_study.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/numbers/misses.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

constexpr index_t stability_windows[] = {4096, 16384, 65536, 262144, 1048576};

/// Calls f(layer, rows) for each layer with a head of the report; it returns a value per query head of the layer.
/// Returns those of the report's heads.
template <class F>
auto of_heads(const model_report& report, const capture_set& source, const std::string& label, const F& f) {
  using list = decltype(f(source.read_layer(0), layer_view<float>{}));
  list found, of_layer;
  std::optional<captured_layer> layer;
  progress bar(label, static_cast<index_t>(report.heads.size()), "heads");
  for (const auto& h : report.heads) {
    if (!layer || layer->layer != h.layer) {
      layer = source.read_layer(h.layer);
      layer->visit([&]<class T>(const layer_view<T>& rows) { of_layer = f(*layer, rows); });
    }
    const auto q = std::find(layer->query_heads.begin(), layer->query_heads.end(), h.q_head);
    found.push_back(std::move(of_layer[static_cast<std::size_t>(q - layer->query_heads.begin())]));
    bar.add(1);
  }
  bar.done();
  return found;
}

/// Returns the embedding of a layer in documents of `context` tokens.
std::optional<captured_rope> rope_at(const capture_set& before, index_t layer, index_t context) {
  const auto steps = before.manifest().steps_of(before.manifest().layer(layer));
  require(!steps.norm || !steps.norm->weighs(), before.captures()[0].path().string(), ": layer ", layer,
          " norms queries and keys by weights of channels after the rotation, so that scores are no function of "
          "distance");
  if (!steps.rope) return std::nullopt;
  return steps.rope->at_length(context);
}

std::vector<head_grip> predict(cpu_context& cpu, const model_report& report, const capture_set& before, index_t context,
                               const grip_options& options, const std::string& label) {
  return of_heads(report, before, label, [&]<class T>(const captured_layer& layer, const layer_view<T>& rows) {
    return grip(cpu, rows, rope_at(before, layer.layer, context), layer.k.token, options);
  });
}

/// Counts on rows as they enter q.k, or from before the rotary embedding.
std::vector<head_grip> count(cpu_context& cpu, const model_report& report, const capture_set& source,
                             const grip_options& options, const std::string& label) {
  const bool rotated = source.manifest().rope_stage == "post";
  return of_heads(report, source, label, [&]<class T>(const captured_layer& layer, const layer_view<T>& rows) {
    const auto rope = rotated ? std::nullopt : rope_at(source, layer.layer, source.manifest().context_length);
    return counted_grip(cpu, rows, rope, layer.k.token, options);
  });
}

/// Returns predicted less counted grip of the same documents. It has an error if all of them count.
estimate miss_of(const grip_value& predicted, const grip_value& counted) {
  const double p = predicted.value.value, c = counted.value.value;
  if (counted.without.size() != predicted.without.size()) return {p - c};
  std::vector<double> without;
  for (std::size_t e = 0; e < counted.without.size(); ++e) {
    const double a = predicted.without[e], b = counted.without[e];
    without.push_back((std::isnan(a) ? p : a) - (std::isnan(b) ? c : b));
  }
  return jackknife(p - c, without);
}

/// Adds a check for each group of heads: of the grip with index `i` in `predicted` and `actual`.
void add_checks(std::vector<grip_check>& checks, const std::string& from, const model_report& report,
                const std::vector<head_grip>& predicted, const std::vector<head_grip>& actual, std::size_t i) {
  for (const auto& group : head_groups(report.heads)) {
    grip_check c{.from = from,
                 .needle = predicted[0].grip[i].needle,
                 .top = predicted[0].grip[i].top,
                 .length = predicted[0].grip[i].length,
                 .group = group.name};
    std::vector<double> x, y;
    double square = 0, inside = 0;
    c.actual = c.predicted = 0;
    for (const std::size_t h : group.heads) {
      const auto &p = predicted[h].grip[i].value, &a = actual[h].grip[i].value;
      if (std::isnan(p.value) || std::isnan(a.value)) continue;
      x.push_back(p.value);
      y.push_back(a.value);
      c.predicted += p.value;
      c.actual += a.value;
      square += (p.value - a.value) * (p.value - a.value);
      const auto miss =
          std::isnan(a.error) ? estimate{p.value - a.value, p.error, p.freedom} : independent_difference(p, a);
      inside += std::abs(miss.value) <= half_width(miss, interval_miss);
    }
    const auto n = static_cast<double>(c.heads = x.size());
    if (x.empty()) continue;
    c.predicted /= n;
    c.actual /= n;
    c.miss_rms = std::sqrt(square / n);
    c.correlation = associate(association::pearson, x, y);
    if (from == "actual") c.in_interval = inside / n;
    checks.push_back(std::move(c));
  }
}

/// Factor of an error's growth (`growth_of_error`) with a length of which documents hold so many tokens.
double factor_of(index_t length, index_t tokens) {
  return 1 + static_cast<double>(length) / static_cast<double>(tokens);
}

/// Predicts the capture's own length from its first half and quarter, and widens the errors of `found` by the misses,
/// which grow at least with `least_factor`.
void check_itself(cpu_context& cpu, grip_study& found, const capture_set& source, const capture_set& before,
                  double least_factor) {
  const index_t tokens = source.manifest().context_length;
  grip_options o = found.options;
  o.near = tokens / 8;
  o.lengths = {tokens - tokens / 4};
  o.distances.clear();
  if (o.near <= 2 * o.nearest) return;
  auto all = o;
  all.queries = tokens / 8;  // half of the positions behind so many keys
  const auto& report = found.whole.report;
  const auto actual = count(cpu, report, source, all, "Check, counted");
  std::vector<head_misses> misses(actual.at(0).grip.size());
  for (const auto& h : report.heads)
    for (auto& m : misses) m.rope.push_back(h.rope);
  for (const index_t part : {2, 4}) {
    const auto short_set = before.before((tokens + part - 1) / part);
    const auto from = "1/" + std::to_string(part);
    const auto predicted = predict(cpu, report, short_set, tokens, o, "Check, from " + from);
    for (std::size_t i = 0; i < misses.size(); ++i) {
      misses[i].factors.push_back(factor_of(o.lengths[0], tokens / part));
      auto& miss = misses[i].miss.emplace_back();
      for (std::size_t h = 0; h < actual.size(); ++h) miss.push_back(miss_of(predicted[h].grip[i], actual[h].grip[i]));
      add_checks(found.checks, from, report, predicted, actual, i);
    }
  }
  const std::size_t tops = o.tops.size(), per_kind = found.options.lengths.size() * tops;
  for (std::size_t i = 0; i < found.predicted[0].grip.size(); ++i) {
    std::vector<estimate> values;
    for (const auto& h : found.predicted) values.push_back(h.grip[i].value);
    values = widened(std::move(values), misses[i / per_kind * tops + i % tops],
                     std::max(least_factor, factor_of(found.predicted[0].grip[i].length, tokens)));
    for (std::size_t h = 0; h < values.size(); ++h) found.predicted[h].grip[i].value = values[h];
  }
}

void add_notes(grip_study& found, bool has_tokens, bool other_embedding) {
  auto& report = found.whole.report;
  const auto note = [&](const char* kind, const std::string& text) { report.notes.push_back({kind, text, ""}); };
  const auto nope = static_cast<std::size_t>(
      std::count_if(report.heads.begin(), report.heads.end(), [](const head_report& h) { return !h.rope; }));
  if (nope > 0)
    note("nothing_rotates",
         counted(nope, "head") +
             " without rotary embedding: distance changes no score there, and grip is chance, near / "
             "context, where keys are exchangeable");
  const index_t made_for = found.whole.source->manifest().model.context;
  if (made_for > 0 && found.options.lengths.back() > made_for)
    note("beyond_model", "the model was made for " + grouped(made_for) +
                             " tokens; its slow planes never turned as far as larger distances turn them");
  const index_t least = found.options.near + found.options.first;
  std::size_t brief = 0;
  for (const auto& [e, tokens] : found.whole.source->tokens()) brief += tokens.now <= least;
  if (brief > 0)
    note("short_documents", counted(brief, "document") + " of at most " + grouped(least) +
                                " tokens do not count: --near " + grouped(found.options.near) +
                                " keys must stand before a query");
  if (other_embedding) note("other_embedding", note_on_other_embedding);
  if (!has_tokens) note("no_tokens", "the capture holds no tokens, so there are no matched needles, and no reach");
  if (found.checks.empty())
    note("no_check", "documents are too short to check themselves: errors are over documents alone");
  else if (found.options.lengths.back() > 8 * report.context_length)
    note("beyond_check",
         "the capture checks itself at up to 4 times the length of its parts; intervals beyond 8 times "
         "its own are carried on");
}

}  // namespace

grip_study find_grip(const arguments& a, const grip_arguments& choice, analysed whole) {
  grip_study found;
  found.whole = std::move(whole);
  const capture_set& source = *found.whole.source;
  const auto& manifest = source.manifest();
  const index_t tokens = manifest.context_length, context = wanted_context(manifest, choice.context);
  found.options = {.near = choice.near > 0 ? choice.near : std::min<index_t>(512, tokens / 2),
                   .first_compete = choice.first_compete,
                   .queries = choice.queries,
                   .seed = a.seed};
  auto& o = found.options;
  require(context >= o.near, "--context ", context, " is below the ", o.near, " nearest keys (--near)");
  for (index_t n = o.near; n < context; n *= 2) o.lengths.push_back(n);
  o.lengths.push_back(context);
  for (index_t d = 16; d < context; d *= 2) o.distances.push_back(d);
  o.distances.push_back(context);
  const auto& report = found.whole.report;
  cpu_context cpu{{.threads = a.threads}};
  cpu.pool().watch(a.watch);
  const auto as_captured = before_rope(source);
  const auto embedding = wanted_rope(manifest, choice.embedding, context);
  const auto before = embedding ? before_rope(what_if(as_captured, {.rope = embedding})) : as_captured;
  bool has_tokens = false;
  found.predicted =
      of_heads(report, before, "Grip", [&]<class T>(const captured_layer& layer, const layer_view<T>& rows) {
        has_tokens = has_tokens || layer.k.token.size > 0;
        const auto rope = rope_at(before, layer.layer, context);
        const std::vector<index_t> windows(std::begin(stability_windows), std::end(stability_windows));
        auto stable = order_stability_of(cpu, rows, rope, {.windows = windows, .seed = a.seed});
        for (std::size_t h = 0; h < stable.size(); ++h)
          if (std::any_of(report.heads.begin(), report.heads.end(), [&](const head_report& r) {
                return r.layer == layer.layer && r.q_head == layer.query_heads[h];
              }))
            found.stability.push_back(std::move(stable[h]));
        return grip(cpu, rows, rope, layer.k.token, o);
      });
  require(!report.heads.empty(), a.captures.at(0).string(), ": no head is selected");
  check_itself(cpu, found, source, as_captured, embedding ? factor_of_other_embedding : 1);
  if (!choice.actual.empty()) {
    auto b = a;
    b.captures = choice.actual;
    b.documents.clear();
    b.max_position = 0;
    found.actual = count(cpu, report, open_captures(b), o, "Actual");
    for (std::size_t i = 0; i < found.actual[0].grip.size(); ++i)
      add_checks(found.checks, "actual", report, found.predicted, found.actual, i);
  }
  add_notes(found, has_tokens, embedding.has_value());
  return found;
}

grip_study find_grip(const arguments& a, const grip_arguments& choice) {
  return find_grip(
      a, choice,
      analyse_set(a, open_captures(a), {.geometry = false, .plasticity = false, .empirical = false, .heatmap = false},
                  "Reading"));
}

}  // namespace qkgeom::examples
