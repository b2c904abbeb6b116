// SPDX-License-Identifier: MIT
// Which planes of a rotary embedding make plasticity dip and rise again? Llama 3.1's embedding at 128K tokens, on heads
// whose queries and keys have a mean in one plane alone and depend on position by nothing but the rotation.
#include <cmath>
#include <cstdio>
#include <numbers>

#include "examples/common/cli.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/rotary/embedding.hpp"
#include "qkgeom/rotary/planes.hpp"
#include "qkgeom/rotary/rotation_between.hpp"

namespace {

constexpr int dim = 128, tokens = 131072;  // head size; length of the context
constexpr double size = 8;                 // of the mean query and the mean key; rows scatter by 1 around them
constexpr qkgeom::uniform_buckets buckets{tokens / 16};

/// A profile in four numbers: at 12K tokens, at its lowest, at the context's end, and where the lowest is.
struct dip {
  double first = 0, lowest = 1, last = 0, at = 0;
  double rise() const { return last - lowest; }
};

dip dip_of(const qkgeom::plasticity_profile_result& profile) {
  dip d{profile.buckets[1].plasticity, 1, profile.buckets.back().plasticity, 0};
  for (std::size_t b = 1; b < profile.buckets.size(); ++b)
    if (profile.buckets[b].plasticity < d.lowest) {
      d.lowest = profile.buckets[b].plasticity;
      d.at = profile.buckets[b].middle();
    }
  return d;
}

/// Rows whose mean key stands `degrees` from the mean query in one plane, turned to their positions.
qkgeom::planted_rows<float> rows_of(const qkgeom::captured_rope& rope, std::size_t plane, int degrees) {
  qkgeom::planted_head head{.dim = dim, .context_length = tokens, .documents = 8, .rows = 512};
  head.mean_q.assign(dim, 0);
  head.mean_k.assign(dim, 0);
  const auto [x, y] = qkgeom::plane_of(rope, plane);
  head.mean_q[x] = size;
  head.mean_k[x] = size * std::cos(degrees * std::numbers::pi / 180);
  head.mean_k[y] = size * std::sin(degrees * std::numbers::pi / 180);
  auto rows = qkgeom::plant<float>(head);
  for (std::size_t i = 0; i < rows.q_position.size(); ++i) {
    qkgeom::vector_rotation(rope, rows.q_position[i])(&rows.q[i * dim]);
    qkgeom::vector_rotation(rope, rows.k_position[i])(&rows.k[i * dim]);
  }
  return rows;
}

void print_planes() {
  const auto inv_freq =
      qkgeom::llama3_frequencies(qkgeom::default_frequencies(500000, dim),
                                 {.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192});
  const qkgeom::captured_rope rope{"half", dim, 1, {inv_freq.begin(), inv_freq.end()}};
  qkgeom::cpu_context cpu;
  std::printf(
      "Means of size %.0f in one plane. Plasticity at 12K tokens, at its lowest and at 127K under the query model "
      "`joint`,\nwhose drift is a straight line over the context, and of the observed queries\n\n",
      size);
  std::printf("                           joint                           observed\n");
  std::printf("plane  turns  key mean     12K  lowest    at   127K   rise     12K  lowest    at   127K   rise\n");
  for (std::size_t plane = 0; plane < rope.inv_freq.size(); ++plane) {
    const double turns = qkgeom::turns_of(rope.inv_freq[plane], tokens);
    if (turns > 8 || turns < 0.1) continue;  // a bucket holds every phase; nothing turns
    for (const int degrees : {0, 90}) {
      const auto rows = rows_of(rope, plane, degrees);
      const auto moments = qkgeom::accumulate(cpu, rows.view(), buckets, {.context_length = tokens});
      const auto model = qkgeom::fit_queries(cpu, moments, {.covariance = qkgeom::covariance_kind::joint});
      std::printf("%5zu  %5.2f  %7d°", plane, turns, degrees);
      for (const auto& d : {dip_of(qkgeom::plasticity_profile(cpu, model, rows.view())),
                            dip_of(qkgeom::unbiased(qkgeom::empirical_profile(cpu, rows.view(), buckets, tokens)))})
        std::printf("  %6.3f %7.3f %4.0fK  %5.3f %6.3f", d.first, d.lowest, d.at / 1024, d.last, d.rise());
      std::printf("\n");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  qkgeom::examples::arguments a;
  qkgeom::examples::command_line app{
      "Plasticity of planted heads whose means turn in one plane of the rotary embedding: which planes let it rise "
      "again"};
  return run_main(argc, argv, app, a, print_planes);
}
