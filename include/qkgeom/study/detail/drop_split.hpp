// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <map>

#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/stats/shapley.hpp"
#include "qkgeom/study/detail/frozen_causes.hpp"
#include "qkgeom/study/drop_split.hpp"

namespace qkgeom {

namespace detail {

/// Shapley values over the four causes from the drops with each set of them frozen, as (drop, causes, rest).
inline std::array<double, drop_causes + 2> shapley_split(const std::array<double, 1 << drop_causes>& drop_with) {
  const std::vector<double> with_moving(drop_with.rbegin(), drop_with.rend());  // what is not frozen moves
  const auto causes = shapley_values(with_moving);
  std::array<double, drop_causes + 2> x{drop_with.front()};
  std::copy(causes.begin(), causes.end(), x.begin() + 1);
  x.back() = drop_with.back();
  return x;
}

/// The split of one head from its sixteen profiles, by set of frozen causes.
inline drop_split split_of(const std::vector<plasticity_profile_result>& profiles, index_t context_length) {
  std::vector<profile_means> means;
  for (const auto& p : profiles) means.emplace_back(p);
  const auto values = [&](index_t left_out) {
    std::array<double, 1 << drop_causes> drops{};
    for (std::size_t s = 0; s < profiles.size(); ++s) drops[s] = means[s].summary(context_length, left_out)[3];
    return drops;
  };
  drop_split r;
  r.drop_with = values(-1);
  const auto whole = shapley_split(r.drop_with);
  for (std::size_t e = 0; e < profiles[0].documents.size(); ++e)
    if (means[0].has_pairs(e, summary_ranges(context_length)[3])) {
      r.documents.push_back(profiles[0].documents[e]);
      r.without.push_back(shapley_split(values(static_cast<index_t>(e))));
    }
  const auto set = [&](estimate& to, std::size_t i) {
    std::vector<double> without;
    for (const auto& x : r.without) without.push_back(x[i]);
    to = std::isnan(whole[i]) ? estimate{} : jackknife(whole[i], without);
  };
  set(r.drop, 0);
  for (std::size_t p = 0; p < drop_causes; ++p) set(r.cause[p], 1 + p);
  set(r.rest, drop_causes + 1);
  return r;
}

}  // namespace detail

template <context Context, class T>
std::vector<drop_split> split_drop(Context& ctx, const std::vector<query_model>& models, const layer_view<T>& layer,
                                   index_t context_length, const drop_split_options& options) {
  require(!options.rotation || 2 * static_cast<index_t>(options.rotation->inv_freq.size()) <= layer.k.dim,
          "split_drop: rotation.inv_freq turns more coordinates than keys have, ", layer.k.dim);
  const profile_options pairs{.precision = options.precision};
  std::vector<std::vector<plasticity_profile_result>> profiles(models.size());  // by set of frozen causes
  const auto add = [&](std::vector<plasticity_profile_result>&& found) {
    for (std::size_t h = 0; h < found.size(); ++h) profiles[h].push_back(std::move(found[h]));
  };
  prepared_layer as_captured(ctx, layer);
  add(plasticity_profile(ctx, models, as_captured, all_pairs{}, pairs));
  std::vector<detail::frozen_query> frozen;
  for (std::size_t h = 0; h < models.size(); ++h)
    frozen.push_back(detail::frozen_over(models[h], profiles[h][0], 0.2 * static_cast<double>(context_length)));
  detail::factor_covariances(ctx, frozen);
  const auto with = [&](unsigned set) {
    auto changed = models;
    for (std::size_t h = 0; h < models.size(); ++h) detail::freeze(changed[h], frozen[h], set);
    return changed;
  };
  constexpr unsigned of_query = 1u << static_cast<unsigned>(drop_cause::keys);
  for (unsigned set = 1; set < of_query; ++set)
    add(plasticity_profile(ctx, with(set), as_captured, all_pairs{}, pairs));
  if (options.rotation) {
    const detail::turned_back_keys<T> turned_back(layer, *options.rotation);
    prepared_layer keys(ctx, turned_back.layer());
    for (unsigned set = 0; set < of_query; ++set) {
      auto changed = with(set);
      for (auto& m : changed) m = detail::at_bucket_start(m, *options.rotation);
      add(plasticity_profile(ctx, changed, keys, all_pairs{}, pairs));
    }
  } else {
    const index_t cell = options.distance_cell > 0 ? options.distance_cell : std::max<index_t>(1, context_length / 128);
    const auto weight = detail::distance_weights(ctx, models, frozen, layer, cell);
    for (unsigned set = 0; set < of_query; ++set) add(plasticity_profile(ctx, with(set), as_captured, weight, pairs));
  }
  std::vector<drop_split> splits;
  for (const auto& p : profiles) splits.push_back(detail::split_of(p, context_length));
  return splits;
}

inline estimate mean_over_heads(const std::vector<const drop_split*>& heads, index_t value) {
  const auto whole = [&](const drop_split& s) {
    return value == 0 ? s.drop.value : value <= drop_causes ? s.cause[value - 1].value : s.rest.value;
  };
  std::map<std::int32_t, double> shift;  // by document: sum over heads of (without it - with it)
  double sum = 0, n = 0;
  for (const auto* s : heads) {
    if (std::isnan(s->drop.value)) continue;
    sum += whole(*s);
    ++n;
    for (std::size_t e = 0; e < s->documents.size(); ++e) shift[s->documents[e]] += s->without[e][value] - whole(*s);
  }
  if (!(n > 0)) return {};
  std::vector<double> without;
  for (const auto& [document, by] : shift) without.push_back((sum + by) / n);
  return jackknife(sum / n, without);
}

}  // namespace qkgeom
