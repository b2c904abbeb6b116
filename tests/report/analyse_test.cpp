// SPDX-License-Identifier: MIT
// A capture in several shards, and several captures, against the same documents in one.
#include "qkgeom/report/analyse.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "qkgeom/report/head_tables.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/io/planted_capture.hpp"
#include "tests/io/scratch.hpp"
#include "tests/plasticity/small_head.hpp"

namespace {

using namespace qkgeom;
using test::ctx;
using test::planted_capture;

constexpr index_t context = 256;

/// Documents [first, last) of two planted layers as a capture of their own, `in_shard` documents a shard. Layer 1 has
/// no rows of the shard that begins with `lacking`.
planted_capture capture_of(index_t first, index_t last, index_t in_shard = 1, index_t lacking = -1) {
  return {.context = context,
          .documents = last - first,
          .rows = 12,
          .layers = 2,
          .drift = 6,
          .says_rope = false,
          .buckets = 8,
          .first = first,
          .in_shard = in_shard,
          .lacking = lacking,
          .window = 128};
}
void write(const std::filesystem::path& folder, index_t first, index_t last, index_t in_shard, index_t lacking = -1) {
  capture_of(first, last, in_shard, lacking).write(folder);
}

capture_manifest manifest_of(index_t documents) { return capture_of(0, documents).manifest(); }
capture_manifest manifest_of(const std::filesystem::path& folder) { return capture::open(folder).manifest(); }

/// Rows of a layer of documents [first, last), or of every `step`th of them from the one that is `begin`.
planted_rows<float> layer_rows(index_t layer, std::uint64_t seed = 1, index_t first = 0, index_t last = 12,
                               index_t begin = 0, index_t step = 1) {
  auto planted = capture_of(first, last);
  planted.seed = seed;
  std::vector<index_t> documents;
  for (index_t e = begin; e < last - first; e += step) documents.push_back(e);
  return planted.rows_of(layer, documents);
}

void expect_close(double a, double b, double tolerance = 1e-11) {
  if (std::isnan(b))
    EXPECT_TRUE(std::isnan(a));
  else
    EXPECT_NEAR(a, b, tolerance * std::max(1.0, std::abs(b)));
}

void expect_same(const model_report& a, const model_report& b, double pair_tolerance) {
  ASSERT_EQ(a.heads.size(), b.heads.size());
  for (std::size_t h = 0; h < a.heads.size(); ++h) {
    const auto &x = a.heads[h], &y = b.heads[h];
    EXPECT_EQ(x.queries, y.queries);
    EXPECT_EQ(x.keys, y.keys);
    EXPECT_EQ(x.window, y.window);
    expect_close(x.pca.explained_variance[0], y.pca.explained_variance[0]);
    expect_close(x.rotation.bias.strength, y.rotation.bias.strength);
    expect_close(x.sigma2_pos, y.sigma2_pos);
    ASSERT_EQ(x.profiles.size(), y.profiles.size());
    for (std::size_t c = 0; c < x.profiles.size(); ++c) {
      EXPECT_EQ(x.profiles[c].documents, y.profiles[c].documents);
      EXPECT_NEAR(x.summaries[c].overall.value, y.summaries[c].overall.value, pair_tolerance);
      expect_close(x.summaries[c].overall.error, y.summaries[c].overall.error, pair_tolerance);
      EXPECT_EQ(x.summaries[c].pairs, y.summaries[c].pairs);
      for (std::size_t i = 0; i < x.profiles[c].heatmap.sum.size(); ++i)
        EXPECT_NEAR(x.profiles[c].heatmap.sum[i], y.profiles[c].heatmap.sum[i], 1e3 * pair_tolerance);
    }
    EXPECT_NEAR(x.empirical_summary->overall.value, y.empirical_summary->overall.value, 1e-11);
  }
}

using analysis_of_captures = test::in_scratch_folder;

TEST_F(analysis_of_captures, shards_and_captures_of_the_same_documents_give_the_same) {
  write(folder / "whole", 0, 12, 12);
  write(folder / "shards", 0, 12, 5);
  write(folder / "a", 0, 4, 3);
  write(folder / "b", 4, 12, 8);
  for (const bool across : {false, true}) {
    analysis_options options;
    options.across_documents = across;
    options.geometry_blocks = 4;
    const auto whole = analyse(ctx, capture::open(folder / "whole"), options);
    expect_same(analyse(ctx, capture::open(folder / "shards"), options), whole, 1e-7);
    expect_same(analyse(ctx, capture_set::open({folder / "a", folder / "b"}), options), whole, 1e-7);
  }
}

/// Moments of documents [first, last) as a capture beside its rows: here of other rows than the capture's, so that
/// whoever reads the rows finds other numbers.
void add_moments(const std::filesystem::path& folder, index_t first, index_t last, index_t blocks) {
  auto manifest = manifest_of(folder);
  manifest.extra["moments"] = {{"bucket_size", 16}, {"blocks", blocks}};
  write_text(folder / "manifest.json", manifest_text(manifest));
  for (index_t b = 0; b < blocks; ++b) {
    std::vector<token_moments> layers;
    for (const index_t l : {0, 1}) {
      const auto rows = layer_rows(l, 11, first, last, b, blocks);
      const auto layer = as_layer(rows.view());
      token_moments m;
      m.moments = accumulate(ctx, layer, uniform_buckets{16}, {.context_length = context});
      const auto differences =
          moments_by_block(ctx, "k", layer.k, layer.k_position, layer.k_document, blocks_of(rows.k_document, 1));
      m.k_differences = {differences[0][0].differences};
      m.k_pairs = differences[0][0].pairs;
      layers.push_back(std::move(m));
    }
    write_moments_file(folder / moments_name(b), manifest, layers);
  }
}

TEST_F(analysis_of_captures, moments_that_are_not_finite_are_refused) {
  write(folder / "c", 0, 4, 3);
  add_moments(folder / "c", 0, 4, 2);
  const auto whole = capture::open(folder / "c");
  const auto file = open_moments(whole).at(1);
  std::vector<token_moments> layers{file.read(0), file.read(1)};
  for (const double x : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    layers[1].moments.k[0].total.xx.back() = x;
    write_moments_file(folder / "c" / moments_name(1), whole.manifest(), layers);
    EXPECT_QKGEOM_ERROR("tensor layer.1.k.moments.cov holds a number that is not finite",
                        open_moments(capture::open(folder / "c")).at(1).read(1));
  }
}

TEST_F(analysis_of_captures, moments_of_every_token_go_before_those_of_the_rows) {
  write(folder / "whole", 0, 12, 12);
  write(folder / "a", 0, 4, 3);
  write(folder / "b", 4, 12, 8);
  analysis_options options;
  options.geometry_blocks = 4;
  const auto from_rows = analyse(ctx, capture::open(folder / "whole"), options);
  add_moments(folder / "whole", 0, 12, 4);
  add_moments(folder / "a", 0, 4, 4);
  add_moments(folder / "b", 4, 12, 4);
  const auto report = analyse(ctx, capture::open(folder / "whole"), options);
  EXPECT_EQ(from_rows.moment_tokens, 0);
  EXPECT_EQ(report.moment_tokens, 12 * 12);
  for (index_t l = 0; l < 2; ++l) {
    const auto& head = report.heads[l];
    const auto rows = layer_rows(l, 11);
    const auto moments = accumulate(ctx, rows.view(), uniform_buckets{32}, {.context_length = context});
    const auto plane = planar_rotation(ctx, moments, {.context_length = context});
    expect_close(head.rotation.bias.strength, plane.bias.strength);
    EXPECT_NE(head.rotation.bias.strength, from_rows.heads[l].rotation.bias.strength);
    const auto model = fit_queries(ctx, moments, {.covariance = covariance_kind::joint});
    expect_close(head.sigma2_pos, model.sigma2_pos);
    // The jackknife over the same blocks of documents, from the rows.
    layer_blocks blocks{blocks_of(rows.q_document, 4), {}, {}};
    blocks.add(ctx, as_layer(rows.view()), true);
    std::vector<rotation_result> planes{plane};
    const auto layer = accumulate(ctx, as_layer(rows.view()), uniform_buckets{32}, {.context_length = context});
    const auto without = geometry_without_blocks(ctx, blocks, layer, options.pca, {.context_length = context}, planes);
    ASSERT_EQ(head.geometry.without.size(), 4u);
    for (std::size_t b = 0; b < 4; ++b)
      expect_close(head.geometry.without[b].rotation.bias.strength, without[0].without[b].rotation.bias.strength);
    expect_close(head.rotation.score_sd, planes[0].score_sd);
  }
  expect_same(analyse(ctx, capture_set::open({folder / "a", folder / "b"}), options), report, 1e-7);
  options.every_token = false;
  expect_same(analyse(ctx, capture::open(folder / "whole"), options), from_rows, 1e-12);
  options.every_token = true;
  options.bucket_edges = {0, 100, 256};  // the moments' grid has no edge at 100
  EXPECT_EQ(analyse(ctx, capture::open(folder / "whole"), options).moment_tokens, 0);
  options.plasticity = false;  // no matter to PCA and rotation, which know no buckets
  const auto geometry = analyse(ctx, capture::open(folder / "whole"), options);
  EXPECT_EQ(geometry.moment_tokens, 12 * 12);
  for (std::size_t h = 0; h < 2; ++h)
    expect_close(geometry.heads[h].rotation.bias.strength, report.heads[h].rotation.bias.strength);
}

TEST_F(analysis_of_captures, blocks_of_documents_are_those_of_all_layers) {
  write(folder / "c", 0, 12, 1, 5);
  const auto source = capture_set::open({folder / "c"});
  EXPECT_EQ(source.documents_in(0).k.size(), 12u);
  EXPECT_THAT(source.documents_in(1).q, testing::ElementsAre(0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(source.only({4, 5, 6}).documents_in(1).k, testing::ElementsAre(4, 6));
  EXPECT_THAT(source.only({4, 5, 6}).documents_with_rows(), testing::ElementsAre(4, 5, 6));
  const auto report = analyse(ctx, source, {.geometry_blocks = 12});
  for (const auto& h : report.heads) {
    ASSERT_EQ(h.geometry.without.size(), 12u);
    for (std::size_t b = 0; b < 12; ++b) {
      const double without = h.geometry.without[b].rotation.bias.strength, all = h.rotation.bias.strength;
      if (h.layer == 1 && b == 5)
        EXPECT_NEAR(without, all, 1e-12 * std::abs(all)) << "it has no rows there";
      else
        EXPECT_GT(std::abs(without - all), 1e-6 * std::abs(all)) << h.layer << ' ' << b;
    }
  }
  EXPECT_EQ(report.heads[0].geometry.blocks.document.size(), 12u);
}

TEST(analyse, query_buckets_end_with_the_context) {
  const auto m = manifest_of(1);
  const auto edges = [&](std::vector<index_t> given) {
    return query_buckets(m, {.bucket_edges = std::move(given)}).edges();
  };
  EXPECT_THAT(edges({0, 100, 300, 400}), testing::ElementsAre(0, 100, 256));
  EXPECT_THAT(edges({0, 256, 300}), testing::ElementsAre(0, 256));
  EXPECT_THAT(edges({10, 200}), testing::ElementsAre(10, 200));
  EXPECT_QKGEOM_ERROR("not at -1", edges({-1, 5}));
  EXPECT_QKGEOM_ERROR("not at 256", edges({256, 300}));
}

TEST_F(analysis_of_captures, buckets_and_memory_that_a_small_file_demands_are_bounded) {
  auto m = manifest_of(1);
  m.context_length = 1 << 16;
  m.bucket.size = 1;
  EXPECT_QKGEOM_ERROR("buckets of 1 tokens over a context of 65536 are more than the 4096 allowed",
                      query_buckets(m, {}));
  EXPECT_EQ(query_buckets(m, {.bucket_size = 16}).count(), 4096);

  m = manifest_of(1);
  m.model.head_dim = 1 << 16;
  for (auto& l : m.layers) l.rope_parameters.reset();
  const std::vector<layer_to_write> none{{0, dtype::f32, {}, {}}, {1, dtype::f32, {}, {}}};
  write_capture_file(folder / "wide.safetensors", m, none);
  EXPECT_QKGEOM_ERROR("wide.safetensors: an analysis over 8 query buckets of 2 heads of size 65536 needs more memory",
                      analyse(ctx, capture::open(folder / "wide.safetensors")));
}

TEST_F(analysis_of_captures, some_documents_of_a_capture_are_as_a_capture_of_them_alone) {
  write(folder / "shards", 0, 12, 5);
  write(folder / "a", 0, 3, 2);
  write(folder / "b", 8, 12, 4);
  analysis_options options;
  options.geometry_blocks = 4;
  const auto shards = capture_set::open({folder / "shards"});
  auto some = analyse(ctx, shards.only({0, 1, 2, 8, 9, 10, 11}), options);
  for (auto& h : some.heads) {
    for (auto* p : {&h.profiles[0], &h.profiles[1]})
      for (auto& e : p->documents) e -= e >= 8 ? 5 : 0;  // the capture of them alone numbers them from 0
  }
  expect_same(some, analyse(ctx, capture_set::open({folder / "a", folder / "b"}), options), 1e-7);

  // Groups that share no document have all rows between them. One of them needs two of the three shards.
  const auto middle = shards.only({7, 6, 5, 4, 3, 7});
  EXPECT_EQ(middle.n_shards(), 2);
  EXPECT_FALSE(middle.has_all_rows());
  EXPECT_EQ(middle.listed_documents().size(), 5u);
  const auto rest = analyse(ctx, middle, options), whole = analyse(ctx, shards, options);
  for (std::size_t h = 0; h < whole.heads.size(); ++h) {
    EXPECT_EQ(some.heads[h].queries + rest.heads[h].queries, whole.heads[h].queries);
    EXPECT_EQ(some.heads[h].keys + rest.heads[h].keys, whole.heads[h].keys);
    EXPECT_EQ(some.heads[h].summaries[0].pairs + rest.heads[h].summaries[0].pairs, whole.heads[h].summaries[0].pairs);
  }
  options.across_documents = true;
  EXPECT_EQ(analyse(ctx, middle, options).heads[0].keys, rest.heads[0].keys);

  // What the capture holds of every token is of all documents, and is not read for some of them.
  add_moments(folder / "shards", 0, 12, 4);
  const auto with_moments = capture_set::open({folder / "shards"});
  EXPECT_GT(analyse(ctx, with_moments, {}).moment_tokens, 0);
  EXPECT_EQ(analyse(ctx, with_moments.only({3, 4}), {}).moment_tokens, 0);
  EXPECT_QKGEOM_ERROR("there is no document 12 of 12", shards.only({3, 12}));
  EXPECT_QKGEOM_ERROR("at least one document", shards.only({}));
}

TEST_F(analysis_of_captures, a_context_that_ends_early_has_the_rows_before_its_end_alone) {
  write(folder / "c", 0, 12, 5);
  const auto source = capture_set::open({folder / "c"});
  const auto early = source.before(128);
  EXPECT_EQ(early.manifest().context_length, 128);
  EXPECT_FALSE(early.has_all_rows());
  EXPECT_EQ(early.listed_documents()[0].tokens, 128);
  const auto all = source.read_layer(0), some = early.read_layer(0);
  EXPECT_EQ(some.q.rows, std::count_if(all.q.position.begin(), all.q.position.end(), [](auto t) { return t < 128; }));
  EXPECT_GT(some.q.rows, 0);
  EXPECT_LT(*std::max_element(some.k.position.begin(), some.k.position.end()), 128);

  // The observed queries of a bucket are of its rows alone: both contexts agree on them.
  const auto whole = analyse(ctx, source), half = analyse(ctx, early);
  ASSERT_EQ(half.buckets.count(), 4);
  for (std::size_t h = 0; h < half.heads.size(); ++h)
    for (std::size_t b = 0; b < 4; ++b) {
      EXPECT_EQ(half.heads[h].profiles[0].buckets[b].pairs, whole.heads[h].profiles[0].buckets[b].pairs);
      EXPECT_EQ(half.heads[h].empirical->buckets[b].document_sum, whole.heads[h].empirical->buckets[b].document_sum);
    }
  EXPECT_DOUBLE_EQ(half.heads[0].rotation.bias.context, 128 * half.heads[0].rotation.bias.strength);
  EXPECT_QKGEOM_ERROR("cannot end at 257", source.before(257));
  EXPECT_QKGEOM_ERROR("cannot end at 0", source.before(0));
}

TEST_F(analysis_of_captures, tables_of_analyses_that_did_not_run_are_refused) {
  const auto rows = layer_rows(0);
  const layer_names names{0, true, {0}, {0}};
  const auto buckets = uniform_buckets{32}.edges(context);
  model_report report{"planted", context, buckets, {}, 0};
  report.heads = analyse_layer(ctx, as_layer(rows.view()), names, buckets, context, {.plasticity = false});
  write_csv(folder / "qk.csv", qk_table(report));
  write_csv(folder / "rotated.csv", rotated_table(report));
  write_csv(folder / "profile.csv", profile_table(report));
  const char* const no_profile = "layer 0 head 0 has no profile (analysis_options::plasticity)";
  EXPECT_QKGEOM_ERROR(no_profile, write_csv(folder / "heads.csv", heads_table(report)));
  EXPECT_QKGEOM_ERROR(no_profile, write_csv(folder / "bins.csv", bins_table(report)));
  EXPECT_QKGEOM_ERROR(no_profile, write_csv(folder / "model_report.csv", model_report_table(report)));
  report.heads = analyse_layer(ctx, as_layer(rows.view()), names, buckets, context, {.geometry = false});
  write_csv(folder / "bins.csv", bins_table(report));
  write_csv(folder / "model_report.csv", model_report_table(report));
  const char* const no_pca = "layer 0 head 0 has no PCA and rotation (analysis_options::geometry)";
  EXPECT_QKGEOM_ERROR(no_pca, write_csv(folder / "heads.csv", heads_table(report)));
  EXPECT_QKGEOM_ERROR(no_pca, write_csv(folder / "rotated.csv", rotated_table(report)));
  EXPECT_FALSE(std::filesystem::exists(folder / "heads.csv"));
}

TEST(analyse, f64_holds_for_the_observed_queries_too) {
  auto rows = plant<float>({.dim = 24, .context_length = context, .documents = 4, .rows = 60});
  test::bring_scores_close(rows);
  const auto observed = [&](std::optional<pair_precision> precision) {
    return *analyse_layer(ctx, as_layer(rows.view()), {0, true, {0}, {0}}, uniform_buckets{32}.edges(context), context,
                          {.precision = precision})[0]
                .empirical;
  };
  const auto f64 =
      empirical_profile(ctx, rows.view(), uniform_buckets{32}, context, {.precision = pair_precision::f64});
  EXPECT_EQ(observed(pair_precision::f64).buckets[5].plasticity, f64.buckets[5].plasticity);
  EXPECT_NE(observed({}).buckets[5].plasticity, f64.buckets[5].plasticity);
}

TEST(analyse, slopes_per_context_are_of_the_context_that_the_options_name) {
  const auto rows = layer_rows(0);
  const auto bias = [&](index_t length) {
    analysis_options options{.plasticity = false};
    options.rotation.context_length = length;
    const auto heads = analyse_layer(ctx, as_layer(rows.view()), {0, true, {0}, {0}},
                                     uniform_buckets{32}.edges(context), context, options);
    return std::pair(heads[0].rotation.bias.strength, heads[0].rotation.bias.context);
  };
  EXPECT_DOUBLE_EQ(bias(0).second, context * bias(0).first);
  EXPECT_DOUBLE_EQ(bias(1000).second, 1000 * bias(0).first);
}

TEST_F(analysis_of_captures, documents_that_no_shard_holds_are_refused) {
  write(folder / "c", 0, 3, 2);
  auto manifest = manifest_of(folder / "c");
  manifest.documents->push_back({3, "listed", context, nullptr});
  write_text(folder / "c/manifest.json", manifest_text(manifest));
  EXPECT_QKGEOM_ERROR("is named twice", capture_set::open({folder / "c", folder.path() / "." / "c"}));
  EXPECT_QKGEOM_ERROR("no shard holds document 3", capture_set::open({folder / "c"}).only({3}));
}

TEST_F(analysis_of_captures, documents_or_prefixes_may_count_the_same) {
  write(folder / "one", 0, 12, 12);
  write(folder / "many", 0, 12, 3);
  const auto all = analyse(ctx, capture_set::open({folder / "one"}));
  for (const auto weighting : {pair_weighting::documents, pair_weighting::prefix_uniform}) {
    analysis_options options;
    options.weighting = weighting;
    const auto one = analyse(ctx, capture_set::open({folder / "one"}), options);
    expect_same(one, analyse(ctx, capture_set::open({folder / "many"}), options), 1e-6);
    std::size_t compared = 0, different = 0;
    for (index_t b = 0; b < one.buckets.count(); ++b) {
      const auto& found = one.heads[0].profiles[0].buckets[b];
      const auto& pairs = all.heads[0].profiles[0].buckets[b];
      double sum = 0, n = 0;
      for (std::size_t e = 0; e < pairs.document_sum.size(); ++e)
        if (pairs.document_weight[e] > 0) sum += pairs.document_sum[e] / pairs.document_weight[e], ++n;
      if (!(n > 1)) continue;
      ++compared;
      if (weighting == pair_weighting::documents)
        EXPECT_NEAR(found.plasticity, sum / n, 1e-9);
      else
        different += std::abs(found.plasticity - sum / n) > 1e-4;
    }
    EXPECT_GT(compared, 3u);
    EXPECT_EQ(different > 0, weighting == pair_weighting::prefix_uniform);
  }
}

TEST_F(analysis_of_captures, layers_without_rows_are_named_with_their_file) {
  write(folder / "some", 0, 6, 3, 3);
  write(folder / "none", 0, 3, 3, 0);
  analyse(ctx, capture_set::open({folder / "some"}));
  const std::string said = test::message_of([&] { analyse(ctx, capture_set::open({folder / "none"})); });
  EXPECT_THAT(said, testing::StartsWith((folder / "none").string()));
  EXPECT_THAT(said, testing::HasSubstr(": layer 1 has no queries, and PCA"));
}

TEST_F(analysis_of_captures, refuses_captures_of_different_models) {
  write(folder / "a", 0, 4, 4);
  write(folder / "b", 0, 4, 4);
  auto other = manifest_of(folder / "b");
  other.model.name = "another";
  write_text(folder / "b/manifest.json", manifest_text(other));
  EXPECT_QKGEOM_ERROR("only captures of one model", capture_set::open({folder / "a", folder / "b"}));
}

/// A capture of that many documents, ten a shard, of the same rows.
void write_documents(const std::filesystem::path& folder, index_t documents) {
  auto manifest = manifest_of(documents);
  manifest.model.head_dim = 64;
  capture_writer writer(folder, manifest);
  auto rows = plant<float>({.dim = 64, .context_length = context, .documents = 10, .rows = 64});
  for (index_t begin = 0; begin < documents; begin += 10) {
    const auto first = manifest.documents->begin() + begin;
    writer.add_shard({first, first + 10}, std::vector<layer_to_write>{planted_capture::as_written(0, rows),
                                                                      planted_capture::as_written(1, rows)});
    for (auto* ids : {&rows.q_document, &rows.k_document})
      for (auto& e : *ids) e += 10;
  }
  writer.finish();
}

/// Peak memory in MB of a child that analyses the capture. Without the empirical form, which keeps up to 4096 queries a
/// bucket and so grows until these are there.
double peak_memory(const std::filesystem::path& folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // what is touched counts, not the huge page it may lie in
    cpu_context alone{{.threads = 1}};
    const auto report = analyse(alone, capture::open(folder), {.empirical = false, .geometry_blocks = 8});
    ::_exit(report.heads.size() == 2 ? 0 : 1);
  }
  int status = 1;
  struct rusage used {};
  ::wait4(child, &status, 0, &used);
  EXPECT_EQ(status, 0);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

TEST(analyse, needs_no_more_memory_for_ten_times_the_documents) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers keep freed memory, so that peaks say nothing";
#endif
  const test::scratch_folder folder;
  write_documents(folder / "few", 300);
  write_documents(folder / "many", 3000);
  // A child's peak counts what it has from this process, so that both are forked once all is written.
  const double few = peak_memory(folder / "few"), many = peak_memory(folder / "many");
  // The rows of a layer are 88 MB more; what is kept of a document is its number and its sums, up to 1024 blocks.
  EXPECT_LT(many, few + 30) << few << " MB for 300 documents";
}

TEST(analyse, keeps_a_bounded_number_of_document_blocks) {
  EXPECT_EQ(document_block(1), 1);
  EXPECT_EQ(document_block(1024), 1);
  EXPECT_EQ(document_block(1025), 2);
  EXPECT_EQ(document_block(5000), 8);
}

TEST(analyse_layer, takes_f64_by_itself_where_f32_loses_digits) {
  const auto overall = [&](const planted_rows<float>& rows, std::optional<pair_precision> precision) {
    const auto heads =
        analyse_layer(ctx, as_layer(rows.view()), {0, true, {0}, {0}}, uniform_buckets{32}.edges(context), context,
                      {.covariances = {covariance_kind::joint}, .precision = precision});
    return heads[0].summaries[0].overall.value;
  };
  planted_head spec{.dim = 6, .context_length = context, .documents = 4, .rows = 24, .seed = 3};
  const auto usual = plant<float>(spec);
  EXPECT_EQ(overall(usual, {}), overall(usual, pair_precision::f32));
  EXPECT_NE(overall(usual, {}), overall(usual, pair_precision::f64));
  spec.mean_q = spec.mean_k = {1e5, -1e5, 1e5, 0, 1e5, 0};
  const auto far = plant<float>(spec);
  EXPECT_EQ(overall(far, {}), overall(far, pair_precision::f64));
  auto unequal = plant<float>(planted_head{.dim = 6, .context_length = context, .documents = 4, .rows = 24, .seed = 4});
  for (std::size_t i = 0; i < unequal.q.size(); i += 6) unequal.q[i] *= 1e7f;
  EXPECT_EQ(overall(unequal, {}), overall(unequal, pair_precision::f64));
}

}  // namespace
