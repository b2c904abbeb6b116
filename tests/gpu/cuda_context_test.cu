// SPDX-License-Identifier: MIT
// cuda_context against cpu_context, every primitive. Skipped where there is no CUDA device.
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/backend/uploading_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/report/analyse_layer.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/rotary/compared_grip.hpp"

namespace {

using namespace qkgeom;
using test::distance;
using test::moments_of;
using test::terms_agree;
constexpr auto device = memory_space::device;

/// A copy on the device.
template <class T>
class on_device {
 public:
  explicit on_device(const std::vector<T>& x) : size_(static_cast<index_t>(x.size())) {
    cuda_kernels::check(cudaMalloc(&data_, x.size() * sizeof(T)), "cudaMalloc");
    cuda_kernels::check(cudaMemcpy(data_, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    cuda_kernels::check(cudaDeviceSynchronize(), "waiting for a copy");  // the tests' streams do not wait for it
  }
  on_device(const on_device&) = delete;
  ~on_device() { cudaFree(data_); }
  vector_view<const T, device> view() const { return {data_, size_}; }
  matrix_view<const T, device> rows(index_t d) const { return {data_, size_ / d, d, d}; }

 private:
  T* data_ = nullptr;
  index_t size_;
};

/// A planted head on the host and on the device.
template <class T>
struct planted_pair {
  planted_rows<T> here;
  on_device<T> q, k;
  on_device<std::int32_t> q_position, q_document, k_position, k_document;

  explicit planted_pair(const planted_head& spec)
      : here(plant<T>(spec)),
        q(here.q),
        k(here.k),
        q_position(here.q_position),
        q_document(here.q_document),
        k_position(here.k_position),
        k_document(here.k_document) {}
  head_view<T> host(std::optional<index_t> window = {}) const {
    auto view = here.view();
    view.window = window;
    return view;
  }
  head_view<T, device> far(std::optional<index_t> window = {}) const {
    return {q.rows(here.dim),
            q_position.view(),
            q_document.view(),
            k.rows(here.dim),
            k_position.view(),
            k_document.view(),
            window};
  }
};

class on_gpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda_kernels::require_device();
    } catch (const error& e) {
      GTEST_SKIP() << e.what();
    }
    cuda_kernels::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  void TearDown() override {
    if (stream) cudaStreamDestroy(stream);
  }
  cudaStream_t stream = nullptr;
  cpu_context cpu{{.threads = 2}};
};

template <class T>
void moments_agree(cpu_context& cpu, cudaStream_t stream) {
  cuda_context gpu{{.stream = stream}};
  for (const double common : {0.3, 100.0}) {
    const planted_pair<T> head(test::compared_head(20, 3, 300, common));
    const auto a = moments_of(gpu, head.far()), b = moments_of(cpu, head.host());
    const double norm = dense::norm(b.k.total.xx);
    for (std::size_t i = 0; i < b.k.total.xx.size(); ++i) EXPECT_NEAR(a.k.total.xx[i], b.k.total.xx[i], 1e-11 * norm);
    for (std::size_t s = 0; s < b.q.bucket.size(); ++s) {
      EXPECT_EQ(a.q.bucket[s].count, b.q.bucket[s].count);
      EXPECT_NEAR(a.q.bucket[s].xt[3], b.q.bucket[s].xt[3], 1e-9 * (1 + std::abs(b.q.bucket[s].xt[3])));
      EXPECT_NEAR(a.q.bucket[s].mean[5], b.q.bucket[s].mean[5], 1e-11 * (1 + common));
    }
    const auto p = pca(gpu, a), q = pca(cpu, b);
    for (std::size_t i = 0; i < p.explained_variance.size(); ++i)
      EXPECT_NEAR(p.explained_variance[i], q.explained_variance[i], 1e-10);
  }
}

TEST_F(on_gpu, moments_and_components_agree) {
  moments_agree<bf16>(cpu, stream);
  moments_agree<float>(cpu, stream);
  moments_agree<double>(cpu, stream);
}

TEST_F(on_gpu, a_row_that_is_not_finite_is_named) {
  cuda_context gpu{{.stream = stream}};
  auto rows = plant<float>(test::compared_head(5, 2, 40, 0));
  rows.k[7 * 5 + 2] = std::nanf("");
  const on_device<float> k(rows.k);
  const on_device<std::int32_t> t(rows.k_position);
  const std::vector<std::int32_t> bucket(rows.k_position.size(), 0);
  const tensor_view<const float, device> view{k.view().data, 80, 1, 5, 5, 5};
  EXPECT_EQ(test::message_of([&] { gpu.moments("k", view, t.view(), bucket, 1, scatter_kind::full); }),
            "k head 0 row 7 holds a value that is not finite");
}

TEST_F(on_gpu, factors_give_their_matrix_back) {
  cuda_context gpu{{.stream = stream}};
  const index_t d = 12, rank = 5;
  std::vector<double> root(d * rank), m(d * d);
  const random_stream draws{.seed = 2};
  for (std::size_t i = 0; i < root.size(); ++i) root[i] = draws.uniform(i) - 0.5;
  const auto product = [&](const std::vector<double>& f, index_t r, index_t i, index_t j) {
    double sum = 0;
    for (index_t c = 0; c < r; ++c) sum += f[i * r + c] * f[j * r + c];
    return sum;
  };
  for (index_t i = 0; i < d; ++i)
    for (index_t j = 0; j < d; ++j) m[i * d + j] = product(root, rank, i, j);
  const auto found = gpu.cholesky({&m, &m}, d);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_GE(found[1].rank, rank);  // an eigenvalue of 0 may come out above what counts as 0
  EXPECT_LE(found[1].rank, d);
  for (index_t i = 0; i < d; ++i)
    for (index_t j = 0; j < d; ++j) EXPECT_NEAR(product(found[1].factor, found[1].rank, i, j), m[i * d + j], 1e-13);
}

TEST_F(on_gpu, rows_rotate_as_on_the_host) {
  cuda_context gpu{{.stream = stream}};
  const planted_pair<bf16> head(test::compared_head(72, 3, 300, 0.3));
  const auto n = static_cast<index_t>(head.here.k_position.size());
  std::vector<std::int32_t> moved(n);
  for (index_t i = 0; i < n; ++i) moved[i] = 64 * head.here.k_position[i];
  const on_device<std::int32_t> far_moved(moved);
  captured_rope rope{"half", 64, 1.2, {}};
  for (int p = 0; p < 32; ++p) rope.inv_freq.push_back(std::pow(1e4, -p / 32.0));
  const row_rotation rotation = rotation_between(&rope, rope);
  std::vector<float> want(n * 72), found(n * 72);
  cpu.rotate_rows(packed_tensor(head.here.k.data(), n, 1, 72), {head.here.k_position.data(), n}, rotation,
                  {moved.data(), n}, packed_tensor(want.data(), n, 1, 72));
  const on_device<float> y(found);
  gpu.rotate_rows(tensor_view<const bf16, device>{head.k.view().data, n, 1, 72, 72, 72}, head.k_position.view(),
                  rotation, far_moved.view(),
                  tensor_view<float, device>{const_cast<float*>(y.view().data), n, 1, 72, 72, 72});
  cuda_kernels::check(cudaStreamSynchronize(stream), "waiting for the rotated rows");
  cuda_kernels::check(cudaMemcpy(found.data(), y.view().data, found.size() * sizeof(float), cudaMemcpyDeviceToHost),
                      "cudaMemcpy");
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], want[i], 1e-6 * (1 + std::abs(want[i]))) << i;
}

