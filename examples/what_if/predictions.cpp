// SPDX-License-Identifier: MIT
#include "examples/what_if/predictions.hpp"

#include <cmath>

#include "examples/common/figures/head_cells.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

/// Shortest first part of a capture, tokens, that is taken to predict the whole: what documents begin with is a kind of
/// its own, and says little about errors further on.
constexpr index_t shortest_part = 256;

/// `options` with query buckets that keep their share of a context `factor` times as long.
analysis_options stretched(analysis_options options, index_t from, index_t to) {
  if (options.bucket_size > 0) options.bucket_size = (options.bucket_size * to + from - 1) / from;
  return options;
}

std::vector<head_stationarity> steadiness(const capture_set& source, const model_report& report, index_t keep_first) {
  const auto before = before_rope(source);
  std::vector<head_stationarity> found;
  progress bar("Stationarity", static_cast<index_t>(report.heads.size()), "heads");
  std::optional<captured_layer> layer;
  for (const auto& h : report.heads) {
    if (!layer || layer->layer != h.layer) layer = before.read_layer(h.layer);
    layer->visit([&]<class T>(const layer_view<T>& rows) {
      const auto q = std::find(layer->query_heads.begin(), layer->query_heads.end(), h.q_head);
      const auto head = rows.head(q - layer->query_heads.begin());
      found.push_back({stationarity_of(head.q, head.q_position, head.q_document, keep_first),
                       stationarity_of(head.k, head.k_position, head.k_document, keep_first)});
    });
    bar.add(1);
  }
  bar.done();
  return found;
}

std::vector<std::string> warnings_on(const prediction& p, const capture_manifest& manifest) {
  std::vector<std::string> list;
  const auto doubtful =
      std::count_if(p.steady.begin(), p.steady.end(), [](const head_stationarity& s) { return s.is_doubtful(); });
  if (doubtful > 0)
    list.push_back("before the rotation, rows of " + std::to_string(doubtful) + " of " +
                   std::to_string(p.steady.size()) +
                   " heads depend on position (stationarity.csv): what is predicted of these is doubtful");
  const auto nope = std::count_if(p.captured.report.heads.begin(), p.captured.report.heads.end(),
                                  [](const head_report& h) { return !h.rope; });
  if (nope > 0)
    list.push_back(counted(static_cast<std::size_t>(nope), "head") +
                   " without rotary embedding: nothing turns there, so the prediction is that nothing changes but "
                   "which keys are near");
  if (p.factor > 1)
    for (const auto& l : manifest.layers)
      if (l.window) {
        list.push_back("layers with a sliding window keep it: stretched, it holds fewer of the captured keys");
        break;
      }
  if (const auto& rope = p.predicted.source->manifest().rope; rope && rope->by_length) {
    std::size_t longer = 0, more = 0;
    for (const auto& [e, tokens] : p.captured.source->tokens()) longer += tokens.now > rope->by_length->context;
    for (const auto& [e, tokens] : p.predicted.source->tokens()) more += tokens.now > rope->by_length->context;
    if (more > longer)
      list.push_back("documents of more than " + grouped(rope->by_length->context) +
                     " tokens have other rotary frequencies: " + counted(more, "document") + " in this context, " +
                     std::to_string(longer) + " as captured");
  }
  if (p.other_embedding) list.push_back(note_on_other_embedding);
  if (p.factor > 8)
    list.push_back("a context " + fixed(p.factor, 0) +
                   " times as long is beyond the factors that the capture itself can check (2, 4, 8); intervals are "
                   "carried on");
  return list;
}

/// One number over the heads that have it, actual and predicted.
struct check_row {
  std::size_t heads = 0;
  double actual = 0, miss = 0, rms = 0, correlation = 0;
  double predicted() const { return actual + miss; }
};

