// SPDX-License-Identifier: MIT
// Which way does position pull? The plane of drift axis a and separation axis b of a planted head.
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/planted/planted_head.hpp"

using vector = std::vector<double>;
constexpr int dim = 32, tokens = 8192;  // head size; length of the context

double dot(const vector& x, const vector& y) {
  double sum = 0;
  for (int c = 0; c < dim; ++c) sum += x[c] * y[c];
  return sum;
}

int main() {
  // Two orthogonal unit vectors. Keys move by 4 along a over the context, queries by 2; b tells queries from keys.
  vector a, b;
  qkgeom::planted_head head{.dim = dim, .context_length = tokens, .documents = 64};
  for (int c = 0; c < dim; ++c) {
    a.push_back(std::sqrt(2.0 / dim) * std::cos(2 * std::numbers::pi * c / dim));
    b.push_back(std::sqrt(2.0 / dim) * std::sin(2 * std::numbers::pi * c / dim));
    head.mean_q.push_back(1.5 * a[c] + b[c]);
    head.mean_k.push_back(0.5 * a[c] - b[c]);
    head.drift_q.push_back(2.0 / tokens * a[c]);
    head.drift_k.push_back(4.0 / tokens * a[c]);
  }
  const auto rows = qkgeom::plant<float>(head);

  qkgeom::cpu_context cpu;
  const auto moments = qkgeom::accumulate(cpu, rows.view(), qkgeom::uniform_buckets{512}, {.context_length = tokens});
  const qkgeom::rotation_result plane = qkgeom::planar_rotation(cpu, moments);

  const auto line = [](const char* what, double planted, double found) {
    std::printf("  %-42s %10.4g %10.4g\n", what, planted, found);
  };
  std::printf("  %-42s %10s %10s\n", "", "planted", "found");
  line("drift axis a: cosine with the planted one", 1, dot(plane.drift_axis, a));
  line("separation axis b: the same", 1, dot(plane.separation_axis, b));
  line("mean query along a", 1.5, plane.q.mu);
  line("mean query less mean key along b", 2, plane.q.mu_b - plane.k.mu_b);
  line("slope of the keys along a, per token", 4.0 / tokens, plane.k.alpha);
  line("bias strength, score per token", 1.5 * 4 / tokens, plane.bias.strength);
  line("bias over the context, score", 1.5 * 4, plane.bias.context);
  std::printf(
      "\nTo the mean query the last key of the context scores %.1f above the first by position alone:\n"
      "%.1f standard deviations of the score difference of two keys.\n",
      plane.bias.context, plane.bias.context_in_sd);
}
