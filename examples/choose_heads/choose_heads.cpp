// SPDX-License-Identifier: MIT
// Chooses heads to change in the forward pass: heads at the ends of plasticity, AP_drop, bias or any column of a table,
// and random heads.
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "examples/common/cli.hpp"
#include "examples/common/each_layer.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom::examples {
namespace {

/// Rankings of choose_heads, by AP_overall, AP_drop and |bias_context|.
constexpr std::array<const char*, 4> ranking_names{"ap_low", "ap_high", "drop_high", "bias_high"};

/// ablate: the head's output is zeroed. clamp: its keys lose their drift along a, alpha_K (t - mean t) a. clamp_all:
/// its keys lose their whole slope on t.
enum class intervention { ablate, clamp, clamp_all };
constexpr std::array<const char*, 3> intervention_names{"ablate", "clamp", "clamp_all"};

/// Options of choose_heads.
struct choice_arguments {
  std::vector<std::string> rankings{ranking_names.begin(), ranking_names.end()};
  std::filesystem::path table{};       ///< rows of heads (layer, q_head)
  std::vector<std::string> columns{};  ///< of the table; each ranks by its largest numbers
  std::vector<std::string> interventions{intervention_names.begin(), intervention_names.end()};
  index_t count = 8;   ///< heads per set
  index_t random = 3;  ///< random sets per chosen set
};

/// A head that may be chosen.
struct candidate {
  head_id head;
  index_t k_head = 0;
  bool rope = true;
  double bias_context = 0;
  std::array<profile_summary, 3> plasticity;         ///< unchanged, clamp, clamp_all
  std::vector<double> clamp_slope, clamp_all_slope;  ///< (d), per token
  double centre = 0;                                 ///< mean position of the keys, tokens
  std::vector<double> of_table{};                    ///< (columns); NaN without a row
};

/// Heads chosen by one ranking, or random heads with equally many in each layer.
struct head_set {
  std::string ranking;
  index_t random = 0;               ///< 0: the chosen heads; else the number of the random set
  std::vector<std::size_t> member;  ///< indices of candidates
  /// "RANKING/chosen" or "RANKING/random-N".
  std::string name() const { return ranking + (random == 0 ? "/chosen" : "/random-" + std::to_string(random)); }
};

/// Keys (n, query heads, d) of a layer without the slope: a key head is copied for each of its query heads.
template <class T>
std::vector<float> clamped_keys(const layer_view<T>& rows, const std::vector<candidate>& heads, std::size_t first,
                                std::vector<double> candidate::*slope) {
  const index_t n = rows.k.rows, hq = rows.q.heads, d = rows.k.dim;
  std::vector<float> k(n * hq * d);
  for (index_t h = 0; h < hq; ++h) {
    const auto& c = heads[first + h];
    const auto key = rows.k.head(rows.key_of_query[h]);
    for (index_t r = 0; r < n; ++r)
      for (index_t i = 0; i < d; ++i)
        k[(r * hq + h) * d + i] =
            static_cast<float>(static_cast<double>(key(r, i)) - (c.*slope)[i] * (rows.k_position[r] - c.centre));
  }
  return k;
}

template <class T>
void add_layer(cpu_context& cpu, const captured_layer& layer, const layer_view<T>& rows, const layer_moments& moments,
               const analysis_options& options, index_t context_length, std::vector<candidate>& heads) {
  const auto planes = planar_rotation(cpu, moments, {.context_length = context_length});
  const auto models = fit_queries(cpu, moments, {options.covariances.at(0), options.position});
  const auto first = heads.size();
  const auto summaries = [&](const std::vector<plasticity_profile_result>& profiles, std::size_t which) {
    for (std::size_t h = 0; h < profiles.size(); ++h)
      heads[first + h].plasticity[which] = summarize(profiles[h], context_length);
  };
  for (std::size_t h = 0; h < planes.size(); ++h) {
    const auto& k = moments.k[moments.key_of_query[h]].total;
    candidate c;
    c.head = {layer.layer, layer.query_heads[h]};
    c.k_head = layer.key_heads[layer.key_of_query[h]];
    c.rope = layer.rope;
    c.bias_context = planes[h].bias.context;
    c.clamp_slope = dense::scaled(planes[h].drift_axis, planes[h].k.alpha);
    c.clamp_all_slope = dense::scaled(k.xt, k.tt > 0 ? 1 / k.tt : 0.0);
    c.centre = k.mean_t;
    heads.push_back(std::move(c));
  }
  const profile_options pairs{.precision = options.precision};
  summaries(plasticity_profile(cpu, models, rows, all_pairs{}, pairs), 0);
  std::vector<index_t> one_to_one(planes.size());
  std::iota(one_to_one.begin(), one_to_one.end(), index_t{0});
  std::size_t which = 1;
  for (auto slope : {&candidate::clamp_slope, &candidate::clamp_all_slope}) {
    const auto k = clamped_keys(rows, heads, first, slope);
    const layer_view<float> changed{.q = packed_tensor<const float>(k.data(), 0, rows.q.heads, rows.q.dim),
                                    .q_position = {},
                                    .q_document = {},
                                    .k = packed_tensor(k.data(), rows.k.rows, rows.q.heads, rows.k.dim),
                                    .k_position = rows.k_position,
                                    .k_document = rows.k_document,
                                    .key_of_query = one_to_one,
                                    .window = rows.window};
    summaries(plasticity_profile(cpu, models, changed, all_pairs{}, pairs), which++);
  }
}

/// Number of a layer's heads that may be chosen: a quarter, one of two or three, so that as many others are left.
index_t quota_of(index_t heads) { return heads < 2 ? 0 : std::max<index_t>(1, heads / 4); }

void require_enough(const choice_arguments& choice, index_t quota, index_t heads) {
  require(quota >= choice.count, "of ", heads, " heads at most ", quota,
          " can be chosen, a quarter of each layer's, none of a layer that has one");
}

/// Random heads outside `chosen`, equally many in each layer.
std::vector<std::size_t> matched(const std::vector<candidate>& heads, const std::vector<std::size_t>& chosen,
                                 const random_stream& stream) {
  std::vector<std::size_t> members;
  std::map<index_t, std::size_t> wanted;
  for (const std::size_t i : chosen) ++wanted[heads[i].head.layer];
  std::uint64_t draws = 0;
  for (const auto& [layer, count] : wanted) {
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < heads.size(); ++i)
      if (heads[i].head.layer == layer && std::find(chosen.begin(), chosen.end(), i) == chosen.end())
        others.push_back(i);
    for (std::size_t n = 0; n < count; ++n) {
      std::swap(others[n], others[n + stream.below(draws++, others.size() - n)]);
      members.push_back(others[n]);
    }
  }
  return members;
}