check_row row_of(const model_report& truth, const std::vector<carried_values>& misses, std::size_t number) {
  std::vector<double> actual, predicted;
  check_row row;
  for (std::size_t h = 0; h < misses.size(); ++h) {
    const double miss = misses[h][number];
    if (std::isnan(miss)) continue;
    actual.push_back(carried_numbers[number].of(truth.heads[h]).value);
    predicted.push_back(actual.back() + miss);
    row.actual += actual.back();
    row.miss += miss;
    row.rms += miss * miss;
  }
  row.heads = actual.size();
  const auto n = static_cast<double>(row.heads);
  row.actual /= n;
  row.miss /= n;
  row.rms = std::sqrt(row.rms / n);
  row.correlation = associate(association::pearson, actual, predicted);
  return row;
}

double share_of(const std::vector<bool>& same) {
  return static_cast<double>(std::count(same.begin(), same.end(), true)) / static_cast<double>(same.size());
}

/// How the prediction compares with a capture of the context itself.
struct actual_row {
  std::size_t number;
  check_row predicted, captured;  ///< of the prediction, and of the short capture as it is
  double inside = 0;              ///< share of heads whose actual value lies in the interval
};

actual_row actual_row_of(const prediction& p, std::size_t number) {
  const auto& check = p.against_actual;
  actual_row row{number, row_of(p.actual->report, check.miss[0], number),
                 row_of(p.actual->report, check.miss[1], number)};
  for (std::size_t h = 0; h < p.numbers.size(); ++h)
    row.inside += std::abs(check.miss[0][h][number]) <= half_width(p.numbers[h][number], interval_miss);
  row.inside /= static_cast<double>(row.predicted.heads);
  return row;
}

qkgeom::table actual_table(const prediction& p) {
  table_columns<actual_row> c;
  c.add("number", "name of the number", [](auto& r) { return carried_numbers[r.number].name; });
  const auto predicted = c.of(&actual_row::predicted), captured = c.of(&actual_row::captured);
  predicted.add("heads", "number of heads that have a value", &check_row::heads);
  captured.add("captured", "mean over heads of the short capture as it is", &check_row::predicted);
  predicted.add("predicted", "mean over heads of the predicted value", &check_row::predicted);
  predicted.add("actual", "mean over heads of the actual value", &check_row::actual);
  predicted.add("miss_rms", "root mean square over heads of predicted less actual", &check_row::rms);
  predicted.add("correlation", "correlation of actual and predicted over heads", &check_row::correlation);
  captured.add("correlation_captured", "correlation of actual and captured over heads", &check_row::correlation);
  c.add("in_interval", "share of heads whose actual value lies in the interval, meant to hold nine tenths",
        &actual_row::inside);
  const auto same_class = [&](const char* name, const char* meaning, std::size_t i) {
    c.add(name, meaning, [&p, i](auto&) { return share_of(p.against_actual.same_class[i]); });
  };
  same_class("same_class", "share of heads whose actual class is the predicted one", 0);
  same_class("same_class_captured", "share of heads whose actual class is the captured one", 1);
  return std::move(c).with_rows([&p](const auto& f) {
    for (std::size_t i = 0; i < carried_numbers.size(); ++i) f(actual_row_of(p, i));
  });
}

/// Means over heads by query bucket of both reports, over the share of the context.
line_figure profiles(const prediction& p) {
  line_figure f;
  f.text = {
      "Plasticity along the context, captured and predicted",
      p.captured.report.model + ": " + grouped(p.captured.report.context_length) + " tokens captured; means over heads",
      "query position (tokens, K = 1024)", "plasticity"};
  set_positions(f, p.predicted.report.buckets, p.predicted.report.context_length);
  const auto add = [&](const model_report& report, const std::string& name, colour line, bool dashed) {
    line_figure::group g{name, line, {}, {}, {}, dashed};
    for (std::size_t b = 0; b < f.x.size(); ++b) {
      double sum = 0, n = 0;
      for (const auto& h : report.heads) {
        if (h.profiles.empty()) continue;
        // Both reports have the same number of buckets, so b is the same share of either context.
        const auto& buckets = h.profiles[0].buckets;
        if (b >= buckets.size() || std::isnan(buckets[b].plasticity)) continue;
        sum += buckets[b].plasticity;
        ++n;
      }
      g.mean.push_back(n > 0 ? sum / n : NAN);
    }
    f.groups.push_back(std::move(g));
  };
  add(p.captured.report, "captured, at the same share of its context", palette::grey, true);
  add(p.predicted.report, "predicted", palette::vermilion, false);
  if (p.actual) add(p.actual->report, "actual", palette::black, false);
  return f;
}

