// SPDX-License-Identifier: MIT
#include "examples/bands/rotary_bands.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "examples/common/figures/head_cells.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

constexpr std::size_t n_bands = std::size(all_rotary_bands);
/// AP_drop and its parts: column, its meaning, and words in figures.
constexpr struct {
  const char *name, *meaning, *words;
} parts[] = {{"drop", "AP_drop under the first query model", "whole drop"},
             {"often", "contribution of the planes that turn 4 times or more", "planes that turn often"},
             {"about_once", "contribution of the planes that turn about once", "about once"},
             {"hardly", "contribution of the planes that turn less than a quarter", "hardly"},
             {"rest", "AP_drop with no plane turning: without the rotation", "rest"}};

/// AP_drop of some heads, by part.
std::vector<head_estimate> drop_causes_of(const band_study& found, const std::vector<std::size_t>& heads) {
  const auto split = split_by_cause(found.with, column_number("ap_drop"), heads);
  return {split.all, split.cause[0], split.cause[1], split.cause[2], split.none};
}

std::vector<planes_of_head> planes_of_heads(const arguments& a, const capture_set& rotated, const model_report& report,
                                            const plane_options& options) {
  cpu_context cpu{{.threads = a.threads}};
  cpu.pool().watch(a.watch);
  const auto before = before_rope(rotated);
  const auto& manifest = rotated.manifest();
  const auto tokens = rotated.tokens();
  std::vector<planes_of_head> found;
  std::vector<head_planes> of_layer;
  std::optional<captured_layer> layer;
  std::optional<captured_rope> rope;
  progress bar("Scores by plane", static_cast<index_t>(report.heads.size()), "heads");
  for (const auto& h : report.heads) {
    if (!layer || layer->layer != h.layer) {
      layer = before.read_layer(h.layer);
      rope = manifest.rope_of(manifest.layer(h.layer));
      auto own = options;
      if (rope && rope->by_length)
        own.frequencies = [&](std::int32_t e) {
          const auto at = tokens.find(e);
          return rope->at_length(at == tokens.end() ? manifest.context_length : at->second.rotated).inv_freq;
        };
      layer->visit([&]<class T>(const layer_view<T>& rows) {
        of_layer = planes_of(cpu, rows, rope, manifest.context_length, own);
      });
    }
    const auto q = std::find(layer->query_heads.begin(), layer->query_heads.end(), h.q_head);
    found.push_back({rope ? rope->inv_freq : std::vector<double>{}, h.rotation.score_scale,
                     of_layer[static_cast<std::size_t>(q - layer->query_heads.begin())]});
    bar.add(1);
  }
  bar.done();
  return found;
}

void write_plane_profiles(output_folder& out, const band_study& found) {
  struct row {
    const head_report* head;
    std::size_t plane;
    const profile_bucket *still, *turning;
  };
  auto c = head_columns<3, row>(&row::head);
  c.add("plane", "number of the plane that is held still, fastest first", &row::plane);
  add_stretch(c, "query bucket", &row::still);
  c.of(&row::still)
      .add("plasticity", "mean over the bucket's pairs with the plane still", &profile_bucket::plasticity)
      .add("standard_error", "standard error of plasticity over documents", &profile_bucket::standard_error);
  c.of(&row::turning).add("plasticity_turning", "mean with every plane turning", &profile_bucket::plasticity);
  out.write("plane_profiles.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& s : found.still)
      for (std::size_t h = 0; h < found.heads.size(); ++h) {
        if (s.plane >= found.heads[h].frequency.size()) continue;
        const auto& still = s.report.heads[h].profiles.at(0).buckets;
        for (std::size_t b = 0; b < still.size(); ++b)
          f(row{&s.report.heads[h], s.plane, &still[b], &found.whole.report.heads[h].profiles[0].buckets[b]});
      }
  }));
}

step_figure drop_figure(const band_study& found) {
  step_figure f;
  f.text = {"Which planes of the rotary embedding let plasticity fall",
            found.whole.report.model + ", " + grouped(found.whole.report.context_length) +
                " tokens; the parts add up to the drop; bars: 95 % intervals",
            "", "first fifth - last fifth"};
  f.joined = false;
  for (const auto& p : parts) f.steps.emplace_back(p.words);
  constexpr colour colours[] = {palette::black, rope_colour, nope_colour};
  std::size_t g = 0;
  for (const auto& group : head_groups(found.whole.report.heads)) {
    step_figure::series s{words_for_heads(group), colours[g++], {}, {}};
    for (const auto& e : drop_causes_of(found, group.heads)) s.add(e.value, half_width(e));
    f.lines.push_back(std::move(s));
  }
  return f;
}

