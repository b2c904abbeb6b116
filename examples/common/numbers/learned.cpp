// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <utility>

#include "qkgeom/io/csv.hpp"
#include "examples/common/numbers/comparison_csv.hpp"
#include "examples/common/numbers/learned.hpp"

namespace qkgeom {

namespace detail {

/// The mean over models of one number, with its replicates where all models have as many.
inline compared_number mean_number(const std::vector<compared_number>& seeds) {
  compared_number mean{seeds.at(0).name, 0, {}, {}};
  const auto count = static_cast<double>(seeds.size());
  bool alike = true;
  for (const auto& s : seeds) {
    mean.value += s.value / count;
    alike = alike && s.without.size() == seeds[0].without.size();
  }
  if (!alike) return mean;
  mean.without.assign(seeds[0].without.size(), 0);
  for (std::size_t i = 0; i < mean.without.size(); ++i)
    for (const auto& s : seeds) mean.without[i] += (std::isnan(s.without[i]) ? s.value : s.without[i]) / count;
  return mean;
}

/// Standard deviation over models, n - 1; NaN of one.
inline double deviation_of(const std::vector<compared_number>& seeds, double mean) {
  double sum = 0;
  for (const auto& s : seeds) sum += (s.value - mean) * (s.value - mean);
  return seeds.size() < 2 ? NAN : std::sqrt(sum / static_cast<double>(seeds.size() - 1));
}

}  // namespace detail

inline std::vector<learned_number> learned_numbers(const compared_group& model,
                                                   const std::vector<const compared_group*>& untrained, bool paired) {
  require(!untrained.empty(), "what a model has learned needs an untrained model to hold it against");
  const auto own = detail::numbers_to_compare(model);
  std::vector<std::vector<compared_number>> seeds;
  for (const auto* g : untrained) {
    seeds.push_back(detail::numbers_to_compare(*g));
    require(seeds.back().size() == own.size(), "an untrained model has other numbers than the model");
  }
  std::vector<learned_number> all;
  const auto count = static_cast<double>(seeds.size());
  for (std::size_t n = 0; n < own.size(); ++n) {
    std::vector<compared_number> of_seeds;
    for (const auto& s : seeds) of_seeds.push_back(s[n]);
    const auto mean = detail::mean_number(of_seeds);
    const auto difference = difference_of(own[n], mean, paired);
    learned_number l{.name = own[n].name, .value = own[n].value, .untrained = mean.value};
    l.learned = difference.value;
    l.document_error = difference.error;
    l.seed_error = detail::deviation_of(of_seeds, mean.value) * std::sqrt(1 + 1 / count);
    const double half = std::hypot(half_width(difference), interval_factor(count - 1) * l.seed_error);
    l.low = l.learned - half;
    l.high = l.learned + half;
    all.push_back(std::move(l));
  }
  return all;
}

inline std::vector<learned_group> learned_of(const std::vector<compared_model>& models) {
  std::vector<learned_group> all;
  for (const auto& model : models)
    for (const auto& group : model.groups) {
      std::vector<const compared_group*> untrained;
      bool paired = true;
      for (const auto& other : models) {
        if (&other == &model || !other.untrained || other.architecture != model.architecture) continue;
        if (const auto* g = other.group(group.name)) untrained.push_back(g);
        paired = paired && same_documents(model, other);
      }
      if (!untrained.empty())
        all.push_back(
            {model.label, group.name, model.untrained, untrained.size(), learned_numbers(group, untrained, paired)});
    }
  return all;
}

inline void write_learned_csv(const std::filesystem::path& path, const std::vector<learned_group>& groups) {
  csv_writer csv(path, {"model", "seeds", "group", "number", "value", "untrained", "learned", "learned_document_error",
                        "learned_seed_error", "low", "high"});
  for (const auto& g : groups)
    for (const auto& l : g.numbers)
      csv.row(g.model, g.seeds, g.group, l.name, l.value, l.untrained, l.learned, l.document_error, l.seed_error, l.low,
              l.high);
  csv.commit();
}

}  // namespace qkgeom
