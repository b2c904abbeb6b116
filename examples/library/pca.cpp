// SPDX-License-Identifier: MIT
// How much of a head's variance is position? PCA of planted heads, whose shares are known.
#include <cmath>
#include <cstdio>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/planted/planted_head.hpp"

constexpr int dim = 32, tokens = 8192;  // head size; length of the context

// Rows are noise of variance 1 in each coordinate. A drift of g per token along one coordinate adds g^2 Var(t), where
// Var(t) = tokens^2 / 12: this drift makes position that share of the whole variance.
std::vector<double> drift(double share) {
  std::vector<double> per_token(dim, 0.0);
  per_token[5] = std::sqrt(share / (1 - share) * dim * 12) / tokens;
  return per_token;
}

int main() {
  const struct {
    double q, k;  // planted shares of queries and keys
  } heads[] = {{0.5, 0.5}, {0.2, 0.0}, {0.0, 0.2}, {0.01, 0.01}, {0.0, 0.0}};

  qkgeom::cpu_context cpu;
  double largest_error = 0;
  std::printf("Share of a head's variance that is position, and component 0 of its PCA\n\n");
  std::printf("  queries          keys             component 0\n");
  std::printf("  planted  found   planted  found   |r_q|  |r_k|   class of the head\n");
  for (const auto& share : heads) {
    const auto rows = qkgeom::plant<float>(
        {.dim = dim, .context_length = tokens, .drift_q = drift(share.q), .drift_k = drift(share.k)});
    const auto moments = qkgeom::accumulate(cpu, rows.view(), qkgeom::uniform_buckets{512}, {.context_length = tokens});
    const qkgeom::pca_result pca = qkgeom::pca(cpu, moments);
    std::printf("  %7.3f %6.3f   %7.3f %6.3f   %5.2f  %5.2f   %s\n", share.q, pca.q_linear_share, share.k,
                pca.k_linear_share, std::fabs(pca.r_q[0]), std::fabs(pca.r_k[0]), name_of(pca.head_class).data());
    largest_error = std::fmax(largest_error, std::fabs(pca.q_linear_share - share.q));
    largest_error = std::fmax(largest_error, std::fabs(pca.k_linear_share - share.k));
  }
  std::printf("\nLargest error of a share: %.4f, from 4096 queries and 4096 keys per head\n", largest_error);
}