/// Reads the table's columns into the heads. Throws `error` if a head has several rows.
void add_columns(std::vector<candidate>& heads, const choice_arguments& choice) {
  const auto csv = read_csv(choice.table);
  std::map<head_id, std::size_t> row_of;
  const auto layers = csv.numbers("layer"), q_heads = csv.numbers("q_head");
  for (std::size_t i = 0; i < layers.size(); ++i)
    row_of.emplace(head_id{static_cast<index_t>(layers[i]), static_cast<index_t>(q_heads[i])}, i);
  require(row_of.size() == layers.size(), choice.table.string(), ": a head has several rows");
  for (const auto& name : choice.columns) {
    const auto values = csv.numbers(name);
    for (auto& c : heads) {
      const auto row = row_of.find(c.head);
      c.of_table.push_back(row == row_of.end() ? NAN : values[row->second]);
    }
  }
}

/// Reads every head of the capture under the first query model. Throws `error`, before it reads rows, if there are too
/// few heads for the choice.
std::vector<candidate> read_candidates(const arguments& a, const choice_arguments& choice) {
  cpu_context cpu{{.threads = a.threads}};
  const auto options = with_arguments({}, a);
  const auto source = capture_set::open(a.captures);
  require_attention(source, "conditions change those of the attention");
  index_t captured = 0, quota = 0;
  for (const auto& layer : source.manifest().layers) {
    const auto n = static_cast<index_t>(layer.query_heads.size());
    captured += n;
    quota += quota_of(n);
  }
  require_enough(choice, quota, captured);
  std::vector<candidate> heads;
  for_each_layer(cpu, source, a, options, "Looking at heads",
                 [&](const auto& layer, const auto& rows, const auto& moments) {
                   add_layer(cpu, layer, rows, moments, options, source.manifest().context_length, heads);
                 });
  if (!choice.table.empty()) add_columns(heads, choice);
  return heads;
}

