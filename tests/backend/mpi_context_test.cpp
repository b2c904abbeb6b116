// SPDX-License-Identifier: MIT
// mpi_context, with threads in place of processes: any number of them gives every bit of one, whoever holds which
// document, and what the context behind it gives up to rounding.
#include "qkgeom/backend/mpi_context.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/rotation.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/common/refusal.hpp"
#include "tests/common/threads_as_processes.hpp"

namespace {

using namespace qkgeom;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr index_t documents = 11, dim = 8;

/// Rows of some of the documents of a head.
planted_rows<float> rows_of(const planted_rows<float>& all, const std::function<bool(std::int32_t)>& wanted) {
  planted_rows<float> some{all.dim, {}, {}, {}, {}, {}, {}};
  const auto side = [&](const auto& x, const auto& position, const auto& document, auto& to, auto& to_position,
                        auto& to_document) {
    for (std::size_t i = 0; i < document.size(); ++i) {
      if (!wanted(document[i])) continue;
      to.insert(to.end(), x.begin() + static_cast<index_t>(i) * all.dim,
                x.begin() + static_cast<index_t>(i + 1) * all.dim);
      to_position.push_back(position[i]);
      to_document.push_back(document[i]);
    }
  };
  side(all.q, all.q_position, all.q_document, some.q, some.q_position, some.q_document);
  side(all.k, all.k_position, all.k_document, some.k, some.k_position, some.k_document);
  return some;
}

const planted_rows<float>& all_rows() {
  static const auto rows = plant<float>(test::compared_head(dim, documents, 60, 0.2));
  return rows;
}

struct results {
  head_moments moments;
  pca_result pca;
  rotation_result rotation;
  plasticity_profile_result profile, weighted, observed;
};

template <class Context>
results analyse_head(Context& ctx, const head_view<float>& head) {
  results r;
  r.moments = test::moments_of(ctx, head);
  r.pca = pca(ctx, r.moments);
  r.rotation = planar_rotation(ctx, r.moments);
  const auto model = fit_queries(ctx, r.moments, {.covariance = covariance_kind::joint});
  r.profile = plasticity_profile(ctx, model, head, all_pairs{}, {.heatmap = true, .terms = true});
  r.weighted = plasticity_profile(ctx, model, head, test::odd_weight{}, {.heatmap = true, .heatmap_cell = 70});
  observed_queries<float> queries(bucket_edges(r.moments.buckets), 500, 3);
  const auto layer = as_layer(all_rows().view());
  queries.add(layer);
  r.observed = std::move(empirical_profile(ctx, queries.take(), as_layer(head), r.moments.buckets)[0]);
  return r;
}

/// Every number, as text of its bits.
std::string bits(const results& r) {
  std::string all = bytes_of(std::vector<side_moments>{r.moments.q, r.moments.k});
  for (const auto* x : {&r.pca.explained_variance, &r.pca.components, &r.pca.r_q, &r.pca.r_k, &r.rotation.drift_axis,
                        &r.rotation.separation_axis})
    all += bytes_of(*x);
  for (const auto* p : {&r.profile, &r.weighted, &r.observed}) {
    all += bytes_of(p->documents) + bytes_of(p->heatmap.sum) + bytes_of(p->heatmap.weight) + bytes_of(p->heatmap.terms);
    for (const auto& b : p->buckets)
      all += bytes_of(b.plasticity) + bytes_of(b.standard_error) + bytes_of(b.document_sum) +
             bytes_of(b.document_weight) + bytes_of(b.term_sum) + bytes_of(b.pairs);
  }
  return all;
}

enum class deal { in_turn, in_stretches, all_to_the_last };

int holder(deal how, int processes, std::int32_t document) {
  if (how == deal::in_turn) return document % processes;
  if (how == deal::in_stretches) return static_cast<int>(document * processes / documents);
  return processes - 1;
}

/// What each process gets.
std::vector<results> together(int processes, deal how) {
  test::threads_as_processes group_of_threads(processes);
  std::vector<results> found(processes);
  EXPECT_THAT(group_of_threads.run([&](process_group& group) {
    const auto own = rows_of(all_rows(), [&](std::int32_t e) { return holder(how, processes, e) == group.rank(); });
    cpu_context cpu{{.threads = 1}};
    mpi_context ctx(cpu, group);
    found[group.rank()] = analyse_head(ctx, own.view());
  }),
              Each(IsEmpty()));
  return found;
}

TEST(mpi_context, any_number_of_processes_gives_every_bit_of_one) {
  const std::string one = bits(together(1, deal::in_turn)[0]);
  for (const int n : {2, 3, 4, 7})
    for (const deal how : {deal::in_turn, deal::in_stretches, deal::all_to_the_last})
      for (const auto& found : together(n, how)) EXPECT_TRUE(bits(found) == one) << n << " processes";
}

TEST(mpi_context, is_near_the_context_behind_it) {
  const auto spread = together(3, deal::in_turn)[1];
  cpu_context cpu{{.threads = 1}};
  const auto whole = analyse_head(cpu, all_rows().view());
  // n rows of sizes up to s in f64: each of n additions rounds once, here and there, and so does each merge.
  const double n = static_cast<double>(documents * 60), eps = std::numeric_limits<double>::epsilon();
  for (const auto& [a, b] : {std::pair{&spread.moments.q, &whole.moments.q}, {&spread.moments.k, &whole.moments.k}}) {
    ASSERT_EQ(a->bucket.size(), b->bucket.size());
    const auto near = [&](const row_moments& x, const row_moments& y) {
      EXPECT_EQ(x.count, y.count);
      for (index_t i = 0; i < dim; ++i) {
        const double size = std::abs(y.mean[i]) + std::sqrt(y.xx_diagonal(i) / std::fmax(1, y.count));
        EXPECT_NEAR(x.mean[i], y.mean[i], 2 * n * eps * size);
        EXPECT_NEAR(x.xx_diagonal(i), y.xx_diagonal(i), 4 * n * eps * size * size * n);
        EXPECT_NEAR(x.xt[i], y.xt[i], 4 * n * eps * size * 1000 * n);
      }
    };
    near(a->total, b->total);
    for (std::size_t i = 0; i < a->bucket.size(); ++i) near(a->bucket[i], b->bucket[i]);
  }
  EXPECT_NEAR(spread.pca.r_q[0], whole.pca.r_q[0], 1e-12);
  EXPECT_LT(test::distance(spread.profile, whole.profile), 1e-6);  // pairs in f32
  for (std::size_t b = 1; b < whole.weighted.buckets.size(); ++b)  // sums of weights round too
    EXPECT_NEAR(spread.weighted.buckets[b].plasticity, whole.weighted.buckets[b].plasticity, 1e-6);
  EXPECT_LT(test::distance(spread.observed, whole.observed), 1e-6);
  EXPECT_LT(test::distance_of_errors(spread.profile, whole.profile), 1e-6);
  test::terms_agree(spread.profile, whole.profile, 1e-9);
}

/// A process_group that counts what passes through another.
class counting_group final : public process_group {
 public:
  explicit counting_group(process_group& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::vector<std::string> gather(const std::string& text) override { return sent(text), group_.gather(text); }
  void collect(const std::string& text, const std::function<void(const std::string&)>& take) override {
    sent(text);
    group_.collect(text, take);
  }
  std::string broadcast(const std::string& text) override { return ++calls, group_.broadcast(text); }

  index_t calls = 0, bytes = 0;

 private:
  void sent(const std::string& text) {
    ++calls;
    bytes += static_cast<index_t>(text.size());
  }
  process_group& group_;
};

TEST(mpi_context, sends_as_often_with_more_processes_and_at_most_one_value_per_document) {
  std::map<int, index_t> calls, bytes;
  for (const int n : {2, 3, 7}) {
    test::threads_as_processes processes(n);
    std::mutex mutex;
    processes.run([&](process_group& group) {
      const auto own = rows_of(all_rows(), [&](std::int32_t e) { return e % n == group.rank(); });
      cpu_context cpu{{.threads = 1}};
      counting_group counted(group);
      mpi_context ctx(cpu, counted);
      test::moments_of(ctx, own.view());
      const std::lock_guard lock(mutex);
      calls[n] = counted.calls;
      bytes[n] += counted.bytes;
    });
  }
  EXPECT_EQ(calls[3], calls[2]);
  EXPECT_EQ(calls[7], calls[2]);
  // Moments of a document: 7 buckets and all rows, each d means, d covariances with t and d^2 of x, on each side.
  const index_t of_document = 2 * 8 * (3 + 2 * dim + dim * dim + 3) * 8, small = 1000 * 7;
  EXPECT_LT(bytes[7], documents * of_document + small);
  EXPECT_GT(bytes[7], bytes[2]);
}

/// What two processes throw.
std::vector<std::string> errors_of(const std::function<void(mpi_context<cpu_context>&, int)>& f) {
  test::threads_as_processes processes(2);
  return processes.run([&](process_group& group) {
    cpu_context cpu{{.threads = 1}};
    mpi_context ctx(cpu, group);
    f(ctx, group.rank());
  });
}

TEST(mpi_context, an_error_on_one_process_is_one_on_all) {
  const auto half = [](int rank) { return rows_of(all_rows(), [=](std::int32_t e) { return e % 2 == rank; }); };
  EXPECT_THAT(errors_of([&](auto& ctx, int rank) {
                auto own = half(rank);
                if (rank == 1) own.q[5] = std::numeric_limits<float>::quiet_NaN();
                test::moments_of(ctx, own.view());
              }),
              Each(HasSubstr("rank 1: q")));
  EXPECT_THAT(errors_of([&](auto& ctx, int) {
                const auto own = half(0);
                test::moments_of(ctx, own.view());
              }),
              Each(HasSubstr("two processes hold rows of q of document 0")));
  EXPECT_THAT(errors_of([&](auto& ctx, int rank) {
                auto own = half(rank);
                own.k_document.back() = own.k_document.front();
                test::moments_of(ctx, own.view());
              }),
              Each(HasSubstr("are not adjacent")));
  EXPECT_THAT(errors_of([&](auto& ctx, int rank) {
                const auto own = half(rank);
                accumulate(ctx, own.view(), uniform_buckets{150}, {.context_length = 1000 - 500 * rank});
              }),
              Each(HasSubstr("rank 1 has another shape of the rows or of the query buckets")));
}

TEST(mpi_context, refuses_what_needs_all_rows_at_once) {
  const auto refused = [](const auto& pairs) {
    return errors_of([&](auto& ctx, int rank) {
      const auto own = rows_of(all_rows(), [=](std::int32_t e) { return e % 2 == rank; });
      const auto model = fit_queries(ctx, test::moments_of(ctx, own.view()));
      plasticity_profile(ctx, model, own.view(), pairs);
    });
  };
  EXPECT_THAT(refused(sampled{.n = 100}), Each(HasSubstr("drawn pairs are drawn among those of all documents")));
  EXPECT_THAT(refused(all_pairs{.across_documents = true}), Each(HasSubstr("pairs across documents need all keys")));
  EXPECT_THAT(errors_of([](auto& ctx, int rank) {
                const auto own = rows_of(all_rows(), [=](std::int32_t e) { return e % 2 == rank; });
                const auto layer = as_layer(own.view());
                empirical_profile(ctx, layer, uniform_buckets{150}, 1000);
              }),
              Each(HasSubstr("rank 1 has another observed queries than rank 0")));
}

}  // namespace
