// SPDX-License-Identifier: MIT
// Whether 95 % intervals over 3, 5, 12 and 100 documents hold the truth, that of very many documents, in 95 of 100
// samples: plasticity and geometry of a head, their means over heads, and differences between heads and samples.
#include "examples/common/numbers/comparison.hpp"
#include "qkgeom/report/analyse_layer.hpp"
#include "qkgeom/stats/interval.hpp"
#include "tests/common/on_cpu.hpp"

namespace qkgeom::examples::interval_coverage {
namespace {
using test::ctx;

constexpr index_t context_length = 1000, head_size = 4, heads = 3;
constexpr index_t plasticity_rows = 60;  // every document has pairs in every query bucket but the first

/// A layer of three heads. Each document moves the mean and the drift of its queries and the spread of its keys, so
/// that its rows are far from independent.
class planted_layer {
 public:
  planted_layer(index_t documents, std::uint64_t seed, index_t rows = 16)
      : rows_(plant<float>({.dim = heads * head_size,
                            .context_length = context_length,
                            .documents = documents,
                            .rows = rows,
                            .seed = seed,
                            .mean_q = every_head({2, 0.3, 0, 0}),
                            .drift_q = every_head({1.5e-3, 0, 0, 0}),
                            .drift_k = every_head({3e-3, 0, 0, 0})})) {
    const random_stream own{seed, 0, 5, draw::planted};
    constexpr std::size_t width = heads * head_size;
    for (std::size_t i = 0; i < rows_.q.size(); ++i) {
      const std::size_t r = i / width, head = i % width / head_size, axis = i % head_size;
      const auto at = [&](const std::vector<std::int32_t>& document, std::size_t what) {
        return static_cast<float>(own.uniform((static_cast<std::size_t>(document[r]) * heads + head) * 4 + what) - 0.5);
      };
      if (axis == 0) rows_.q[i] += at(rows_.q_document, 0);
      rows_.k[i] *= 1 + at(rows_.k_document, 1);
      if (axis == 0) rows_.k[i] += 1e-3f * at(rows_.k_document, 2) * static_cast<float>(rows_.k_position[r] - 500);
    }
  }
  layer_view<float> view() const {
    const auto head = rows_.view();
    const auto three = [](const matrix_view<const float>& x) {
      return packed_tensor(x.data, x.rows, heads, head_size);
    };
    return {three(head.q),   head.q_position, head.q_document, three(head.k),
            head.k_position, head.k_document, {0, 1, 2},       {}};
  }

 private:
  static std::vector<double> every_head(const std::vector<double>& one) {
    std::vector<double> all;
    for (index_t h = 0; h < heads; ++h) all.insert(all.end(), one.begin(), one.end());
    return all;
  }
  planted_rows<float> rows_;
};

const uniform_buckets buckets{100};

/// Numbers of a sample by name, each with its error.
using numbers = std::map<std::string, estimate>;

estimate as_estimate(const head_estimate& e) { return {e.value, e.error, e.freedom}; }

/// Plasticity under the query models of very many documents: errors are given the query model.
class plasticity_sample {
 public:
  plasticity_sample(const std::vector<query_model>& models, index_t documents, std::uint64_t seed) {
    const planted_layer layer(documents, seed, plasticity_rows);
    const auto profiles = plasticity_profile(ctx, models, layer.view());
    report_ = {"planted", context_length, buckets.edges(context_length), {}};
    for (const auto& p : profiles) {
      head_report head;
      head.profiles = {p};
      head.summaries = {summarize(p, context_length)};
      report_.heads.push_back(std::move(head));
    }
    found["a bucket"] = profiles[0].buckets[8].mean();
    found["AP"] = report_.heads[0].summaries[0].overall;
    found["AP_drop"] = report_.heads[0].summaries[0].drop;
    const auto all = summarize_heads(report_, {0, 1, 2});
    found["AP, mean over heads"] = all.overall;
    found["AP_drop, mean over heads"] = all.drop;
    const auto first = ap({0}), others = ap({1, 2});
    found["AP, difference of heads"] = as_estimate(difference_of(first, others, true));
  }
  /// AP of some heads, for differences.
  group_number ap(const std::vector<std::size_t>& of) const {
    return number_over(plasticity_between(report_, 0, context_length), of, head_statistic::mean);
  }
  numbers found;