TEST_F(on_gpu, grip_is_the_cpus) {
  cuda_context gpu{{.stream = stream}};
  test::expect_grip_of_cpu([&]<class T>(const test::grip_rows<T>& rows, const std::optional<captured_rope>& rope,
                                        const vector_view<const std::int32_t>& tokens, const grip_options& options,
                                        bool counted) {
    const auto here = rows.layer();
    const on_device<T> q(rows.q), k(rows.k);
    const on_device<std::int32_t> at(rows.position), of(rows.document);
    const auto far = [](const on_device<T>& x, const tensor_view<const T>& same) {
      return tensor_view<const T, device>{x.view().data, same.rows,       same.heads,
                                          same.dim,      same.row_stride, same.head_stride};
    };
    const layer_view<T, device> layer{far(q, here.q), at.view(), of.view(),         far(k, here.k),
                                      at.view(),      of.view(), here.key_of_query, here.window};
    return counted ? counted_grip(gpu, layer, rope, tokens, options) : grip(gpu, layer, rope, tokens, options);
  });
}

TEST_F(on_gpu, the_pair_kernel_errs_by_at_most_1e_5_and_fast_products_by_what_is_stated) {
  cuda_context split{{.stream = stream}}, fast{{.stream = stream, .products = gram_products::bf16}};
  double worst = 0, fast_worst = 0;
  for (const index_t rows : {40, 300})
    for (const double common : {0.3, 1000.0})
      for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint}) {
        const planted_pair<float> head(test::compared_head(72, 3, rows, common));
        const auto model = fit_queries(cpu, moments_of(cpu, head.host()), {.covariance = kind});
        for (const bool across : {false, true})
          for (const auto window : {std::optional<index_t>(), std::optional<index_t>(300)}) {
            const auto want = plasticity_profile(cpu, model, head.host(window), all_pairs{across},
                                                 {.heatmap = true, .precision = pair_precision::f64});
            const profile_options options{.heatmap = true};
            worst = std::fmax(
                worst, distance(plasticity_profile(split, model, head.far(window), all_pairs{across}, options), want));
            fast_worst = std::fmax(
                fast_worst,
                distance(plasticity_profile(fast, model, head.far(window), all_pairs{across}, options), want));
          }
      }
  RecordProperty("split_worst", std::to_string(worst));
  RecordProperty("fast_worst", std::to_string(fast_worst));
  EXPECT_LE(worst, 1e-5);
  EXPECT_LE(fast_worst, 2e-2);
}

