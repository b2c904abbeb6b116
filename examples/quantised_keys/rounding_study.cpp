// SPDX-License-Identifier: MIT
#include "examples/quantised_keys/rounding_study.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "examples/common/figures/figure.hpp"
#include "examples/common/labels.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/sampling/head_draw.hpp"
#include "qkgeom/stats/association.hpp"

namespace qkgeom::examples {
namespace {

/// Mean AP of the query heads that read a key head; a document is left out of all of them at once.
estimate plasticity_of(const model_report& report, index_t layer, index_t k_head) {
  std::vector<profile_means> means;
  for (const auto& h : report.heads)
    if (h.layer == layer && h.k_head == k_head) means.emplace_back(h.profiles.at(0));
  if (means.empty()) return {};
  const auto range = summary_ranges(report.context_length)[0];
  return means[0].jackknife(range, [&](index_t left_out) {
    double sum = 0;
    for (const auto& m : means) sum += m.mean(range[0], left_out) / static_cast<double>(means.size());
    return sum;
  });
}

std::vector<rounded_head> rounded_heads(const arguments& a, const rounding_arguments& choice,
                                        const rounding_study& found) {
  cpu_context cpu{{.threads = a.threads}};
  const auto& source = *found.whole.source;
  const auto& manifest = source.manifest();
  const rounding_options options{.max_queries = choice.max_queries,
                                 .seed = a.seed,
                                 .score_scale = manifest.score_scale.value_or(0),
                                 .score_cap = manifest.score_softcap};
  std::vector<rounded_head> heads;
  progress bar("Rounding keys", manifest.query_heads(), "heads");
  for (const index_t number : source.layers()) {
    const auto layer = source.read_layer(number);
    layer.visit([&]<class T>(const layer_view<T>& rows) {
      auto effects =
          rounding_effects(cpu, rows, found.types, found.whole.report.buckets, manifest.context_length, options);
      for (std::size_t k = 0; k < effects.size(); ++k)
        heads.push_back({number, layer.key_heads[k], layer.rope,
                         plasticity_of(found.whole.report, number, layer.key_heads[k]), std::move(effects[k])});
    });
    bar.add(static_cast<index_t>(layer.query_heads.size()));
  }
  bar.done();
  return heads;
}

std::vector<cache_type> dealt(std::vector<cache_type> types, const random_stream& stream) {
  for (std::size_t i = 0; i + 1 < types.size(); ++i) std::swap(types[i], types[i + stream.below(i, types.size() - i)]);
  return types;
}

using part = double (*)(const rounding_sums&);
struct measure {
  const char *name, *meaning;
  estimate rounding_effect::*of;
  part above, below;
};
double queries_of(const rounding_sums& s) { return s.queries; }
constexpr measure measures[] = {
    {"flipped", "share of pairs of keys that a query orders differently once they are rounded",
     &rounding_effect::flipped, [](const rounding_sums& s) { return s.flipped; }, queries_of},
    {"weighted", "share of flipped pairs, a pair weighing p_i p_j of the query's softmax", &rounding_effect::weighted,
     [](const rounding_sums& s) { return s.weighted; }, [](const rounding_sums& s) { return s.weight; }},
    {"mass", "probability that two keys drawn by the softmax change their order", &rounding_effect::mass,
     [](const rounding_sums& s) { return 2 * s.weighted; }, queries_of},
    {"moved", "softmax weight that goes to other keys", &rounding_effect::moved,
     [](const rounding_sums& s) { return s.moved; }, queries_of}};

/// Mean over key heads of a measure under a type; errors leave a document out of all heads at once.
estimate mean_over_heads(const rounding_study& found, std::size_t type, const measure& m) {
  std::vector<std::int32_t> documents;
  for (const auto& h : found.heads)
    for (const auto& d : h.effects[type].documents) documents.push_back(d.document);
  std::sort(documents.begin(), documents.end());
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  std::vector<std::pair<double, double>> all(found.heads.size());  // of each head's documents
  for (std::size_t h = 0; h < all.size(); ++h)
    for (const rounding_sums& d : found.heads[h].effects[type].documents)
      all[h].first += m.above(d), all[h].second += m.below(d);
  const auto mean = [&](std::int32_t left_out) {
    double sum = 0, n = 0;
    for (std::size_t h = 0; h < all.size(); ++h) {
      auto [above, below] = all[h];
      const auto& list = found.heads[h].effects[type].documents;
      const auto own =
          std::lower_bound(list.begin(), list.end(), left_out,
                           [](const rounding_sums& d, std::int32_t number) { return d.document < number; });
      if (own != list.end() && own->document == left_out) above -= m.above(*own), below -= m.below(*own);
      if (!(below > 0)) continue;
      sum += above / below;
      ++n;
    }
    return sum / n;
  };
  std::vector<double> without;
  for (const std::int32_t d : documents) without.push_back(mean(d));
  return jackknife(mean(-1), without);
}

/// Adds the columns that name the key head `head(row)`.
template <class Row, class Head>
auto add_head(table_columns<Row>& c, Head head) {
  return c.of(head)
      .add("layer", "number of the layer", &rounded_head::layer)
      .add("k_head", "number of the key head", &rounded_head::k_head);
}

void write_effects(output_folder& out, const rounding_study& found) {
  struct row {
    const rounded_head* head;
    const rounding_effect* effect;
  };
  table_columns<row> c;
  add_head(c, &row::head).add("rope", "1 in layers with rotary embedding, else 0", &rounded_head::rope);
  c.of(&row::effect)
      .add("type", "type of the cache, as llama.cpp names it", [](auto& e) { return name_of(e.type); })
      .add("bits", "bits per key value, scales included", [](auto& e) { return bits_of(e.type); });
  c.of(&row::head).add("ap_overall", "mean AP of the query heads that read the key head", &rounded_head::plasticity);
  for (const auto& m : measures) c.of(&row::effect).add(m.name, m.meaning, m.of);
  out.write("rounded_keys.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& h : found.heads)
      for (const auto& e : h.effects) f(row{&h, &e});
  }));
}

