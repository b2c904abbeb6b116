// SPDX-License-Identifier: MIT
#include "examples/bands/rotary_bands.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "examples/common/figures/head_cells.hpp"
#include "examples/common/numbers/comparison.hpp"
#include "examples/grip/grip_study.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom::examples {
namespace {

bool holds(const std::vector<double>& frequencies, double f) {
  return std::find(frequencies.begin(), frequencies.end(), f) != frequencies.end();
}

/// Lists the sets; `all`: the frequencies of the model's planes, ascending. Random sets differ from one another and
/// from the set that they stand beside.
std::vector<plane_set> list_sets(const std::vector<double>& all, index_t context, const band_arguments& choice,
                                 std::uint64_t seed) {
  std::vector<plane_set> sets;
  std::uint32_t rankings = 0;
  const auto add = [&](const std::string& ranking, const std::vector<double>& still, index_t random) {
    if (still.empty()) return;
    sets.push_back({ranking + "/chosen/still", still, {}});
    const random_stream stream{seed, rankings, 0, draw::plane};
    std::set<std::vector<double>> seen{still};  // no set is drawn twice
    std::uint64_t draws = 0;
    for (index_t n = 1, tries = 0; n <= random && tries < 100 * random; ++tries) {
      auto drawn = all;
      for (std::size_t k = 0; k < still.size(); ++k)
        std::swap(drawn[k], drawn[k + stream.below(draws++, drawn.size() - k)]);
      drawn.resize(still.size());
      std::sort(drawn.begin(), drawn.end());
      if (seen.insert(drawn).second) sets.push_back({ranking + "/random-" + std::to_string(n++) + "/still", drawn, {}});
    }
    ++rankings;
  };
  for (const auto band : all_rotary_bands) {
    std::vector<double> still;
    std::copy_if(all.begin(), all.end(), std::back_inserter(still),
                 [&](double f) { return band_of(turns_of(f, context)) == band; });
    add(name_of(band), still, choice.random);
  }
  for (std::size_t n = 1; n < all.size(); n *= 2)
    add("slowest-" + std::to_string(n), {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)}, choice.random);
  if (choice.each_plane)
    for (std::size_t p = 0; p < all.size(); ++p) add("plane " + std::to_string(p), {all[all.size() - 1 - p]}, 0);
  return sets;
}

/// Returns the mean of a number over some heads, with all documents and without each.
group_number mean_of(const std::vector<head_grip>& grip, const std::vector<std::size_t>& heads,
                     const std::function<std::pair<double, const std::vector<double>*>(const head_grip&)>& of) {
  head_values v;
  for (const auto& h : grip) {
    const auto [value, without] = of(h);
    v.value.push_back(value);
    v.without.resize(without->size());
    for (std::size_t d = 0; d < without->size(); ++d)
      v.without[d].push_back(std::isnan((*without)[d]) ? value : (*without)[d]);
  }
  return number_over(v, heads, head_statistic::mean);
}

}  // namespace

