// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <map>
#include <string_view>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/report/summary.hpp"
#include "qkgeom/study/detail/frozen_causes.hpp"

namespace qkgeom {

/// What lets a profile fall from the first to the last fifth of the context (hypothesis H6): the query's drift term
/// alpha_pos + beta_pos tau; the mean of its other coordinates; its covariance; the keys that are admissible.
enum class drop_cause { drift, content_mean, variance, keys };
inline constexpr index_t drop_causes = 4;
constexpr std::string_view name_of(drop_cause p) {
  constexpr std::string_view names[] = {"drift", "content_mean", "variance", "keys"};
  return names[static_cast<int>(p)];
}

struct drop_split_options {
  std::optional<captured_rope> rotation{};    ///< keys are frozen by turning them back; none: by reweighing pairs
  index_t distance_cell = 0;                  ///< of the histogram of |t_i - t_j|, tokens; 0: L / 128
  std::optional<pair_precision> precision{};  ///< as in `profile_options`
};

/// AP_drop as a sum: four causes, and `rest`, what still falls with all four frozen (other keys at the same distances).
/// Errors are jackknife over documents, given query models and histogram.
struct drop_split {
  estimate drop;                                     ///< of the profile itself
  std::array<estimate, drop_causes> cause;           ///< Shapley values
  estimate rest;                                     ///< drop - sum of the causes
  std::array<double, 1 << drop_causes> drop_with{};  ///< AP_drop with the causes whose bits are set frozen
  std::vector<std::int32_t> documents;               ///< that have pairs
  /// (documents) drop, the causes and rest without that document, for errors of means over heads
  std::vector<std::array<double, drop_causes + 2>> without;
};

namespace detail {

/// Shapley values over the four causes from the drops with each set of them frozen, as (drop, causes, rest).
inline std::array<double, drop_causes + 2> shapley_split(const std::array<double, 1 << drop_causes>& drop_with) {
  constexpr unsigned all = (1u << drop_causes) - 1;
  constexpr double share[] = {1.0 / 4, 1.0 / 12, 1.0 / 12, 1.0 / 4};  // |S|! (3 - |S|)! / 4!
  std::array<double, drop_causes + 2> x{};
  x[0] = drop_with[0];
  for (unsigned p = 0; p < drop_causes; ++p)
    for (unsigned moving = 0; moving <= all; ++moving)
      if (!(moving >> p & 1u))
        x[1 + p] += share[std::popcount(moving)] * (drop_with[all & ~moving & ~(1u << p)] - drop_with[all & ~moving]);
  x[drop_causes + 1] = drop_with[all];
  return x;
}

inline drop_split split_of(const std::vector<plasticity_profile_result>& profiles, index_t context_length) {
  std::vector<std::vector<std::pair<double, double>>> totals;
  for (const auto& p : profiles) totals.push_back(bucket_totals(p));
  const auto values = [&](index_t left_out) {
    std::array<double, 1 << drop_causes> drops{};
    for (std::size_t s = 0; s < profiles.size(); ++s)
      drops[s] = summary_values(profiles[s], context_length, bucket_weight::queries, left_out, totals[s])[3];
    return drops;
  };
  drop_split r;
  r.drop_with = values(-1);
  const auto whole = shapley_split(r.drop_with);
  for (std::size_t e = 0; e < profiles[0].documents.size(); ++e)
    if (weighs_in(profiles[0], summary_ranges(context_length)[3], e)) {
      r.documents.push_back(profiles[0].documents[e]);
      r.without.push_back(shapley_split(values(static_cast<index_t>(e))));
    }
  const auto set = [&](estimate& to, std::size_t i) {
    std::vector<double> without;
    for (const auto& x : r.without) without.push_back(x[i]);
    to = {whole[i], std::isnan(whole[i]) ? whole[i] : jackknife_error(without)};
  };
  set(r.drop, 0);
  for (std::size_t p = 0; p < drop_causes; ++p) set(r.cause[p], 1 + p);
  set(r.rest, drop_causes + 1);
  return r;
}

}  // namespace detail

/// Splits AP_drop of each head of a layer under `models` (as `fit_queries` gave them). A cause is frozen at its mean
/// over the query buckets of the first fifth that have a value, weighted by queries: drift term, content means,
/// covariances; keys by weights that give every bucket's pairs that region's histogram of distances, or with `rotation`
/// by turning each key from its position back to the bucket's start, so that all stand there. Sixteen profiles,
/// averaged over the orders in which causes are let go. A head without a drop has NaN throughout. Throws `error` if the
/// rotation turns more coordinates than there are.
template <context Context, class T>
std::vector<drop_split> split_drop(Context& ctx, const std::vector<query_model>& models, const layer_view<T>& layer,
                                   index_t context_length, const drop_split_options& options = {}) {
  require(!options.rotation || 2 * static_cast<index_t>(options.rotation->inv_freq.size()) <= layer.k.dim,
          "split_drop: rotation.inv_freq turns more coordinates than keys have, ", layer.k.dim);
  const profile_options pairs{.precision = options.precision};
  std::vector<std::vector<plasticity_profile_result>> profiles(models.size());  // by set of frozen causes
  const auto add = [&](std::vector<plasticity_profile_result>&& found) {
    for (std::size_t h = 0; h < found.size(); ++h) profiles[h].push_back(std::move(found[h]));
  };
  add(plasticity_profile(ctx, models, layer, all_pairs{}, pairs));
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
  for (unsigned set = 1; set < of_query; ++set) add(plasticity_profile(ctx, with(set), layer, all_pairs{}, pairs));
  if (options.rotation) {
    const detail::turned_back_keys<T> keys(layer, *options.rotation);
    for (unsigned set = 0; set < of_query; ++set) {
      auto changed = with(set);
      for (auto& m : changed) m = detail::at_bucket_start(m, *options.rotation);
      add(plasticity_profile(ctx, changed, keys.layer(), all_pairs{}, pairs));
    }
  } else {
    const index_t cell = options.distance_cell > 0 ? options.distance_cell : std::max<index_t>(1, context_length / 128);
    const auto weight = detail::distance_weights(ctx, models, frozen, layer, cell);
    for (unsigned set = 0; set < of_query; ++set) add(plasticity_profile(ctx, with(set), layer, weight, pairs));
  }
  std::vector<drop_split> splits;
  for (const auto& p : profiles) splits.push_back(detail::split_of(p, context_length));
  return splits;
}

/// Mean of a cause over heads, its error leaving a document out of all heads at once: 0 drop, 1 to 4 the causes in the
/// order of `drop_cause`, 5 rest. Heads without a drop are left out.
inline estimate mean_over_heads(const std::vector<const drop_split*>& heads, index_t value) {
  const auto i = static_cast<std::size_t>(value);
  const auto whole = [&](const drop_split& s) {
    return i == 0 ? s.drop.value : i <= drop_causes ? s.cause[i - 1].value : s.rest.value;
  };
  std::map<std::int32_t, double> shift;  // by document: sum over heads of (without it - with it)
  double sum = 0, n = 0;
  for (const auto* s : heads) {
    if (std::isnan(s->drop.value)) continue;
    sum += whole(*s);
    ++n;
    for (std::size_t e = 0; e < s->documents.size(); ++e) shift[s->documents[e]] += s->without[e][i] - whole(*s);
  }
  if (!(n > 0)) return {};
  std::vector<double> without;
  for (const auto& [document, by] : shift) without.push_back((sum + by) / n);
  return {sum / n, jackknife_error(without)};
}

}  // namespace qkgeom