/// AP_drop of each head as predicted, against the captured or, where it is known, the actual one.
scatter_figure heads_figure(const prediction& p) {
  const auto& other = p.actual ? p.actual->report : p.captured.report;
  scatter_figure f;
  f.square = false;
  f.text = {
      p.actual ? "The fall of plasticity of each head, predicted and actual" : "What the change does to each head",
      p.captured.report.model + ": " + grouped(p.captured.report.context_length) + " tokens captured, " +
          grouped(p.predicted.report.context_length) + " predicted",
      p.actual ? "AP_drop as predicted" : "AP_drop as captured", p.actual ? "AP_drop, actual" : "AP_drop as predicted"};
  scatter_figure::series rope{"RoPE heads", rope_colour, marker::circle, {}, {}},
      nope{"NoPE heads", nope_colour, marker::triangle, {}, {}};
  for (std::size_t h = 0; h < p.numbers.size(); ++h) {
    auto& s = other.heads[h].rope ? rope : nope;
    const double predicted = p.numbers[h][3].value, was = carried_numbers[3].of(other.heads[h]).value;
    s.add(p.actual ? predicted : was, p.actual ? was : predicted);
  }
  for (auto* s : {&rope, &nope})
    if (!s->x.empty()) f.points.push_back(std::move(*s));
  return f;
}

void print_actual(printer& out, const prediction& p) {
  out.heading("Held against a capture of the context itself, head by head");
  table t({"number"}, {"captured", "predicted", "actual", "correlation", "... unpredicted", "in the interval"});
  for (std::size_t i = 0; i < carried_numbers.size(); ++i) {
    const auto row = actual_row_of(p, i);
    if (row.predicted.heads == 0) continue;
    t.row({std::string(carried_numbers[i].name), fixed(row.captured.actual + row.captured.miss, 3),
           fixed(row.predicted.actual + row.predicted.miss, 3), fixed(row.predicted.actual, 3),
           fixed(row.predicted.correlation, 3), fixed(row.captured.correlation, 3), percent(row.inside)});
  }
  out.print(t);
  out.line("  Same class as predicted: " + percent(share_of(p.against_actual.same_class[0])) +
           " of heads; as captured: " + percent(share_of(p.against_actual.same_class[1])));
}

}  // namespace

prediction predict(const arguments& a, const analysis_options& options, const what_if_arguments& choice) {
  const auto source = open_captures(a);
  const auto& manifest = source.manifest();
  const index_t from = manifest.context_length, to = wanted_context(manifest, choice.context);
  require(options.bucket_edges.empty(),
          "qkgeom what-if scales the query buckets: give --bucket-size, not --bucket-edges");
  const rotary_change as_it_is{.keep_first = choice.keep_first, .seed = a.seed};
  auto change = as_it_is;
  change.context_length = to;
  change.rope = wanted_rope(manifest, choice.embedding, to);
  prediction p;
  p.factor = static_cast<double>(to) / static_cast<double>(from);
  p.other_embedding = change.rope.has_value();
  p.captured = analyse_set(a, what_if(source, as_it_is), options, "As captured");
  p.predicted = analyse_set(a, what_if(source, change), stretched(options, from, to), "Predicting");
  if (!choice.actual.empty()) {
    auto b = a;
    b.captures = choice.actual;
    b.documents.clear();
    b.max_position = 0;
    p.actual = analyse_set(b, what_if(open_captures(b), as_it_is), stretched(options, from, to), "Actual");
    require(p.actual->report.context_length == to, "--actual has a context of ", p.actual->report.context_length,
            " tokens, not ", to);
    p.against_actual = check_predictions(p.actual->report, {{2, p.predicted.report}, {2, p.captured.report}});
  }
  std::vector<short_prediction> shorter;
  for (const index_t factor : {2, 4, 8}) {
    if (from / factor < shortest_part) break;
    auto stretch = as_it_is;
    stretch.context_length = from;
    // Query buckets are those of the whole context.
    auto same = options;
    same.bucket_size = options.bucket_size > 0 ? options.bucket_size : manifest.usual_bucket_size();
    shorter.push_back(
        {static_cast<double>(factor), analyse_set(a, what_if(source.before((from + factor - 1) / factor), stretch),
                                                  same, "Check, from 1/" + std::to_string(factor))
                                          .report});
  }
  p.check = check_predictions(p.captured.report, shorter);
  p.steady = steadiness(source, p.captured.report, choice.keep_first);
  p.numbers = extrapolate(p.predicted.report, p.check, p.error_factor());
  p.warnings = warnings_on(p, manifest);
  return p;
}