std::vector<plane_set> find_plane_sets(const arguments& a, const band_arguments& choice, const band_study& found) {
  const auto source = open_captures(a);
  const index_t context = found.whole.source->manifest().context_length;
  require_attention(source, "conditions change those of the attention");
  std::set<double> frequencies;
  std::vector<std::size_t> rope_heads;
  for (std::size_t h = 0; h < found.heads.size(); ++h) {
    const auto& f = found.heads[h].frequency;
    if (!f.empty()) rope_heads.push_back(h);
    frequencies.insert(f.begin(), f.end());
  }
  frequencies.erase(0);  // planes that never turn
  for (const auto& l : source.manifest().layers) {
    const auto rope = source.manifest().rope_of(l);
    require(!rope || !rope->by_length, source.captures()[0].path().string(), ": layer ", l.layer,
            ": the rotary embedding depends on the documents' lengths; --conditions changes one that does not");
  }
  require(!rope_heads.empty(), source.captures()[0].path().string(), ": no head has a rotary embedding");
  auto options = with_arguments({.empirical = false, .heatmap = false}, a);
  // `report` analyses the captures at the context, under the same rotation.
  const auto numbers_of = [&](const model_report& report, const std::function<bool(double)>& rotating) {
    const auto point = point_of(report, "");
    const auto as_captured = std::make_shared<const capture_set>(what_if(source, {.rotating = rotating}));
    const auto grip = find_grip(a, {.context = context}, {as_captured, found.whole.report}).predicted;
    const auto top_8 = [&](needle_kind kind) {
      return mean_of(grip, rope_heads, [&](const head_grip& h) {
        const auto& g = h.at(kind, context, 8);
        return std::pair{g.value.value, &g.without};
      });
    };
    return std::vector{number_over(point.column("ap_drop"), rope_heads, head_statistic::mean),
                       top_8(needle_kind::winner), top_8(needle_kind::matched),
                       mean_of(grip, rope_heads, [](const head_grip& h) {
                         return std::pair{h.reach.value, &h.reach_without};
                       })};
  };
  auto sets = list_sets({frequencies.begin(), frequencies.end()}, context, choice, a.seed);
  const auto as_it_is = numbers_of(found.whole.report, {});
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto rotating = [&still = sets[i].still](double f) { return !holds(still, f); };
    const rotary_change change{
        .context_length = context, .rotating = rotating, .keep_first = choice.keep_first, .seed = a.seed};
    const auto numbers =
        numbers_of(analyse_set(a, what_if(source, change), options,
                               "Planes " + std::to_string(i + 1) + " of " + std::to_string(sets.size()))
                       .report,
                   rotating);
    for (std::size_t n = 0; n < numbers.size(); ++n)
      sets[i].change.push_back(difference_of(numbers[n], as_it_is[n], true));
  }
  return sets;
}

void write_plane_sets(output_folder& out, const band_study& found, const std::vector<plane_set>& sets) {
  table_columns<plane_set> c;
  c.add("condition",
        "name of the condition: RANKING/chosen/still, or RANKING/random-N/still with as many random planes",
        &plane_set::name);
  c.add("planes", "number of planes held still", [](auto& s) { return s.still.size(); });
  const auto turns = [&](double f) { return turns_of(f, found.whole.report.context_length); };
  c.add("least_turns", "turns of the slowest of them within the context",
        [=](auto& s) { return turns(*std::min_element(s.still.begin(), s.still.end())); });
  c.add("most_turns", "turns of the fastest of them",
        [=](auto& s) { return turns(*std::max_element(s.still.begin(), s.still.end())); });
  for (std::size_t n = 0; n < std::size(plane_set_numbers); ++n)
    c.add(plane_set_numbers[n].first,
          std::string("predicted change, mean over RoPE heads: ") + plane_set_numbers[n].second, [n](auto& s) {
            return estimate{s.change[n].value, s.change[n].error, s.change[n].freedom};
          });
  out.write("plane_sets.csv", std::move(c).with_rows(sets));
  auto conditions = nlohmann::json::array();
  for (const auto& s : sets) {
    auto changes = nlohmann::json::array();
    for (std::size_t h = 0; h < found.heads.size(); ++h) {
      const auto& f = found.heads[h].frequency;
      auto planes = nlohmann::json::array();
      for (std::size_t p = 0; p < f.size(); ++p)
        if (holds(s.still, f[p])) planes.push_back(p);
      if (!planes.empty())
        changes.push_back({{"head", short_name(found.whole.report.heads[h])}, {"rope", {{"still", planes}}}});
    }
    conditions.push_back({{"name", s.name}, {"changes", std::move(changes)}});
  }
  write_text(out.table("conditions.json"), nlohmann::json{{"conditions", std::move(conditions)}}.dump() + "\n");
}

}  // namespace qkgeom::examples
