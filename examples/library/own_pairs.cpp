// SPDX-License-Identifier: MIT
// Which pairs of keys are still free? Plasticity over pair sets of one's own, each a function of the pair.
#include <cstdio>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/plasticity/profile.hpp"

constexpr int dim = 16, tokens = 8192;  // head size; length of the context
constexpr double mean_along_0 = 1.5;    // queries are N(mean, I), their mean along coordinate 0

// The definition, pair by pair, under the planted distribution of queries: the weighted mean over all pairs of keys of
// one document before `bucket`.
double by_definition(const qkgeom::planted_rows<float>& rows, const qkgeom::profile_bucket& bucket,
                     const qkgeom::pair_weight& weight) {
  double sum = 0, total = 0;
  const int n = static_cast<int>(rows.k_position.size());  // rows stand in the order of (document, position)
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n && rows.k_document[j] == rows.k_document[i]; ++j) {
      if (rows.k_position[j] >= bucket.start) break;
      double square = 0;
      for (int c = 0; c < dim; ++c) {
        const double difference = double{rows.k[i * dim + c]} - rows.k[j * dim + c];
        square += difference * difference;
      }
      const double m = mean_along_0 * (double{rows.k[i * dim]} - rows.k[j * dim]);
      const double w = weight({.t_i = rows.k_position[i], .t_j = rows.k_position[j], .tau = bucket.middle()});
      sum += w * qkgeom::pair_plasticity(m, square);
      total += w;
    }
  return sum / total;
}

int main() {
  qkgeom::planted_head head{.dim = dim, .context_length = tokens, .documents = 64};
  head.mean_q.assign(dim, 0.0);
  head.mean_q[0] = mean_along_0;
  head.drift_k.assign(dim, 0.0);
  head.drift_k[0] = 4.0 / tokens;  // keys move by 4 towards the mean query: the further apart, the less free
  const auto rows = qkgeom::plant<float>(head);

  qkgeom::cpu_context cpu;
  const auto moments = qkgeom::accumulate(cpu, rows.view(), qkgeom::uniform_buckets{1024}, {.context_length = tokens});
  const auto model = qkgeom::fit_queries(cpu, moments, {.covariance = qkgeom::covariance_kind::joint});
  const struct {
    const char* name;
    qkgeom::pair_weight weight;  // 0 leaves a pair out
  } sets[] = {{"all pairs", [](const qkgeom::key_pair&) { return 1; }},
              {"near: less than 512 tokens apart", [](const qkgeom::key_pair& p) { return p.distance() < 512; }},
              {"far: more than 4096 tokens apart", [](const qkgeom::key_pair& p) { return p.distance() > 4096; }},
              {"recent ones weigh more", [](const qkgeom::key_pair& p) { return 1 / (p.tau - p.t_j); }}};
  std::printf("Pairs of keys before the last 1024 tokens    plasticity       by definition\n");
  for (const auto& set : sets) {
    const auto last = qkgeom::plasticity_profile(cpu, model, rows.view(), set.weight).buckets.back();
    std::printf("  %-40s  %.3f ± %.3f   %.3f\n", set.name, last.plasticity, last.standard_error,
                by_definition(rows, last, set.weight));
  }
}