struct plasticity_of {
  const float *m, *v;
  float* to;
  QKGEOM_HD void operator()(index_t i) const { to[i] = tile::plasticity(m[i], v[i]); }
};

TEST_F(on_gpu, f32_plasticity_errs_by_at_most_6e_7_and_is_never_negative) {
  std::vector<float> m, v;
  for (const double of : {0.031, 1.0, 27.0})
    for (double z = 0; z < 30; z += 1e-4) {
      m.push_back(static_cast<float>(z * std::sqrt(of)));
      v.push_back(static_cast<float>(of));
    }
  m.push_back(1e17f);
  v.push_back(tile::least_v<float>);
  const on_device<float> far_m(m), far_v(v);
  const cuda_kernels::device_memory memory(stream);
  const buffer<float, cuda_kernels::device_memory> far(memory, static_cast<index_t>(m.size()));
  thrust::for_each_n(thrust::cuda::par.on(stream), thrust::counting_iterator<index_t>(0), far.size(),
                     plasticity_of{far_m.view().data, far_v.view().data, far.data()});
  const auto p = far.host();
  double worst = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    ASSERT_GE(p[i], 0.0f);
    worst = std::fmax(worst, std::abs(static_cast<double>(p[i]) - pair_plasticity(m[i], v[i])));
  }
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LE(worst, 6e-7);
  EXPECT_GT(worst, 1e-9);
}

TEST_F(on_gpu, equal_keys_have_plasticity_1) {
  cuda_context gpu{{.stream = stream}};
  auto spec = test::compared_head(32, 2, 200, 0);
  spec.root_k.assign(32 * 32, 0.0);
  spec.drift_k.clear();
  const planted_pair<float> head(spec);
  const auto model = fit_queries(cpu, moments_of(cpu, head.host()));
  EXPECT_EQ(plasticity_profile(gpu, model, head.far()).buckets.back().plasticity, 1);
}

TEST_F(on_gpu, in_f64_weights_terms_draws_and_observed_queries_agree) {
  cuda_context gpu{{.stream = stream}};
  const planted_pair<double> head(test::compared_head(10, 3, 60, 0.3));
  const auto model = fit_queries(cpu, moments_of(cpu, head.host()), {.covariance = covariance_kind::joint});
  EXPECT_LE(distance(plasticity_profile(gpu, model, head.far(), prefix_uniform{}),
                     plasticity_profile(cpu, model, head.host(), prefix_uniform{})),
            1e-12);
  const profile_options options{.heatmap = true, .terms = true};
  const auto a = plasticity_profile(gpu, model, head.far(), sampled{.n = 100, .seed = 3}, options);
  const auto b = plasticity_profile(cpu, model, head.host(), sampled{.n = 100, .seed = 3}, options);
  EXPECT_LE(distance(a, b), 1e-12);
  const auto x = plasticity_profile(gpu, model, head.far(), all_pairs{}, options);
  const auto y = plasticity_profile(cpu, model, head.host(), all_pairs{}, options);
  for (std::size_t i = 0; i < y.buckets.back().term_sum.size(); ++i)
    EXPECT_NEAR(x.buckets.back().term_sum[i], y.buckets.back().term_sum[i],
                1e-9 * (1 + std::abs(y.buckets.back().term_sum[i])));
  EXPECT_LE(distance(empirical_profile(gpu, head.far(), uniform_buckets{150}, 1000),
                     empirical_profile(cpu, head.host(), uniform_buckets{150}, 1000)),
            1e-12);
  EXPECT_THROW(plasticity_profile(gpu, model, head.far(), [](const key_pair&) { return 1.0; }), error);
}

