// SPDX-License-Identifier: MIT
// uploading_context gives bit for bit what the context behind it gives for the same rows.
#include "qkgeom/backend/uploading_context.hpp"

#include <thrust/system/omp/execution_policy.h>

#include "qkgeom/backend/thrust_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/report/analyse.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/common/data_files.hpp"
#include "tests/rotary/compared_grip.hpp"

namespace {

using namespace qkgeom;
using test::expect_same;
using test::moments_of;
using omp_policy = std::remove_cvref_t<decltype(thrust::omp::par)>;

/// Host memory whose type says that it lies on a device, so views of the host do not convert to its views. It holds NaN
/// before it is written and after it is released.
class far_memory {
 public:
  static constexpr memory_space space = memory_space::device;
  struct counts {
    index_t held = 0, copied = 0;  ///< allocations; bytes copied from the host
  };
  void* allocate(std::size_t bytes) const {
    ++counts_->held;
    auto* p = static_cast<unsigned char*>(std::malloc(header + bytes));
    std::memcpy(p, &bytes, sizeof bytes);
    std::memset(p + header, 0xff, bytes);
    return p + header;
  }
  void release(void* p) const {
    --counts_->held;
    std::size_t bytes = 0;
    auto* const start = static_cast<unsigned char*>(p) - header;
    std::memcpy(&bytes, start, sizeof bytes);
    std::memset(p, 0xff, bytes);
    std::free(start);
  }
  void to_host(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  void from_host(void* to, const void* from, std::size_t bytes) const {
    counts_->copied += static_cast<index_t>(bytes);
    std::memcpy(to, from, bytes);
  }
  const counts& so_far() const { return *counts_; }

 private:
  static constexpr std::size_t header = 64;
  std::shared_ptr<counts> counts_ = std::make_shared<counts>();
};

using near_context = thrust_context<omp_policy>;
using far_context = thrust_context<omp_policy, far_memory>;

struct both_contexts {
  near_context near{thrust::omp::par, {.threads = 2}};
  far_context far{thrust::omp::par, {.threads = 2}};
  uploading_context<far_context> uploading{far};
};

/// A layer of two query heads and one key head, packed, or with NaN between rows and heads.
template <class T>
class planted_layer {
 public:
  planted_layer(index_t dim, index_t documents, index_t rows, bool packed)
      : one_(plant<T>(test::compared_head(dim, documents, rows, 0.3))),
        gap_(packed ? 0 : 3),
        q_(spread(one_.q, 2)),
        k_(spread(one_.k, 1)) {}

  layer_view<T> view() const {
    const auto head = one_.view();
    const auto tensor = [&](const std::vector<T>& x, index_t heads) {
      const index_t step = one_.dim + gap_;
      return tensor_view<const T>{x.data(), head.q.rows, heads, one_.dim, heads * step + gap_, step};
    };
    return {tensor(q_, 2),   head.q_position, head.q_document, tensor(k_, 1),
            head.k_position, head.k_document, {0, 0},          {}};
  }

 private:
  std::vector<T> spread(const std::vector<T>& x, index_t heads) const {
    const T nonsense = round_to<T>(std::nan(""));
    std::vector<T> to;
    for (std::size_t row = 0; row < x.size(); row += one_.dim) {
      for (index_t h = 0; h < heads; ++h) {
        for (index_t c = 0; c < one_.dim; ++c)  // coordinates in another order make another head
          to.push_back(x[row + (c + h) % one_.dim]);
        to.insert(to.end(), gap_, nonsense);
      }
      to.insert(to.end(), gap_, nonsense);
    }
    return to;
  }