 private:
  model_report report_;
};

/// Rotation and PCA, with documents in at most `blocks` blocks.
class geometry_sample {
 public:
  geometry_sample(index_t documents, std::uint64_t seed, index_t blocks) {
    const planted_layer layer(documents, seed);
    model_report report{"planted", context_length, buckets.edges(context_length), {}};
    report.heads = analyse_layer(ctx, layer.view(), {0, true, {0, 1, 2}, {0, 1, 2}}, report.buckets, context_length,
                                 {.plasticity = false, .geometry_blocks = blocks});
    point_ = point_of(report, "planted");
    for (const char* name : {"bias_strength", "r_k_a", "q_linear_share", "ev_pc0"}) {
      found[name] = as_estimate(over_heads(point_.column(name), {0}, head_statistic::mean));
      found[name + std::string(", mean over heads")] =
          as_estimate(over_heads(point_.column(name), {0, 1, 2}, head_statistic::mean));
    }
    found["bias, difference of heads"] = as_estimate(difference_of(bias({0}), bias({1, 2}), true));
  }
  group_number bias(const std::vector<std::size_t>& of) const {
    return number_over(point_.column("bias_strength"), of, head_statistic::mean);
  }
  numbers found;

 private:
  trajectory_point point_;
};

/// Shares of samples whose interval holds the truth.
class coverage {
 public:
  explicit coverage(numbers truth) : truth_(std::move(truth)) {}
  void add(const std::string& name, const estimate& e) {
    held_[name] += std::abs(e.value - truth_.at(name).value) <= half_width(e);
    ++samples_[name];
  }
  void add(const numbers& found) {
    for (const auto& [name, e] : found) add(name, e);
  }
  void expect_honest(index_t documents) const {
    for (const auto& [name, held] : held_) {
      const double share = held / samples_.at(name);
      EXPECT_GE(share, 0.90) << name << " over " << documents << " documents";
      EXPECT_LE(share, 0.98) << name << " over " << documents << " documents";
    }
  }

 private:
  numbers truth_;
  std::map<std::string, double> held_, samples_;
};

constexpr index_t sample_sizes[] = {3, 5, 12, 100};
int samples_of(index_t documents) { return documents > 50 ? 150 : 300; }

/// Checks the intervals of `sample(documents, seed)` against the truth, and those of the difference of its `number`
/// from that of another sample of twelve documents, which is 0.
template <class Sample, class Number>
void check_intervals(numbers truth, const char* difference, const Sample& sample, const Number& number) {
  truth[difference] = {0};
  std::vector<group_number> others;
  for (int s = 0; s < samples_of(12); ++s) others.push_back(number(sample(12, 700000 + static_cast<std::uint64_t>(s))));
  for (const index_t documents : sample_sizes) {
    coverage c(truth);
    for (int s = 0; s < samples_of(documents); ++s) {
      const auto found = sample(documents, static_cast<std::uint64_t>(1000 * documents + s));
      c.add(found.found);
      c.add(difference, as_estimate(difference_of(number(found), others[s], false)));
    }
    c.expect_honest(documents);
  }
}

TEST(intervals, plasticity) {
  const planted_layer many(4000, 1, plasticity_rows);
  const auto models = fit_queries(ctx, accumulate(ctx, many.view(), buckets, {.context_length = context_length}));
  check_intervals(
      plasticity_sample(models, 10000, 2).found, "AP, difference of samples",
      [&](index_t documents, std::uint64_t seed) { return plasticity_sample(models, documents, seed); },
      [](const plasticity_sample& s) { return s.ap({0}); });
}

TEST(intervals, geometry) {
  check_intervals(
      geometry_sample(20000, 3, 0).found, "bias, difference of samples",
      [&](index_t documents, std::uint64_t seed) { return geometry_sample(documents, seed, 10); },
      [](const geometry_sample& s) { return s.bias({0}); });
}

}  // namespace
}  // namespace qkgeom::examples::interval_coverage