/// Means over RoPE heads, by the turns of their planes.
step_figure share_figure_of(const band_study& found) {
  step_figure f;
  f.text = {"What each plane contributes, by its turns within the context",
            found.whole.report.model + ", mean over RoPE heads", "turns within the context", "share, concentration"};
  std::map<double, std::array<double, 4>> by_turns;  // count, variance share, concentrations of queries and keys
  for (const auto& h : found.heads)
    for (std::size_t p = 0; p < h.frequency.size(); ++p) {
      auto& sum = by_turns[-turns_of(h.frequency[p], found.whole.report.context_length)];
      const auto& s = h.planes.planes[p];
      const double values[] = {1, s.variance.value, s.concentration_q, s.concentration_k};
      for (std::size_t i = 0; i < 4; ++i) sum[i] += std::isnan(values[i]) ? 0 : values[i];
    }
  f.lines = {{"share of the variance of scores", palette::black, {}, {}},
             {"concentration of queries", palette::blue, {}, {}},
             {"concentration of keys", palette::orange, {}, {}}};
  const std::size_t labelled = 1 + by_turns.size() / 16;  // only so many labels have room
  for (const auto& [turns, sum] : by_turns) {
    f.steps.push_back(f.steps.size() % labelled == 0 ? significant(-turns, 2) : "");
    for (std::size_t i = 0; i < 3; ++i) f.lines[i].y.push_back(sum[i + 1] / sum[0]);
  }
  return f;
}

/// Observed against predicted mean scores, a point per head and distance.
scatter_figure score_figure(const band_study& found) {
  scatter_figure f;
  f.square = false;
  f.text = {"Mean scores by distance follow from the mean query and key",
            found.whole.report.model + ": a point per head and distance", "predicted, logits", "observed, logits"};
  scatter_figure::series rope{"RoPE heads", rope_colour, marker::circle, {}, {}},
      nope{"NoPE heads", nope_colour, marker::triangle, {}, {}};
  for (std::size_t h = 0; h < found.heads.size(); ++h)
    for (const auto& b : found.heads[h].planes.distances) {
      auto& s = found.whole.report.heads[h].rope ? rope : nope;
      s.add(b.predicted * found.heads[h].score_scale, b.observed.value * found.heads[h].score_scale);
    }
  for (auto* s : {&rope, &nope})
    if (!s->x.empty()) f.points.push_back(std::move(*s));
  return f;
}

}  // namespace

band_study find_bands(const arguments& a, const band_arguments& choice) {
  const auto source = open_captures(a);
  const index_t to = wanted_context(source.manifest(), choice.context);
  for (const auto& l : source.manifest().layers)
    require(!l.norm || !l.norm->weighs(), source.captures()[0].path().string(), ": layer ", l.layer,
            " norms queries and keys by weights of channels after the rotation, so that scores are "
            "no sum over its planes");
  analysis_options options{.empirical = false, .heatmap = false};
  options = with_arguments(options, a);
  const auto changed = [&](std::function<bool(double)> rotating) {
    return what_if(
        source,
        {.context_length = to, .rotating = std::move(rotating), .keep_first = choice.keep_first, .seed = a.seed});
  };
  band_study found;
  found.covariance = options.covariances.at(0);
  for (std::size_t set = 0; set < std::size_t{1} << n_bands; ++set) {
    const auto turns = [&, set](double frequency) {
      return (set >> static_cast<std::size_t>(band_of(turns_of(frequency, to))) & 1) != 0;
    };
    const bool every = set + 1 == std::size_t{1} << n_bands;
    auto one = analyse_set(a, every ? changed({}) : changed(turns), options,
                           "Bands " + std::to_string(set + 1) + " of " + std::to_string(1 << n_bands));
    found.with.push_back(point_of(one.report, std::to_string(set)));
    if (every) found.whole = std::move(one);
  }
  auto scores = choice.scores;
  scores.seed = a.seed;
  found.heads = planes_of_heads(a, *found.whole.source, found.whole.report, scores);
  std::size_t planes = 0;
  if (choice.each_plane)
    for (const auto& h : found.heads) planes = std::max(planes, h.frequency.size());
  for (std::size_t p = 0; p < planes; ++p) {
    // Layers may have embeddings of their own: the plane is held still in each.
    std::vector<double> still;
    for (const auto& h : found.heads)
      if (p < h.frequency.size()) still.push_back(h.frequency[p]);
    const auto turns = [still](double f) { return std::find(still.begin(), still.end(), f) == still.end(); };
    found.still.push_back({p, analyse_set(a, changed(turns), options, "Plane " + std::to_string(p)).report});
  }
  return found;
}

