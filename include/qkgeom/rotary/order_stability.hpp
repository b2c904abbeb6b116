// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/rotary/detail/stationary.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// A score as a function of distance, Re(sum_f c_f e^(i w_f d)) + still: of a query with a key, or with the difference
/// of two keys that stand at the same distance.
struct score_series {
  std::vector<std::complex<double>> planes;  ///< (planes) c
  double still = 0;                          ///< the coordinates that nothing rotates

  double at_zero() const {
    double sum = still;
    for (const auto& c : planes) sum += c.real();
    return sum;
  }
  /// Returns the sum of the sizes of all terms.
  double mass() const {
    double sum = std::abs(still);
    for (const auto& c : planes) sum += std::abs(c);
    return sum;
  }
};

/// Returns the series of a query x and a key y (d), both from before the rotary embedding.
template <class X, class Y>
score_series series_of(const X* x, const Y* y, index_t d, const std::optional<captured_rope>& rope) {
  score_series s;
  for (const auto& p : detail::rotating_planes(rope, d)) {
    const auto value = [&p](const auto* row) {
      const auto imaginary = p.first == p.second ? 0 : static_cast<double>(row[p.second]);
      return std::complex<double>(static_cast<double>(row[p.first]), imaginary);
    };
    const auto c = p.factor * p.factor * value(x) * std::conj(value(y));
    if (p.first == p.second)
      s.still += c.real();
    else
      s.planes.push_back(c);
  }
  return s;
}

/// Virtual distances 0 .. window - 1 of series with these frequencies, radians per token: means and covariances of
/// their phases, and the phases at some distances, `drawn` of them spread over the window, or all if it has no more.
class virtual_distances {
 public:
  virtual_distances(const std::vector<double>& frequencies, index_t window, index_t drawn)
      : n_(frequencies.size()), drawn_(static_cast<std::size_t>(std::min(window, drawn))), all_(drawn >= window) {
    require(window > 1 && drawn > 0, "virtual distances: a window of ", window, " tokens and ", drawn, " distances");
    const auto mean = [window](double w) { return detail::sums_of_phases(w, 0, window).mean; };
    for (const double w : frequencies) {
      mean_.push_back(mean(w));
      step_.push_back(std::polar(1.0, w));
      for (const double v : frequencies) {
        sum_.push_back(mean(w + v) - mean(w) * mean(v));
        difference_.push_back(mean(w - v) - mean(w) * std::conj(mean(v)));
      }
      for (std::size_t i = 0; i < drawn_; ++i) {
        const double turn = static_cast<double>(i) * (std::numbers::phi - 1);
        const auto d =
            all_ ? static_cast<double>(i) : std::floor((turn - std::floor(turn)) * static_cast<double>(window));
        cos_.push_back(std::cos(w * d));
        sin_.push_back(std::sin(w * d));
      }
    }
  }

  /// Returns the probability that a normal score with the series' mean and variance over the distances has another sign
  /// than at distance 0; NaN for a tie there (rope-profiler, Clemente et al. 2026).
  double normal_reversals(const score_series& s) const {
    const double sign = sign_at_zero(s);
    if (sign == 0) return std::numeric_limits<double>::quiet_NaN();
    double mean = s.still, variance = 0;
    for (std::size_t f = 0; f < n_; ++f) {
      mean += (s.planes[f] * mean_[f]).real();
      std::complex<double> row = 0;
      for (std::size_t g = 0; g < n_; ++g)
        row += s.planes[g] * sum_[f * n_ + g] + std::conj(s.planes[g]) * difference_[f * n_ + g];
      variance += 0.5 * (s.planes[f] * row).real();
    }
    if (variance <= 0) return sign * mean < 0 ? 1 : 0;
    return 0.5 * std::erfc(sign * mean / std::sqrt(2 * variance));
  }
  /// Returns the share of the drawn distances at which the sign is another than at distance 0; NaN for a tie there.
  double counted_reversals(const score_series& s) const {
    const double sign = sign_at_zero(s);
    if (sign == 0) return std::numeric_limits<double>::quiet_NaN();
    const auto scores = scores_of(s.planes, s.still);
    const auto other = std::count_if(scores.begin(), scores.end(), [sign](double x) { return sign * x < 0; });
    return static_cast<double>(other) / static_cast<double>(drawn_);
  }
  /// Returns the mean over the drawn distances of |S(d + 1) - S(d)| over the root of the sum of |c_f|^2; NaN without
  /// planes.
  double mean_step(const score_series& s) const {
    double square = 0, sum = 0;
    std::vector<std::complex<double>> difference;
    for (std::size_t f = 0; f < n_; ++f) {
      square += std::norm(s.planes[f]);
      difference.push_back(s.planes[f] * (step_[f] - 1.0));
    }
    const auto steps = scores_of(difference, 0);
    const auto n = steps.size() - (all_ ? 1 : 0);  // of all distances, the last has no next one
    for (std::size_t i = 0; i < n; ++i) sum += std::abs(steps[i]);
    return sum / static_cast<double>(n) / std::sqrt(square);
  }