void write_flips_by_distance(output_folder& out, const rounding_study& found) {
  struct row {
    const rounded_head* head;
    cache_type type;
    const flips_by_distance* bin;
  };
  table_columns<row> c;
  add_head(c, &row::head);
  c.add("type", "type of the cache, as llama.cpp names it", [](auto& r) { return name_of(r.type); });
  c.of(&row::bin)
      .add("start", "least distance between the two keys, tokens", &flips_by_distance::start)
      .add("end", "end of the distances, excluded, tokens", &flips_by_distance::end)
      .add("pairs", "number of pairs of two keys under a query", &flips_by_distance::pairs)
      .add(measures[0].name, measures[0].meaning, &flips_by_distance::flipped)
      .add(measures[1].name, measures[1].meaning, &flips_by_distance::weighted);
  out.write("rounded_keys_distance.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& h : found.heads)
      for (const auto& e : h.effects)
        for (const auto& b : e.distances) f(row{&h, e.type, &b});
  }));
}

void write_tables(output_folder& out, const rounding_study& found) {
  struct row {
    const budget_tables* tables;
    std::size_t i;
    const rounded_head* head;
    cache_type chosen() const { return tables->chosen.type[i]; }
  };
  table_columns<row> c;
  c.of(&row::tables).add("budget", "budget of the table, mean bits per key value", &budget_tables::budget);
  add_head(c, &row::head);
  c.add("type", "type chosen for the key head", [](auto& r) { return name_of(r.chosen()); });
  c.add("bits", "bits per key value of the type", [](auto& r) { return bits_of(r.chosen()); });
  c.add("mass", measures[2].meaning, [&](auto& r) {
    const auto t = std::find(found.types.begin(), found.types.end(), r.chosen()) - found.types.begin();
    return r.head->effects[static_cast<std::size_t>(t)].mass.value;
  });
  c.add("shuffled_type", "type of the table whose types are dealt to key heads at random",
        [](auto& r) { return name_of(r.tables->shuffled[r.i]); });
  out.write("bit_tables.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& b : found.budgets)
      for (std::size_t i = 0; i < found.heads.size(); ++i) f(row{&b, i, &found.heads[i]});
  }));
}

void write_conditions(output_folder& out, const rounding_study& found) {
  const auto& model = found.whole.source->manifest().model;
  auto conditions = nlohmann::json::array();
  const auto condition = [&](const std::string& name, const auto& type_of) {
    auto changes = nlohmann::json::array();
    for (std::size_t i = 0; i < found.heads.size(); ++i)
      for (index_t q = 0; q < model.n_query_heads; ++q)
        if (key_head_of(q, model.n_query_heads, model.n_key_heads) == found.heads[i].k_head)
          changes.push_back({{"head", std::to_string(found.heads[i].layer) + "." + std::to_string(q)},
                             {"keys_as", name_of(type_of(i))}});
    conditions.push_back({{"name", name}, {"changes", std::move(changes)}});
  };
  for (const cache_type t : found.types)
    condition("uniform-" + std::string(name_of(t)), [&](std::size_t) { return t; });
  for (const auto& b : found.budgets) {
    condition("table-" + qkgeom::number_text(b.budget), [&](std::size_t i) { return b.chosen.type[i]; });
    condition("shuffled-" + qkgeom::number_text(b.budget), [&](std::size_t i) { return b.shuffled[i]; });
  }
  write_text(out.table("conditions.json"), nlohmann::json{{"conditions", std::move(conditions)}}.dump(1) + "\n");
}

