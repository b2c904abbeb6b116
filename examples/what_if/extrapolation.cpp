// SPDX-License-Identifier: MIT
#include "examples/what_if/extrapolation.hpp"

#include <cstddef>
#include <utility>

#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {
self_check check_predictions(const model_report& actual, const std::vector<short_prediction>& predicted) {
  self_check check;
  for (const auto& h : actual.heads) check.rope.push_back(h.rope);
  for (const auto& p : predicted) {
    require(p.factor > 1, "check_predictions: a factor of ", p.factor, " predicts nothing");
    require(p.report.heads.size() == actual.heads.size(), "check_predictions: ", p.report.heads.size(),
            " heads are predicted, but ", actual.heads.size(), " were captured");
    check.factors.push_back(p.factor);
    auto& miss = check.miss.emplace_back(actual.heads.size());
    auto& same = check.same_class.emplace_back();
    for (std::size_t h = 0; h < actual.heads.size(); ++h) {
      const auto &a = actual.heads[h], &b = p.report.heads[h];
      require(a.layer == b.layer && a.q_head == b.q_head, "check_predictions: head ", h, " is layer ", b.layer,
              " head ", b.q_head, ", not layer ", a.layer, " head ", a.q_head);
      for (std::size_t i = 0; i < carried_numbers.size(); ++i)
        miss[h][i] = carried_numbers[i].of(b).value - carried_numbers[i].of(a).value;
      same.push_back(a.pca.head_class == b.pca.head_class);
    }
  }
  return check;
}

std::vector<std::array<estimate, carried_numbers.size()>> extrapolate(const model_report& predicted,
                                                                      const self_check& check, double factor) {
  std::vector<std::array<estimate, carried_numbers.size()>> heads(predicted.heads.size());
  for (std::size_t i = 0; i < carried_numbers.size(); ++i) {
    std::vector<estimate> values;
    for (const auto& h : predicted.heads) values.push_back(carried_numbers[i].of(h));
    head_misses one{check.factors, {}, check.rope};
    for (const auto& miss : check.miss) {
      auto& of_factor = one.miss.emplace_back();
      for (const auto& m : miss) of_factor.push_back({m[i]});
    }
    values = widened(std::move(values), one, factor);
    for (std::size_t h = 0; h < heads.size(); ++h) heads[h][i] = values[h];
  }
  return heads;
}

std::array<estimate, carried_numbers.size()> extrapolate_mean(const model_report& predicted, const self_check& check,
                                                              double factor, const std::vector<std::size_t>& heads) {
  std::array<estimate, carried_numbers.size()> means;
  for (std::size_t i = 0; i < means.size(); ++i) {
    double sum = 0, error = 0, count = 0;
    for (const std::size_t h : heads) {
      const auto value = carried_numbers[i].of(predicted.heads[h]);
      if (std::isnan(value.value)) continue;
      sum += value.value;
      if (!std::isnan(value.error)) error += value.error;
      ++count;
    }
    if (!(count > 0)) continue;
    mean_square rate;
    for (std::size_t f = 0; f < check.factors.size(); ++f) {
      double miss = 0, n = 0;
      for (const std::size_t h : heads)
        if (const double m = check.miss[f][h][i]; !std::isnan(m)) {
          miss += m;
          ++n;
        }
      rate.add(miss / n / growth_of_error(check.factors[f]));
    }
    const double growth = growth_of_error(factor);
    means[i].value = sum / count;
    if (!(rate.count > 0)) continue;
    means[i].error = std::sqrt(growth * growth * rate.value() + error * error / (count * count));
    means[i].freedom = rate.count;
  }
  return means;
}

}  // namespace qkgeom::examples