  planted_rows<T> one_;
  index_t gap_;
  std::vector<T> q_, k_;
};

template <class T>
class uploading : public testing::Test {};
using elements = testing::Types<bf16, f16, float, double>;
TYPED_TEST_SUITE(uploading, elements);

TYPED_TEST(uploading, gives_what_the_context_behind_it_gives) {
  for (const bool packed : {true, false}) {
    both_contexts c;
    const planted_layer<TypeParam> planted(9, 3, 50, packed);
    const auto layer = planted.view();
    const auto moments = moments_of(c.near, layer);
    ASSERT_EQ(moments_of(c.uploading, layer), moments);
    EXPECT_EQ(pca(c.uploading, moments)[1].explained_variance, pca(c.near, moments)[1].explained_variance);
    EXPECT_EQ(planar_rotation(c.uploading, moments)[1].bias.strength,
              planar_rotation(c.near, moments)[1].bias.strength);
    const auto models = fit_queries(c.near, moments, {.covariance = covariance_kind::joint});
    const auto same_models = fit_queries(c.uploading, moments, {.covariance = covariance_kind::joint});
    EXPECT_EQ(fingerprint(same_models[1]), fingerprint(models[1]));
    const auto same = [&](const auto& pairs, const profile_options& options) {
      expect_same(plasticity_profile(c.uploading, models, layer, pairs, options),
                  plasticity_profile(c.near, models, layer, pairs, options));
    };
    same(all_pairs{}, {.heatmap = true});
    same(all_pairs{true}, {.heatmap = true, .precision = pair_precision::f64, .terms = true});
    same(prefix_uniform{}, {});
    same(sampled{.n = 50, .seed = 4}, {.heatmap = true, .terms = true});
    expect_same(empirical_profile(c.uploading, layer, uniform_buckets{150}, 1000),
                empirical_profile(c.near, layer, uniform_buckets{150}, 1000));
    EXPECT_EQ(c.far.memory().so_far().held, 0);
  }
}

TEST(uploading_context, grip_is_the_cpus) {
  both_contexts c;
  test::expect_grip_of_cpu(test::grip_on(c.uploading));
  EXPECT_EQ(c.far.memory().so_far().held, 0);
}

TEST(uploading_context, weights_of_the_host_alone_are_summed_there) {
  both_contexts c;
  cpu_context cpu{{.threads = 2}};
  const planted_layer<bf16> planted(7, 2, 40, false);
  const auto models = fit_queries(cpu, moments_of(cpu, planted.view()));
  const auto close = [](const key_pair& p) { return p.distance() < 300 ? 1.0 / static_cast<double>(p.j) : 0.0; };
  const auto copied = c.far.memory().so_far().copied;
  expect_same(plasticity_profile(c.uploading, models, planted.view(), close, {.heatmap = true}),
              plasticity_profile(cpu, models, planted.view(), close, {.heatmap = true}));
  EXPECT_EQ(c.far.memory().so_far().copied, copied);
}

TEST(uploading_context, copies_the_heads_of_a_view_and_no_others) {
  both_contexts c;
  const planted_layer<float> planted(8, 2, 40, true);
  const auto layer = planted.view();
  const tensor_view<const float> second{layer.q.data + 8, 80, 1, 8, 16, 8};
  const std::vector<std::int32_t> bucket(80, -1);
  const auto& copied = c.far.memory().so_far().copied;
  const auto by_the_context = [&](index_t rows, index_t heads) {  // bytes that it copies beside the values
    const far_memory& memory = c.far.memory();
    const buffer<float, far_memory> x(memory, std::vector<float>(rows * heads * 8, 1.0f));
    const buffer<std::int32_t, far_memory> t(memory, std::vector<std::int32_t>(rows));
    const index_t before = copied;
    c.far.moments("q", tensor_view<const float, memory_space::device>{x.data(), rows, heads, 8, heads * 8, 8},
                  vector_view<const std::int32_t, memory_space::device>{t.data(), rows}, bucket, 0, scatter_kind::full);
    return copied - before;
  };
  const index_t beside = by_the_context(80, 1), before = copied;
  EXPECT_EQ(c.uploading.moments("q", second, layer.q_position, bucket, 0, scatter_kind::full),
            c.near.moments("q", second, layer.q_position, bucket, 0, scatter_kind::full));
  EXPECT_EQ(copied - before, beside + 80 * 8 * 4 + 80 * 4);
}

TEST(uploading_context, copies_the_keys_of_a_prepared_layer_once) {
  both_contexts c;
  const planted_layer<float> planted(8, 2, 40, false), other(8, 2, 40, false);
  const auto layer = planted.view();
  const auto models = fit_queries(c.near, moments_of(c.near, layer));
  const far_memory::counts& so_far = c.far.memory().so_far();
  const auto copied_by = [&](const layer_view<float>& of) {
    const index_t before = so_far.copied;
    expect_same(plasticity_profile(c.uploading, models, of), plasticity_profile(c.near, models, of));
    return so_far.copied - before;
  };
  const index_t keys = layer.k.rows * layer.k.dim * 4, alone = copied_by(layer);
  {
    const index_t before = so_far.copied;
    prepared_layer prepared(c.uploading, layer);
    EXPECT_EQ(so_far.copied - before, keys);
    for (int call = 0; call < 2; ++call) {
      const index_t earlier = so_far.copied;
      expect_same(plasticity_profile(c.uploading, models, prepared), plasticity_profile(c.near, models, layer));
      EXPECT_EQ(so_far.copied - earlier, alone - keys);
    }
    EXPECT_EQ(copied_by(layer), alone - keys);
    EXPECT_EQ(copied_by(other.view()), alone);
  }
  EXPECT_EQ(so_far.held, 0);
  EXPECT_EQ(copied_by(layer), alone);
}

TEST(uploading_context, takes_heads_in_another_order) {
  both_contexts c;
  const planted_layer<float> planted(8, 2, 40, true);
  const auto layer = planted.view();
  const tensor_view<const float> reversed{layer.q.data + 8, 80, 2, 8, 16, -8};
  const std::vector<std::int32_t> bucket(80, 0);
  EXPECT_EQ(c.uploading.moments("q", reversed, layer.q_position, bucket, 1, scatter_kind::full),
            c.near.moments("q", reversed, layer.q_position, bucket, 1, scatter_kind::full));
}

TEST(uploading_context, rows_beyond_one_piece_and_no_rows) {
  both_contexts c;
  const index_t rows = (index_t{1} << 22) / 4 + 1000;  // a piece is 2^22 values
  std::vector<bf16> x(5 * rows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bf16::round(static_cast<float>(i % 8191) - 3000);
  std::vector<std::int32_t> position(rows), bucket(position.size(), 0);
  for (std::size_t i = 0; i < position.size(); ++i) position[i] = static_cast<std::int32_t>(i);
  for (const index_t n : {rows, index_t{0}}) {
    bucket.resize(n);
    const tensor_view<const bf16> view{x.data(), n, 1, 4, 5, 4};
    const vector_view<const std::int32_t> at{position.data(), n};
    EXPECT_EQ(c.uploading.moments("k", view, at, bucket, 1, scatter_kind::full),
              c.near.moments("k", view, at, bucket, 1, scatter_kind::full));
  }
}

TEST(uploading_context, analyses_a_capture) {
  both_contexts c;
  for (const char* name : {"long-bf16", "long-f64"}) {
    const auto source = capture_set::open({test::golden(name + std::string(".safetensors"))});
    analysis_options options;
    options.bucket_edges = {0, 1024, 2048, 4096};
    const auto a = analyse(c.uploading, source, options), b = analyse(c.near, source, options);
    ASSERT_EQ(a.heads.size(), b.heads.size());
    ASSERT_GT(a.heads.size(), 0u);
    for (std::size_t h = 0; h < a.heads.size(); ++h) {
      const auto &x = a.heads[h], &y = b.heads[h];
      EXPECT_EQ(x.pca.explained_variance, y.pca.explained_variance);
      EXPECT_EQ(x.pca.r_q, y.pca.r_q);
      EXPECT_EQ(x.rotation.bias.strength, y.rotation.bias.strength);
      EXPECT_EQ(x.sigma2_pos, y.sigma2_pos);
      expect_same(x.profiles, y.profiles);
      expect_same(*x.empirical, *y.empirical);
    }
  }
}

}  // namespace
