// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/common/outputs.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::examples {

/// Causes of the fall of a profile from the first to the last fifth of the context (hypothesis H6): the query's drift
/// term alpha_pos + beta_pos tau; the mean of its other coordinates; its covariance; the keys that are admissible.
enum class drop_cause { drift, content_mean, variance, keys };
inline constexpr index_t drop_causes = 4;
constexpr std::string_view name_of(drop_cause p) {
  constexpr std::string_view names[] = {"drift", "content_mean", "variance", "keys"};
  return names[static_cast<int>(p)];
}

/// Options of `split_drop`.
struct drop_split_options {
  std::optional<captured_rope> rotation{};    ///< keys are frozen by turning them back; none: by reweighing pairs
  index_t distance_cell = 0;                  ///< of the histogram of |t_i - t_j|, tokens; 0: L / 128
  std::optional<pair_precision> precision{};  ///< as in `profile_options`
};

/// AP_drop as the sum of four causes and `rest`, the drop with all four frozen (other keys at the same distances).
/// Errors are jackknife over documents, given query models and histogram.
struct drop_split {
  estimate drop;                                     ///< of the profile itself
  std::array<estimate, drop_causes> cause;           ///< Shapley values
  estimate rest;                                     ///< drop - sum of the causes
  std::array<double, 1 << drop_causes> drop_with{};  ///< AP_drop with the causes whose bits are set frozen
  std::vector<std::int32_t> documents;               ///< that have pairs
  /// (documents) drop, the causes and rest without that document, for errors of means over heads
  std::vector<std::array<double, drop_causes + 2>> without;

  /// 0: the drop; 1 to 4: the causes in the order of `drop_cause`; 5: the rest.
  const estimate& part(index_t i) const { return i == 0 ? drop : i <= drop_causes ? cause[i - 1] : rest; }
};

/// Splits AP_drop of each head of a layer under `models`, which `fit_queries` gives. Drift term, content means and
/// covariances are frozen at their means over the query buckets of the first fifth that have a value, weighted by
/// queries; keys by weights that give every bucket's pairs that region's histogram of distances, or with `rotation` by
/// turning each key from its position back to the bucket's start. The causes are Shapley values of the sixteen drops
/// with each set of causes frozen. A head without a drop has NaN throughout. Throws `error` if the rotation turns more
/// coordinates than keys have.
template <class T>
std::vector<drop_split> split_drop(cpu_context& cpu, const std::vector<query_model>& models, const layer_view<T>& layer,
                                   index_t context_length, const drop_split_options& options = {});

/// Mean over heads of one part of their splits. Its error leaves a document out of all heads at once. Heads without a
/// drop are left out.
estimate mean_over_heads(const std::vector<const drop_split*>& heads, index_t part);

/// Options of drop_split.
struct drop_arguments {
  std::string keys = "distances";  ///< or rotation
  index_t distance_cell = 0;       ///< tokens; 0: a 128th of the context
};

/// The split of one query head.
struct head_drop {
  index_t layer = 0, q_head = 0, k_head = 0;
  bool rope = true;
  std::string_view covariance;  ///< of the query model
  bool rotated_back = false;    ///< how keys were frozen: turned back, or pairs reweighed by distance
  drop_split split;
};

/// Every head's split under the first query model.
struct split_heads {
  std::string model;
  index_t context_length = 0;
  std::vector<head_drop> heads;
};

split_heads split_capture(const arguments& a, const drop_arguments& choice);
/// Writes drop_split.csv, drop_means.csv, the map of causes by layer and head, and the figure of their means.
void write_drops(output_folder& out, const split_heads& found);
void print_drops(printer& out, const split_heads& found);

}  // namespace qkgeom::examples