TEST_F(on_gpu, in_f32_weights_terms_draws_and_observed_queries_err_by_at_most_1e_5) {
  cuda_context gpu{{.stream = stream}};
  for (const index_t rows : {40, 500})
    for (const bool across : {false, true}) {
      const planted_pair<float> head(test::compared_head(72, 3, rows, 20));
      const std::optional<index_t> window(across ? 300 : 1000);
      const auto here = head.host(window);
      const auto far = head.far(window);
      const auto model = fit_queries(cpu, moments_of(cpu, head.host()), {.covariance = covariance_kind::joint});
      const auto weighted = plasticity_profile(gpu, model, far, prefix_uniform{across});
      const auto want =
          plasticity_profile(cpu, model, here, prefix_uniform{across}, {.precision = pair_precision::f64});
      for (std::size_t b = 1; b < want.buckets.size(); ++b) {
        EXPECT_NEAR(weighted.buckets[b].plasticity, want.buckets[b].plasticity, 1e-5);
        EXPECT_EQ(weighted.buckets[b].pairs, want.buckets[b].pairs);
      }
      const profile_options all{.heatmap = true, .terms = true};
      const auto x = plasticity_profile(gpu, model, far, all_pairs{across}, all);
      const auto y = plasticity_profile(cpu, model, here, all_pairs{across}, all);
      EXPECT_LE(distance(x, y), 1e-5);
      terms_agree(x, y, 1e-5);
      for (std::size_t i = 0; i < y.heatmap.terms.square.size(); i += heatmap_terms::values)
        EXPECT_NEAR(x.heatmap.terms.square[i], y.heatmap.terms.square[i], 4e-5 * y.heatmap.terms.square[i]);
      const sampled draws{.n = 200, .seed = 3, .across_documents = across};
      const auto drawn = plasticity_profile(gpu, model, far, draws, all);
      const auto same = plasticity_profile(cpu, model, here, draws, all);
      for (std::size_t b = 1; b < same.buckets.size(); ++b) {
        EXPECT_NEAR(drawn.buckets[b].plasticity, same.buckets[b].plasticity, 1e-12);
        EXPECT_NEAR(drawn.buckets[b].sampling_error, same.buckets[b].sampling_error, 1e-12);
      }
      terms_agree(drawn, same, 1e-9);
      const empirical_options options{.across_documents = across};
      EXPECT_LE(distance(empirical_profile(gpu, as_layer(far), uniform_buckets{150}, 1000, options)[0],
                         empirical_profile(cpu, as_layer(here), uniform_buckets{150}, 1000, options)[0]),
                1e-5);
    }
}

/// Kernels with and without heatmap, weight and terms, of split and of fast products, on little data.
TEST_F(on_gpu, small_profiles_are_the_same_with_a_heatmap_and_without) {
  cuda_context split{{.stream = stream}}, fast{{.stream = stream, .products = gram_products::bf16}};
  const planted_pair<float> head(test::compared_head(40, 3, 140, 0.3));
  const auto model = fit_queries(cpu, moments_of(cpu, head.host()));
  for (const bool across : {false, true}) {
    const auto same = [&](const auto& pairs, cuda_context& ctx, bool terms) {
      const auto with = plasticity_profile(ctx, model, head.far(), pairs, {.heatmap = true, .terms = terms});
      const auto without = plasticity_profile(ctx, model, head.far(), pairs, {.terms = terms});
      for (std::size_t b = 1; b < with.buckets.size(); ++b) {
        EXPECT_EQ(without.buckets[b].pairs, with.buckets[b].pairs);
        EXPECT_NEAR(without.buckets[b].plasticity, with.buckets[b].plasticity, 1e-7);
      }
      if (terms) terms_agree(without, with, 1e-6);
      return with;
    };
    for (auto* ctx : {&split, &fast})
      for (const bool terms : {false, true}) same(all_pairs{across}, *ctx, terms);
    same(prefix_uniform{across}, fast, false);
    const auto weighted = same(prefix_uniform{across}, split, false),
               want = plasticity_profile(cpu, model, head.host(), prefix_uniform{across}, {.heatmap = true});
    ASSERT_EQ(weighted.heatmap.sum.size(), want.heatmap.sum.size());
    for (std::size_t c = 0; c < want.heatmap.sum.size(); ++c) {
      const double weight = want.heatmap.weight[c];
      EXPECT_NEAR(weighted.heatmap.weight[c], weight, 1e-9 * weight);
      EXPECT_NEAR(weighted.heatmap.sum[c], want.heatmap.sum[c], 1e-5 * weight);
    }
  }
}