/// Chooses the first `count` heads of each of `choice.rankings` and `choice.columns`, but at most a quarter of each
/// layer's, and draws `random` sets from the other heads, with equally many in each layer; the draws do not depend on
/// the rankings that are asked for. Throws `error` if there are too few heads.
std::vector<head_set> choose_heads(const std::vector<candidate>& heads, const choice_arguments& choice,
                                   std::uint64_t seed) {
  std::vector<std::function<double(const candidate&)>> values{
      [](const candidate& c) { return -c.plasticity[0].overall.value; },
      [](const candidate& c) { return c.plasticity[0].overall.value; },
      [](const candidate& c) { return c.plasticity[0].drop.value; },
      [](const candidate& c) { return std::abs(c.bias_context); }};
  std::vector<std::string> names(ranking_names.begin(), ranking_names.end());
  for (std::size_t i = 0; i < choice.columns.size(); ++i) {
    values.push_back([i](const candidate& c) { return c.of_table[i]; });
    names.push_back(choice.columns[i]);
  }
  std::map<index_t, index_t> quota;  // by layer
  for (const auto& c : heads) ++quota[c.head.layer];
  for (auto& [layer, n] : quota) n = quota_of(n);
  std::vector<head_set> sets;
  for (std::size_t r = 0; r < names.size(); ++r) {
    const std::string& name = names[r];
    const auto& value = values[r];
    if (r < ranking_names.size() &&
        std::find(choice.rankings.begin(), choice.rankings.end(), name) == choice.rankings.end())
      continue;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < heads.size(); ++i)
      if (!std::isnan(value(heads[i]))) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t x, std::size_t y) { return value(heads[x]) > value(heads[y]); });
    std::vector<std::size_t> chosen;
    std::map<index_t, index_t> taken;
    for (const std::size_t i : order)
      if (static_cast<index_t>(chosen.size()) < choice.count &&
          taken[heads[i].head.layer] < quota[heads[i].head.layer]) {
        chosen.push_back(i);
        ++taken[heads[i].head.layer];
      }
    require(!order.empty(), "no head has a number to be ranked by, ", name,
            r < ranking_names.size()
                ? ": its query buckets have no pairs of earlier keys; --bucket-size makes narrower ones"
                : "");
    require_enough(choice, static_cast<index_t>(chosen.size()), static_cast<index_t>(order.size()));
    sets.push_back({name, 0, chosen});
    for (index_t n = 1; n <= choice.random; ++n)
      sets.push_back({name, n,
                      matched(heads, chosen,
                              {seed, static_cast<std::uint32_t>(r * (choice.random + 1) + n),
                               static_cast<std::uint32_t>(n), draw::head})});
  }
  return sets;
}