scatter_figure figure_of(const rounding_study& found) {
  constexpr colour colours[] = {palette::blue,   palette::vermilion, palette::green,
                                palette::purple, palette::orange,    palette::sky};
  scatter_figure f;
  f.square = false;
  f.text = {"Keys that a cache rounds change their order", found.whole.report.model + ": a point per key head and type",
            "plasticity (AP over the context)", "share of pairs that are flipped"};
  for (std::size_t t = 0; t < found.types.size(); ++t) {
    scatter_figure::series s{std::string(name_of(found.types[t])), colours[t % 6], marker::circle, {}, {}};
    for (const auto& h : found.heads) s.add(h.plasticity.value, h.effects[t].flipped.value);
    f.points.push_back(std::move(s));
  }
  return f;
}

/// Spearman's rho over key heads; NaN if fewer than three have both numbers.
double rank_correlation(std::vector<double> x, std::vector<double> y) {
  std::vector<double> a, b;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i])) {
      a.push_back(x[i]);
      b.push_back(y[i]);
    }
  if (a.size() < 3) return NAN;
  std::vector<std::size_t> order(a.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return ordered_association(association::spearman, a, b)(order);
}

void print_types(printer& out, const rounding_study& found) {
  out.line();
  out.heading("Rounded keys: mean over " + std::to_string(found.heads.size()) +
              " key heads ± standard error over documents; range over heads of the flipped share");
  table t({"type"}, {"bits", "pairs flipped", "smallest", "largest", "weighted by p p", "mass of flipped",
                     "weight moved", "rank corr. with AP"});
  for (std::size_t i = 0; i < found.types.size(); ++i) {
    std::vector<double> flipped, plasticity;
    for (const auto& h : found.heads) {
      flipped.push_back(h.effects[i].flipped.value);
      plasticity.push_back(h.plasticity.value);
    }
    std::vector<std::string> cells{std::string(name_of(found.types[i])), fixed(bits_of(found.types[i]), 1)};
    for (const auto& m : measures) {
      const auto e = mean_over_heads(found, i, m);
      cells.push_back(with_error({.value = e.value, .error = e.error, .freedom = e.freedom}));
      if (&m != measures) continue;
      cells.push_back(fixed(*std::min_element(flipped.begin(), flipped.end()), 3));
      cells.push_back(fixed(*std::max_element(flipped.begin(), flipped.end()), 3));
    }
    cells.push_back(signed_fixed(rank_correlation(plasticity, flipped), 2));
    t.row(cells);
  }
  out.print(t);
}

void print_budgets(printer& out, const rounding_study& found) {
  if (found.budgets.empty()) return;
  out.line();
  out.heading("Types by key head that flip the least mass within a budget of bits per key value");
  std::vector<std::string> columns{"bits used", "mass of flipped"};
  for (const cache_type t : found.types) columns.emplace_back(name_of(t));
  columns.emplace_back("uniform, as many bits");
  table t({"budget"}, columns);
  const auto heads = static_cast<double>(found.heads.size());
  for (const auto& b : found.budgets) {
    std::vector<std::string> cells{number_text(b.budget), fixed(b.chosen.bits, 2), fixed(b.chosen.cost / heads, 4)};
    std::string uniform = "-";
    for (std::size_t i = 0; i < found.types.size(); ++i) {
      cells.push_back(std::to_string(std::count(b.chosen.type.begin(), b.chosen.type.end(), found.types[i])));
      if (bits_of(found.types[i]) == b.budget && uniform == "-")
        uniform = std::string(name_of(found.types[i])) + ": " + fixed(mean_over_heads(found, i, measures[2]).value, 4);
    }
    cells.push_back(uniform);
    t.row(cells);
  }
  out.print(t);
  out.line(
      "  The table is chosen on these documents, so its own mass is a little too good; qkgeom evaluate --conditions");
  out.line("  conditions.json on other documents, then qkgeom cache-losses, say what it does to the loss.");
}

}  // namespace