qkgeom::table planes_table(const band_study& found) {
  struct plane {
    const head_report* head;
    std::string number;
    double frequency, turns;
    const char* band;
    plane_share share;
  };
  auto c = head_columns<3, plane>(&plane::head);
  c.add("plane", "number of the plane, fastest first; `rest`: the coordinates that nothing turns", &plane::number);
  c.add("frequency", "radians per token", &plane::frequency).add("turns", "turns within the context", &plane::turns);
  c.add("band", "`often` (4 turns or more), `about_once`, `hardly` (below a quarter), `none`", &plane::band);
  const char* const meaning = "length of the mean over mean length before the rotation, 0 to 1: ";
  c.of(&plane::share)
      .add("concentration_q", meaning + std::string("queries"), &plane_share::concentration_q)
      .add("concentration_k", meaning + std::string("keys"), &plane_share::concentration_k)
      .add("score_variance_share", "covariance of the plane's score with the score over the score's variance",
           &plane_share::variance);
  return std::move(c).with_rows([&found](const auto& f) {
    for (std::size_t h = 0; h < found.heads.size(); ++h) {
      const auto* head = &found.whole.report.heads[h];
      const auto& planes = found.heads[h];
      for (std::size_t p = 0; p < planes.frequency.size(); ++p) {
        const double turns = turns_of(planes.frequency[p], found.whole.report.context_length);
        f(plane{head, std::to_string(p), planes.frequency[p], turns, name_of(band_of(turns)), planes.planes.planes[p]});
      }
      f(plane{head, "rest", 0, 0, "none", {NAN, NAN, planes.planes.rest}});
    }
  });
}

qkgeom::table scores_table(const band_study& found) {
  struct row {
    const head_report* head;
    double scale;
    const distance_scores* bin;
  };
  auto c = head_columns<4, row>(&row::head);
  c.of(&row::bin)
      .add("start", "least distance, tokens", &distance_scores::start)
      .add("end", "end of the distances, excluded, tokens", &distance_scores::end)
      .add("pairs", "number of pairs drawn at these distances", &distance_scores::pairs);
  c.add("observed_logits", "mean score, logits", [](auto& r) {
    const auto& e = r.bin->observed;
    return estimate{e.value * r.scale, e.error * r.scale, e.freedom};
  });
  c.add("predicted_logits", "score of the mean query and the mean key, turned by the same pairs' distances, logits",
        [](auto& r) { return r.bin->predicted * r.scale; });
  return std::move(c).with_rows([&found](const auto& f) {
    for (std::size_t h = 0; h < found.heads.size(); ++h)
      for (const auto& b : found.heads[h].planes.distances)
        f(row{&found.whole.report.heads[h], found.heads[h].score_scale, &b});
  });
}

qkgeom::table drops_table(const band_study& found) {
  struct row {
    const head_report* head;
    decltype(drop_causes_of(found, {})) causes;
  };
  auto c = head_columns<4, row>(&row::head);
  for (std::size_t p = 0; p < std::size(parts); ++p)
    c.add(parts[p].name, parts[p].meaning, [p](auto& r) { return estimate{r.causes[p].value, r.causes[p].error}; });
  return std::move(c).with_rows([&found](const auto& f) {
    for (std::size_t h = 0; h < found.heads.size(); ++h)
      f(row{&found.whole.report.heads[h], drop_causes_of(found, {h})});
  });
}

void write_bands(output_folder& out, const band_study& found) {
  write_notes(out, found.whole);
  out.write("planes.csv", planes_table(found));
  out.write("score_by_distance.csv", scores_table(found));
  out.write("band_drops.csv", drops_table(found));
  if (!found.still.empty()) write_plane_profiles(out, found);
  draw(drop_figure(found), out.figure("band_drops"));
  draw(share_figure_of(found), out.figure("plane_shares"));
  draw(score_figure(found), out.figure("mean_scores"));
}

void print_bands(printer& out, const band_study& found) {
  print_capture(out, found.whole);
  out.heading("AP_drop by planes of the rotary embedding, mean over heads ± standard error over documents (" +
              std::string(name_of(found.covariance)) + " query model)");
  std::vector<std::string> columns;
  for (const auto& p : parts) columns.emplace_back(p.words);
  table t({"heads"}, columns);
  for (const auto& g : head_groups(found.whole.report.heads)) {
    std::vector<std::string> cells{words_for_heads(g)};
    for (const auto& e : drop_causes_of(found, g.heads)) cells.push_back(with_error(e, true));
    t.row(cells);
  }
  out.print(t);
  std::array<double, n_bands> share{};
  double rest = 0, heads = 0;
  for (const auto& h : found.heads) {
    if (h.frequency.empty()) continue;
    for (std::size_t p = 0; p < h.frequency.size(); ++p)
      share[static_cast<std::size_t>(band_of(turns_of(h.frequency[p], found.whole.report.context_length)))] +=
          h.planes.planes[p].variance.value;
    rest += h.planes.rest.value;
    ++heads;
  }
  if (heads > 0)
    out.line("  Share of the variance of scores in RoPE heads: planes that turn often (4 times and more) " +
             percent(share[0] / heads) + ", about once " + percent(share[1] / heads) + ", hardly (below a quarter) " +
             percent(share[2] / heads) + ", coordinates that nothing turns " + percent(rest / heads));
}

}  // namespace qkgeom::examples