/// Writes conditions.json for qkgeom evaluate, with a condition SET/INTERVENTION for each pair, and chosen_heads.csv.
void write_choice(output_folder& out, const std::vector<candidate>& heads, const std::vector<head_set>& sets,
                  const std::vector<std::string>& interventions) {
  auto conditions = nlohmann::json::array();
  for (const auto& s : sets)
    for (std::size_t what = 0; what < intervention_names.size(); ++what) {
      if (std::find(interventions.begin(), interventions.end(), intervention_names[what]) == interventions.end())
        continue;
      auto changes = nlohmann::json::array();
      for (const std::size_t i : s.member) {
        const auto& c = heads[i];
        nlohmann::json change{{"head", std::to_string(c.head.layer) + "." + std::to_string(c.head.head)}};
        if (what == 0) {
          change["ablate"] = true;
        } else {
          change["key_slope"] = what == 1 ? c.clamp_slope : c.clamp_all_slope;
          change["centre"] = c.centre;
        }
        changes.push_back(std::move(change));
      }
      conditions.push_back({{"name", s.name() + "/" + intervention_names[what]}, {"changes", std::move(changes)}});
    }
  write_text(out.table("conditions.json"), nlohmann::json{{"conditions", std::move(conditions)}}.dump(1) + "\n");

  struct row {
    const head_set* set;
    const candidate* head;
  };
  table_columns<row> c;
  c.of(&row::set)
      .add("ranking",
           "`ap_low`, `ap_high`: by AP over the context; `drop_high`: by AP_drop; `bias_high`: by abs(bias); else a "
           "column of --table",
           &head_set::ranking)
      .add("random", "0: the chosen heads; else the number of the random set", &head_set::random);
  c.of(&row::head)
      .add("layer", "number of the layer", [](auto& h) { return h.head.layer; })
      .add("q_head", "number of the query head", [](auto& h) { return h.head.head; })
      .add("k_head", "number of the query head's key head", &candidate::k_head)
      .add("rope", "1 in layers with rotary embedding, else 0", &candidate::rope)
      .add("bias_context", "bias strength times the context length", &candidate::bias_context);
  constexpr std::pair<const char*, const char*> states[] = {{"", "as the head is"},
                                                            {"_clamp", "with keys that lack their drift along a"},
                                                            {"_clamp_all", "with keys that lack all of their slope"}};
  for (std::size_t p = 0; p < std::size(states); ++p) {
    const auto [name, state] = states[p];
    c.add(std::string("ap_overall") + name, std::string("AP over the context ") + state,
          [p](auto& r) { return r.head->plasticity[p].overall; });
    c.add(std::string("ap_drop") + name, std::string("AP_drop ") + state,
          [p](auto& r) { return r.head->plasticity[p].drop; });
  }
  out.write("chosen_heads.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& s : sets)
      for (const std::size_t i : s.member) f(row{&s, &heads[i]});
  }));
}

void print_choice(printer& out, const std::vector<candidate>& heads, const std::vector<head_set>& sets) {
  out.heading("Chosen heads, and what clamping their keys does to their plasticity (queries as they were)");
  table t({""}, {"heads", "AP", "drop", "clamped: AP", "drop", "all slope: AP", "drop"}, {"which"});
  for (const auto& s : sets) {
    if (s.random > 0) continue;
    std::array<double, 6> mean{};
    std::string which;
    for (const std::size_t i : s.member) {
      for (std::size_t p = 0; p < 3; ++p) {
        mean[2 * p] += heads[i].plasticity[p].overall.value / static_cast<double>(s.member.size());
        mean[2 * p + 1] += heads[i].plasticity[p].drop.value / static_cast<double>(s.member.size());
      }
      which +=
          (which.empty() ? "" : " ") + std::to_string(heads[i].head.layer) + "." + std::to_string(heads[i].head.head);
    }
    std::vector<std::string> cells{s.ranking, std::to_string(s.member.size())};
    for (const double x : mean) cells.push_back(fixed(x, 3));
    cells.push_back(which);
    t.row(cells);
  }
  out.print(t);
}

}  // namespace
}  // namespace qkgeom::examples

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"joint"};
  choice_arguments choice;
  command_line app{"Chooses heads for qkgeom evaluate: conditions.json, chosen_heads.csv"};
  add_arguments(app, a);
  add_query_model_arguments(app, a);
  add_seed_argument(app, a);
  app.add_option("--rankings", choice.rankings, "By what heads are chosen")
      .list()
      .one_of({ranking_names.begin(), ranking_names.end()})
      .shows_default();
  auto table =
      app.add_option("--table", choice.table, "CSV file with a row per head (layer, q_head), e.g. grip_heads.csv");
  auto columns =
      app.add_option("--columns", choice.columns, "Columns of --table; each ranks heads by its largest numbers").list();
  table.needs(columns);
  columns.needs(table);
  app.add_option("--interventions", choice.interventions, "What is done to the chosen heads")
      .list()
      .one_of({intervention_names.begin(), intervention_names.end()})
      .shows_default();
  app.add_option("--count", choice.count, "Heads in a set").in_range(1, 100000).shows_default();
  app.add_option("--random", choice.random, "Random sets beside each chosen one, with as many heads in each layer")
      .in_range(0, 1000)
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    const auto heads = read_candidates(a, choice);
    const auto sets = choose_heads(heads, choice, a.seed);
    output_folder folder(a.out, a.figures);
    write_choice(folder, heads, sets, choice.interventions);
    printer out;
    print_notes(out, notes_on_captures(a));
    print_choice(out, heads, sets);
    folder.print(out);
  });
}