bit_table cheapest_table(const std::vector<cache_type>& types, const std::vector<std::vector<double>>& cost,
                         double budget) {
  require(!types.empty() && !cost.empty(), "a table of bits needs a key head and a type");
  std::vector<std::size_t> halves;
  for (const cache_type t : types) halves.push_back(static_cast<std::size_t>(2 * bits_of(t)));
  const std::size_t least = *std::min_element(halves.begin(), halves.end());
  require(2 * budget >= static_cast<double>(least), "a budget of ", budget, " bits is below the ",
          0.5 * static_cast<double>(least), " of the smallest type");
  const std::size_t heads = cost.size();
  const std::size_t most = heads * *std::max_element(halves.begin(), halves.end());
  const auto all = std::min(most, static_cast<std::size_t>(2 * budget * static_cast<double>(heads) + 1e-9));
  // best[h][c]: cost of the first h heads with c half bits in all; choice: the type of head h - 1 there.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(heads + 1, std::vector<double>(all + 1, never));
  std::vector<std::vector<std::size_t>> choice(heads, std::vector<std::size_t>(all + 1));
  best[0][0] = 0;
  for (std::size_t h = 0; h < heads; ++h) {
    require(cost[h].size() == types.size(), "key head ", h, " has ", cost[h].size(), " costs for ", types.size(),
            " types");
    for (std::size_t t = 0; t < types.size(); ++t) {
      require(std::isfinite(cost[h][t]), "the cost of ", name_of(types[t]), " for key head ", h, " is no number");
      for (std::size_t c = halves[t]; c <= all; ++c)
        if (const double sum = best[h][c - halves[t]] + cost[h][t]; sum < best[h + 1][c]) {
          best[h + 1][c] = sum;
          choice[h][c] = t;
        }
    }
  }
  const auto& last = best[heads];
  auto at = static_cast<std::size_t>(std::min_element(last.begin(), last.end()) - last.begin());
  bit_table found{std::vector<cache_type>(heads), 0.5 * static_cast<double>(at) / static_cast<double>(heads), last[at]};
  for (std::size_t h = heads; h-- > 0;) {
    const std::size_t t = choice[h][at];
    found.type[h] = types[t];
    at -= halves[t];
  }
  return found;
}

rounding_study find_rounding(const arguments& a, const rounding_arguments& choice) {
  rounding_study found;
  for (const auto& name : choice.types) {
    const cache_type t = parse_cache_type(name);
    require(std::find(found.types.begin(), found.types.end(), t) == found.types.end(), "--types names ", name,
            " twice");
    found.types.push_back(t);
  }
  auto source = open_captures(a);
  const auto& manifest = source.manifest();
  require_attention(source, "a cache's types and conditions are for those of the attention");
  require(manifest.rope_stage == "post", a.captures.at(0).string(),
          " holds keys from before the rotary embedding, but a cache stores them after it; capture without --pre-rope");
  for (const cache_type t : found.types) require_blocks(t, manifest.model.head_dim);
  analysis_options options{.empirical = false, .heatmap = false};
  found.whole = analyse_set(a, std::move(source), with_arguments(options, a), "Plasticity");
  found.heads = rounded_heads(a, choice, found);
  std::vector<std::vector<double>> mass;
  for (const auto& h : found.heads) {
    mass.emplace_back();
    for (const auto& e : h.effects) {
      require(std::isfinite(e.mass.value), "key head ", h.layer, ".", h.k_head,
              ": no query has two captured keys of its document before it; a higher --rate captures more");
      mass.back().push_back(e.mass.value);
    }
  }
  for (std::size_t i = 0; i < choice.budgets.size(); ++i) {
    auto chosen = cheapest_table(found.types, mass, choice.budgets[i]);
    auto shuffled = dealt(chosen.type, {a.seed, static_cast<std::uint32_t>(i), 0, draw::head});
    found.budgets.push_back({choice.budgets[i], std::move(chosen), std::move(shuffled)});
  }
  return found;
}

void write_rounding(output_folder& out, const rounding_study& found) {
  write_notes(out, found.whole);
  write_effects(out, found);
  write_flips_by_distance(out, found);
  write_tables(out, found);
  write_conditions(out, found);
  draw(figure_of(found), out.figure("rounded_keys"));
}

void print_rounding(printer& out, const rounding_study& found) {
  print_capture(out, found.whole);
  print_types(out, found);
  print_budgets(out, found);
}

}  // namespace qkgeom::examples
