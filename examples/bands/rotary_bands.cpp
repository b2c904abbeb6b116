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
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

constexpr std::size_t n_bands = std::size(all_rotary_bands);
constexpr const char* part_names[] = {"drop", "often", "about_once", "hardly", "rest"};
constexpr const char* part_words[] = {"whole drop", "planes that turn often", "about once", "hardly", "rest"};

/// AP_drop of some heads, by part.
std::vector<head_estimate> drop_causes_of(const band_study& found, const std::vector<std::size_t>& heads) {
  const auto split = split_by_cause(found.with, column_number("ap_drop"), heads);
  return {split.all, split.cause[0], split.cause[1], split.cause[2], split.none};
}

std::vector<planes_of_head> planes_of_heads(const arguments& a, const capture_set& rotated, const model_report& report,
                                            const plane_options& options) {
  cpu_context cpu{{.threads = a.threads}};
  const auto before = before_rope(rotated);
  const auto& manifest = rotated.manifest();
  std::vector<planes_of_head> found;
  std::vector<head_planes> of_layer;
  std::optional<captured_layer> layer;
  std::optional<captured_rope> rope;
  progress bar("Scores by plane", static_cast<index_t>(report.heads.size()), "heads");
  for (const auto& h : report.heads) {
    if (!layer || layer->layer != h.layer) {
      layer = before.read_layer(h.layer);
      rope = manifest.rope_of(manifest.layer(h.layer));
      layer->visit([&]<class T>(const layer_view<T>& rows) {
        of_layer = planes_of(cpu, rows, rope, manifest.context_length, options);
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

void write_planes(const std::filesystem::path& path, const band_study& found) {
  std::vector<std::string> names{"layer", "q_head", "k_head",          "plane",          "frequency",
                                 "turns", "band",   "concentration_q", "concentration_k"};
  add_estimate_names(names, "score_variance_share");
  csv_writer csv(path, names);
  for (std::size_t h = 0; h < found.heads.size(); ++h) {
    const auto& head = found.whole.report.heads[h];
    const auto& planes = found.heads[h];
    const auto place = [&](auto plane) { csv.add(head.layer).add(head.q_head).add(head.k_head).add(plane); };
    for (std::size_t p = 0; p < planes.frequency.size(); ++p) {
      const double turns = turns_of(planes.frequency[p], found.whole.report.context_length);
      const auto& share = planes.planes.planes[p];
      place(p);
      csv.add(planes.frequency[p]).add(turns).add(name_of(band_of(turns)));
      csv.add(share.concentration_q).add(share.concentration_k);
      add_estimate(csv, share.variance);
      csv.end_row();
    }
    place("rest");
    csv.add(0.0).add(0.0).add("none").add(NAN).add(NAN);
    add_estimate(csv, planes.planes.rest);
    csv.end_row();
  }
  csv.commit();
}

void write_scores(const std::filesystem::path& path, const band_study& found) {
  std::vector<std::string> names{"layer", "q_head", "k_head", "rope", "start", "end", "pairs"};
  add_estimate_names(names, "observed_logits");
  names.push_back("predicted_logits");
  csv_writer csv(path, names);
  for (std::size_t h = 0; h < found.heads.size(); ++h) {
    const auto& head = found.whole.report.heads[h];
    const double scale = found.heads[h].score_scale;
    for (const auto& b : found.heads[h].planes.distances) {
      csv.add(head.layer).add(head.q_head).add(head.k_head).add(head.rope).add(b.start).add(b.end).add(b.pairs);
      add_estimate(csv, estimate{b.observed.value * scale, b.observed.error * scale, b.observed.freedom});
      csv.add(b.predicted * scale).end_row();
    }
  }
  csv.commit();
}

void write_drops(const std::filesystem::path& path, const band_study& found) {
  std::vector<std::string> names{"layer", "q_head", "k_head", "rope"};
  for (const char* name : part_names) add_estimate_names(names, name);
  csv_writer csv(path, names);
  for (std::size_t h = 0; h < found.heads.size(); ++h) {
    const auto& head = found.whole.report.heads[h];
    csv.add(head.layer).add(head.q_head).add(head.k_head).add(head.rope);
    for (const auto& e : drop_causes_of(found, {h})) add_estimate(csv, estimate{e.value, e.error, e.freedom});
    csv.end_row();
  }
  csv.commit();
}

void write_plane_profiles(const std::filesystem::path& path, const band_study& found) {
  csv_writer csv(path, {"layer", "q_head", "k_head", "plane", "start", "end", "plasticity", "standard_error",
                        "plasticity_turning"});
  for (const auto& s : found.still)
    for (std::size_t h = 0; h < found.heads.size(); ++h) {
      if (s.plane >= found.heads[h].frequency.size()) continue;
      const auto &head = s.report.heads[h], &rotating = found.whole.report.heads[h];
      for (std::size_t b = 0; b < head.profiles.at(0).buckets.size(); ++b) {
        const auto& bucket = head.profiles[0].buckets[b];
        csv.row(head.layer, head.q_head, head.k_head, s.plane, bucket.start, bucket.end, bucket.plasticity,
                bucket.standard_error, rotating.profiles[0].buckets[b].plasticity);
      }
    }
  csv.commit();
}

step_figure drop_figure(const band_study& found) {
  step_figure f;
  f.text = {"Which planes of the rotary embedding let plasticity fall",
            found.whole.report.model + ", " + grouped(found.whole.report.context_length) +
                " tokens; the parts add up to the drop; bars: 95 % intervals",
            "", "first fifth - last fifth"};
  f.joined = false;
  f.steps.assign(std::begin(part_words), std::end(part_words));
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

void write_bands(output_folder& out, const band_study& found) {
  write_notes(out, found.whole);
  write_planes(out.table("planes.csv"), found);
  write_scores(out.table("score_by_distance.csv"), found);
  write_drops(out.table("band_drops.csv"), found);
  if (!found.still.empty()) write_plane_profiles(out.table("plane_profiles.csv"), found);
  draw(drop_figure(found), out.figure("band_drops"));
  draw(share_figure_of(found), out.figure("plane_shares"));
  draw(score_figure(found), out.figure("mean_scores"));
}

void print_bands(printer& out, const band_study& found) {
  print_capture(out, found.whole);
  out.heading("AP_drop by planes of the rotary embedding, mean over heads ± standard error over documents (" +
              std::string(name_of(found.covariance)) + " query model)");
  std::vector<std::string> columns(std::begin(part_words), std::end(part_words));
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