qkgeom::table what_if_table(const prediction& p) {
  struct row {
    const head_report *was, *is;
    std::size_t h;
  };
  auto c = head_columns<4, row>(&row::was);
  const auto head_class = [](auto& h) { return name_of(h.pca.head_class); };
  c.of(&row::was).add("head_class_captured", "class in the capture, as in heads.csv", head_class);
  c.of(&row::is).add("head_class", "predicted class", head_class);
  for (std::size_t i = 0; i < carried_numbers.size(); ++i) {
    const auto& n = carried_numbers[i];
    const std::string name(n.name);
    const auto bound = [&p, i](int side) {
      return [&p, i, side](const row& r) {
        return p.numbers[r.h][i].value + side * half_width(p.numbers[r.h][i], interval_miss);
      };
    };
    c.of(&row::was).add(name + "_captured", name + " of heads.csv, of the capture as it is",
                        [n](auto& h) { return n.of(h).value; });
    c.add(name, name + ", predicted", [&p, i](auto& r) { return p.numbers[r.h][i]; });
    c.add(name + "_low", "lower end of the interval of nine in ten of " + name, bound(-1));
    c.add(name + "_high", "upper end of the interval of nine in ten of " + name, bound(1));
  }
  c.add("doubtful", "1: rows before the rotation depend on position (stationarity.csv)",
        [&p](auto& r) { return p.steady[r.h].is_doubtful(); });
  return std::move(c).with_rows([&p](const auto& f) {
    for (std::size_t h = 0; h < p.numbers.size(); ++h)
      f(row{&p.captured.report.heads[h], &p.predicted.report.heads[h], h});
  });
}

qkgeom::table self_check_table(const prediction& p) {
  struct row {
    std::size_t factor, number;
    check_row of;
  };
  table_columns<row> c;
  c.add("factor", "length of the context over that of the part", [&p](auto& r) { return p.check.factors[r.factor]; });
  c.add("number", "name of the number", [](auto& r) { return carried_numbers[r.number].name; });
  c.of(&row::of)
      .add("heads", "number of heads that have a value", &check_row::heads)
      .add("actual", "mean over heads of the actual value", &check_row::actual)
      .add("predicted", "mean over heads of the predicted value", &check_row::predicted)
      .add("miss", "mean over heads of predicted less actual", &check_row::miss)
      .add("miss_rms", "root mean square over heads of predicted less actual", &check_row::rms)
      .add("correlation", "correlation of actual and predicted over heads", &check_row::correlation);
  c.add("same_class", "share of all heads whose predicted class is the actual one",
        [&p](auto& r) { return share_of(p.check.same_class[r.factor]); });
  return std::move(c).with_rows([&p](const auto& f) {
    for (std::size_t k = 0; k < p.check.factors.size(); ++k)
      for (std::size_t i = 0; i < carried_numbers.size(); ++i)
        f(row{k, i, row_of(p.captured.report, p.check.miss[k], i)});
  });
}

