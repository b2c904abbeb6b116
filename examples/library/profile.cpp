// SPDX-License-Identifier: MIT
// How freely can a head still reorder what it has read? Its plasticity along the context, where queries drift.
#include <cmath>
#include <cstdio>
#include <string>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/plasticity/summary.hpp"

constexpr int dim = 12, tokens = 4096;  // head size; length of the context
constexpr double slope = 2.5 / tokens;  // the mean query moves by 2.5 over the context

// The known answer: queries N(mu, I) with |mu| = 0.5 + slope t and keys N(0, I). Then z = |mu| cos(theta), theta being
// the angle of a direction drawn uniformly, whose density is sin(theta)^(dim - 2).
double known(double t) {
  double sum = 0, weight = 0;
  for (double theta = 0.0005; theta < 3.14159; theta += 0.001) {
    const double density = std::pow(std::sin(theta), dim - 2);
    sum += density * qkgeom::pair_plasticity((0.5 + slope * t) * std::cos(theta), 1);
    weight += density;
  }
  return sum / weight;
}

int main() {
  qkgeom::planted_head head{.dim = dim, .context_length = tokens, .documents = 60};
  head.mean_q.assign(dim, 0.0);
  head.mean_q[3] = 0.5 + slope * tokens / 2;  // at the middle of the context
  head.drift_q.assign(dim, 0.0);
  head.drift_q[3] = slope;
  const auto rows = qkgeom::plant<float>(head);

  qkgeom::cpu_context cpu;
  const auto moments = qkgeom::accumulate(cpu, rows.view(), qkgeom::uniform_buckets{512}, {.context_length = tokens});
  const auto model = qkgeom::fit_queries(cpu, moments, {.covariance = qkgeom::covariance_kind::joint});
  const auto profile = qkgeom::plasticity_profile(cpu, model, rows.view());

  std::printf("Query bucket, tokens   plasticity      known\n");
  for (const auto& bucket : profile.buckets) {
    if (bucket.pairs == 0) continue;  // no keys before the first bucket
    const std::string bar(static_cast<int>(std::lround(50 * bucket.plasticity)), '#');
    std::printf("%8d to %4d    %.3f ± %.3f   %.3f  %s\n", static_cast<int>(bucket.start), static_cast<int>(bucket.end),
                bucket.plasticity, bucket.standard_error, known(bucket.middle()), bar.c_str());
  }
  const auto summary = qkgeom::summarize(profile, tokens);
  const double known_drop = known(768) - (known(3328) + known(3840)) / 2;  // middles of the buckets in either fifth
  std::printf("\nOver the whole context  %.3f ± %.3f, from %lld pairs of keys\n", summary.overall.value,
              summary.overall.error, static_cast<long long>(summary.pairs));
  std::printf("AP_drop                 %.3f ± %.3f, known %.3f: first fifth of the context minus the last\n",
              summary.drop.value, summary.drop.error, known_drop);
}