 private:
  static double sign_at_zero(const score_series& s) {
    const double x = s.at_zero();
    return std::abs(x) <= 64 * std::numeric_limits<double>::epsilon() * s.mass() ? 0 : x > 0 ? 1 : -1;
  }
  std::vector<double> scores_of(const std::vector<std::complex<double>>& c, double still) const {
    std::vector<double> score(drawn_, still);
    for (std::size_t f = 0; f < n_; ++f) {
      const double re = c[f].real(), im = c[f].imag();
      const double *const cos = cos_.data() + f * drawn_, *const sin = sin_.data() + f * drawn_;
      for (std::size_t i = 0; i < drawn_; ++i) score[i] += re * cos[i] - im * sin[i];
    }
    return score;
  }

  std::size_t n_, drawn_;
  bool all_;
  std::vector<std::complex<double>> mean_{}, step_{}, sum_{}, difference_{};  // (planes), (planes, planes)
  std::vector<double> cos_{}, sin_{};                                         // (planes, drawn)
};

struct stability_options {
  std::vector<index_t> windows{};  ///< numbers of virtual distances, tokens
  index_t queries = 4, keys = 4;  ///< drawn in each document, keys before each query; two keys after another are a pair
  index_t distances = 256;        ///< drawn of a window
  std::uint64_t seed = 0;
};

/// How stable a head orders keys whose common distance to the query is moved over a window.
struct order_stability {
  index_t window = 0;
  estimate semantic;  ///< one less the mean of `normal_reversals` over pairs of keys: 1, order is content alone
  estimate counted;   ///< one less the mean of `counted_reversals`
  estimate steps;     ///< mean of `mean_step` over keys
};

/// Measures the order stability of each query head of a layer from its rows before the rotary embedding (empty: a NoPE
/// layer), in host memory, for each window. Means over a document's draws, then over documents, with errors over these.
/// Throws `error` if the shapes do not agree or the embedding rotates more coordinates than heads have.
template <context Context, class T>
std::vector<std::vector<order_stability>> order_stability_of(Context& ctx, const layer_view<T>& before,
                                                             const std::optional<captured_rope>& rope,
                                                             const stability_options& options) {
  check_shapes(before);
  const auto frequencies = rope ? rope->inv_freq : std::vector<double>{};
  std::vector<virtual_distances> windows;
  for (const index_t w : options.windows) windows.emplace_back(frequencies, w, options.distances);
  // Draws (query row, key rows) by document.
  struct drawn_query {
    index_t q;
    std::vector<index_t> k;
  };
  std::vector<std::vector<drawn_query>> documents;
  for (index_t begin = 0, end = 0, key = 0; begin < before.q.rows; begin = end) {
    const std::int32_t number = before.q_document[begin];
    while (end < before.q.rows && before.q_document[end] == number) ++end;
    while (key < before.k.rows && before.k_document[key] < number) ++key;
    const random_stream draws{options.seed, static_cast<std::uint32_t>(number), 0, draw::score_pair};
    auto& found = documents.emplace_back();
    std::uint64_t at = 0;
    for (index_t i = 0; i < options.queries; ++i) {
      const auto q = begin + static_cast<index_t>(draws.below(at++, static_cast<std::uint64_t>(end - begin)));
      index_t earlier = key;
      while (earlier < before.k.rows && before.k_document[earlier] == number &&
             before.k_position[earlier] < before.q_position[q])
        ++earlier;
      if (earlier - key < 2) continue;
      auto& one = found.emplace_back(drawn_query{q, {}});
      for (index_t j = 0; j < options.keys; ++j)
        one.k.push_back(key + static_cast<index_t>(draws.below(at++, static_cast<std::uint64_t>(earlier - key))));
    }
  }
  std::vector<std::vector<order_stability>> result(before.key_of_query.size());
  ctx.for_each(std::ssize(result), [&](index_t h) {
    const auto head = before.head(h);
    const index_t d = head.q.cols;
    // Means over a document's draws, by window and score.
    std::vector<std::array<std::vector<double>, 3>> sum(windows.size()), count(windows.size());
    for (const auto& document : documents) {
      std::vector<std::array<double, 3>> value(windows.size()), n(windows.size());
      const auto add = [&](std::size_t w, std::size_t i, double x) {
        if (!std::isnan(x)) value[w][i] += x, n[w][i] += 1;
      };
      for (const auto& one : document) {
        score_series last;
        for (std::size_t j = 0; j < one.k.size(); ++j) {
          auto s = series_of(head.q.row(one.q), head.k.row(one.k[j]), d, rope);
          const bool pair = j % 2 == 1 && one.k[j] != one.k[j - 1];
          for (std::size_t f = 0; f < s.planes.size() && pair; ++f) last.planes[f] -= s.planes[f];
          last.still -= s.still;
          for (std::size_t w = 0; w < windows.size(); ++w) {
            add(w, 2, windows[w].mean_step(s));
            if (!pair) continue;
            add(w, 0, 1 - windows[w].normal_reversals(last));
            add(w, 1, 1 - windows[w].counted_reversals(last));
          }
          last = std::move(s);
        }
      }
      for (std::size_t w = 0; w < windows.size(); ++w)
        for (std::size_t i = 0; i < 3; ++i) {
          sum[w][i].push_back(n[w][i] > 0 ? value[w][i] / n[w][i] : 0);
          count[w][i].push_back(n[w][i] > 0 ? 1 : 0);
        }
    }
    for (std::size_t w = 0; w < windows.size(); ++w) {
      const auto mean = [&](std::size_t i) { return ratio_of_sums(sum[w][i], count[w][i]); };
      result[h].push_back({options.windows[w], mean(0), mean(1), mean(2)});
    }
  });
  return result;
}

}  // namespace qkgeom