TEST_F(on_gpu, results_do_not_depend_on_the_run_or_on_how_distributions_share_launches) {
  const planted_pair<float> head(test::compared_head(64, 4, 400, 0.3));
  const auto model = fit_queries(cpu, moments_of(cpu, head.host()));
  cuda_context one{{.stream = stream}}, small{{.stream = stream, .scratch_bytes = 1 << 20}};
  const auto a = plasticity_profile(one, model, head.far(), all_pairs{true}, {.heatmap = true});
  for (auto* ctx : {&one, &small}) {
    const auto b = plasticity_profile(*ctx, model, head.far(), all_pairs{true}, {.heatmap = true});
    EXPECT_EQ(a.heatmap.sum, b.heatmap.sum);
    for (std::size_t i = 1; i < a.buckets.size(); ++i) EXPECT_EQ(a.buckets[i].plasticity, b.buckets[i].plasticity);
  }
}

TEST_F(on_gpu, small_rows_of_the_host_give_what_rows_of_the_device_give) {
  cuda_context gpu{{.stream = stream}};
  uploading_context uploading{gpu};
  const planted_pair<float> head(test::compared_head(12, 3, 60, 0.3));
  const auto moments = moments_of(cpu, head.host()), got = moments_of(uploading, head.host());
  EXPECT_EQ(got.q.total.count, moments.q.total.count);
  EXPECT_NEAR(got.k.total.mean[3], moments.k.total.mean[3], 1e-12);
  const auto model = fit_queries(cpu, moments);
  EXPECT_LE(distance(plasticity_profile(uploading, model, head.host(), all_pairs{}, {.heatmap = true}),
                     plasticity_profile(gpu, model, head.far(), all_pairs{}, {.heatmap = true})),
            1e-12);
  EXPECT_LE(distance(empirical_profile(uploading, head.host(), uniform_buckets{150}, 1000),
                     empirical_profile(gpu, head.far(), uniform_buckets{150}, 1000)),
            1e-12);
  const auto weight = [](const key_pair& p) { return p.distance() < 200; };
  EXPECT_LE(distance(plasticity_profile(uploading, model, head.host(), weight),
                     plasticity_profile(cpu, model, head.host(), weight)),
            0);
}

TEST_F(on_gpu, a_layer_that_lies_on_the_device_is_analysed_as_one_of_the_host) {
  cuda_context gpu{{.stream = stream}};
  uploading_context uploading{gpu};
  const planted_pair<double> head(test::compared_head(12, 3, 60, 0.3));
  const auto analysed = [](auto& ctx, const auto& rows) {
    return analyse_layer(ctx, as_layer(rows), {0, true, {0}, {0}}, uniform_buckets{150}.edges(1000), 1000,
                         {.heatmap = true, .geometry_blocks = 3})
        .front();
  };
  const auto a = analysed(gpu, head.far()), b = analysed(uploading, head.host());
  EXPECT_EQ(a.queries, b.queries);
  EXPECT_LE(distance(a.profiles.at(0), b.profiles.at(0)), 1e-12);
  EXPECT_LE(distance(a.empirical.value(), b.empirical.value()), 1e-12);
  EXPECT_NEAR(a.rotation.bias.strength, b.rotation.bias.strength, 1e-9);
  ASSERT_EQ(a.geometry.without.size(), 3u);
  EXPECT_NEAR(a.geometry.without[1].rotation.bias.strength, b.geometry.without[1].rotation.bias.strength, 1e-9);
}

static_assert(
    !std::is_invocable_v<decltype([](auto& ctx, auto x) -> decltype(ctx.host_copy(x)) { return ctx.host_copy(x); }),
                         cuda_context&, vector_view<const float>>);

}  // namespace