qkgeom::table stationarity_table(const prediction& p) {
  struct row {
    const head_report* head;
    const head_stationarity* of;
  };
  auto c = head_columns<4, row>(&row::head);
  const std::string shift = "share of variance by a step of the mean between halves of documents, ",
                    spread = "log of the second half's variance over the first's, ";
  c.of(&row::of)
      .add("q_shift", shift + "queries", [](auto& s) { return s.q.shift; })
      .add("q_spread", spread + "queries", [](auto& s) { return s.q.spread; })
      .add("k_shift", shift + "keys", [](auto& s) { return s.k.shift; })
      .add("k_spread", spread + "keys", [](auto& s) { return s.k.spread; })
      .add("doubtful", "1: a shift exceeds 0.02 or a spread 0.2 in size, by two standard errors or more",
           &head_stationarity::is_doubtful);
  return std::move(c).with_rows([&p](const auto& f) {
    for (std::size_t h = 0; h < p.steady.size(); ++h) f(row{&p.captured.report.heads[h], &p.steady[h]});
  });
}

void write_prediction(output_folder& out, const prediction& p, const analysis_options& options) {
  write_notes(out, p.captured);
  out.write("what_if.csv", what_if_table(p));
  out.write("self_check.csv", self_check_table(p));
  if (p.actual) out.write("actual.csv", actual_table(p));
  out.write("stationarity.csv", stationarity_table(p));
  draw(profiles(p), out.figure("what_if_profile"));
  draw(heads_figure(p), out.figure("what_if_heads"));
  for (const auto& [name, found] : {std::pair{"captured", &p.captured}, std::pair{"predicted", &p.predicted}}) {
    std::filesystem::create_directories(out.path() / name);
    output_folder folder(out.path() / name, out.draws());
    write_analysis(folder, *found, options.pca.thresholds, {});
  }
}

void print_prediction(printer& out, const prediction& p) {
  print_capture(out, p.captured);
  for (const auto& w : p.warnings) out.line("  note: " + w);
  const std::string length = grouped(p.predicted.report.context_length) + " tokens";
  out.heading("What if: " + length + (p.other_embedding ? " under the other rotary embedding" : "") +
              ", means over heads and 90 % interval");
  table t({"heads", "number"}, {"heads", "captured", "predicted", "±"});
  for (const auto& g : head_groups(p.captured.report.heads)) {
    const auto means = extrapolate_mean(p.predicted.report, p.check, p.error_factor(), g.heads);
    for (std::size_t i = 0; i < carried_numbers.size(); ++i) {
      double was = 0, n = 0;
      for (const std::size_t h : g.heads)
        if (const double x = carried_numbers[i].of(p.captured.report.heads[h]).value; !std::isnan(x)) {
          was += x;
          ++n;
        }
      if (n == 0) continue;
      const double half = half_width(means[i], interval_miss);
      t.row({words_for_heads(g.name), std::string(carried_numbers[i].name), fixed(n, 0), fixed(was / n, 3),
             fixed(means[i].value, 3), std::isfinite(half) ? fixed(half, 3) : "-"});
    }
  }
  out.print(t);
  const auto changed = std::count_if(p.numbers.begin(), p.numbers.end(), [&, h = std::size_t{0}](const auto&) mutable {
    const bool other = p.captured.report.heads[h].pca.head_class != p.predicted.report.heads[h].pca.head_class;
    ++h;
    return other;
  });
  out.line("  " + counted(static_cast<std::size_t>(changed), "head") + " of " + std::to_string(p.numbers.size()) +
           " would be of another class");
  if (p.actual) print_actual(out, p);
  if (p.check.factors.empty()) return out.line("  The capture is too short to check itself: there are no intervals");
  out.heading("How well the capture predicts itself: its " + grouped(p.captured.report.context_length) +
              " tokens from its first part, head by head");
  table c({"from the first", "number"}, {"actual", "predicted", "rms miss", "correlation", "same class"});
  for (std::size_t f = 0; f < p.check.factors.size(); ++f)
    for (std::size_t i = 0; i < carried_numbers.size(); ++i) {
      const auto row = row_of(p.captured.report, p.check.miss[f], i);
      if (row.heads == 0) continue;
      c.row({"1/" + fixed(p.check.factors[f], 0), std::string(carried_numbers[i].name), fixed(row.actual, 3),
             fixed(row.actual + row.miss, 3), fixed(row.rms, 3), fixed(row.correlation, 3),
             i == 0 ? percent(share_of(p.check.same_class[f])) : ""});
    }
  out.print(c);
}

}  // namespace qkgeom::examples
