// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// Some heads of a model, by their indices.
struct head_group {
  std::string name;
  std::vector<std::size_t> heads;
};

/// Returns the indices of all heads.
template <class Head>
std::vector<std::size_t> every_head(const std::vector<Head>& heads) {
  std::vector<std::size_t> all(heads.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Groups heads: `all`, then `rope` and `nope` if the model has both kinds. A head is any type with a member `rope`.
template <class Head>
std::vector<head_group> head_groups(const std::vector<Head>& heads) {
  std::vector<std::size_t> rope, nope;
  for (std::size_t h = 0; h < heads.size(); ++h) (heads[h].rope ? rope : nope).push_back(h);
  if (rope.empty() || nope.empty()) return {{"all", every_head(heads)}};
  return {{"all", every_head(heads)}, {"rope", rope}, {"nope", nope}};
}

/// Summary of one number over heads. Signs differ between heads, so the mean may hide what the mean of absolute values
/// shows.
enum class head_statistic { mean, mean_abs, median };
inline constexpr std::array<head_statistic, 3> all_head_statistics{head_statistic::mean, head_statistic::mean_abs,
                                                                   head_statistic::median};
constexpr std::string_view name_of(head_statistic s) {
  constexpr std::string_view names[] = {"mean", "mean_abs", "median"};
  return names[static_cast<int>(s)];
}

/// A statistic over heads with two errors: from the choice of documents, and from the choice of heads.
struct head_estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();       ///< jackknife over documents
  double head_error = std::numeric_limits<double>::quiet_NaN();  ///< if the heads were drawn from many like them
  double freedom = 0;                                            ///< degrees of freedom of `error`

  /// Takes the error over documents.
  void set_error(const estimate& e) { error = e.error, freedom = e.freedom; }
};

/// Returns the values of a group's heads without NaNs.
std::vector<double> values_of(const std::vector<double>& values, const std::vector<std::size_t>& group);

/// Computes the statistic; NaN without values.
double statistic_of(head_statistic s, const std::vector<double>& x);

/// Returns the standard error of the statistic if the values are a draw of independent heads; NaN below two. The
/// median's is the bootstrap's, in closed form (Maritz and Jarrett 1978).
double head_error_of(head_statistic s, const std::vector<double>& x);

/// Returns the share of a group's heads for which `in(head index)` holds; NaN without heads.
template <class In>
double share_of(const std::vector<std::size_t>& group, const In& in) {
  double n = 0;
  for (const std::size_t h : group) n += in(h) ? 1 : 0;
  return group.empty() ? std::numeric_limits<double>::quiet_NaN() : n / static_cast<double>(group.size());
}

/// Returns the standard error of a share of n drawn heads; NaN below two.
double share_error(double share, std::size_t n);

}  // namespace qkgeom
