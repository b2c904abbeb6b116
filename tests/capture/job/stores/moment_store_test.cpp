// SPDX-License-Identifier: MIT
// Moments of every token, written during the forward pass: against the rows themselves, merged, interrupted, damaged.
#include "capture/job/cut.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "tests/capture/capture_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// max |x - y| over max |y|.
double relative(const std::vector<double>& x, const std::vector<double>& y) {
  EXPECT_EQ(x.size(), y.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    difference = std::max(difference, std::abs(x[i] - y[i]));
    size = std::max(size, std::abs(y[i]));
  }
  return size > 0 ? difference / size : difference;
}

void expect_equal(const row_moments& a, const row_moments& b, double tolerance) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_NEAR(a.mean_t, b.mean_t, tolerance * (1 + b.mean_t));
  EXPECT_NEAR(a.tt, b.tt, tolerance * (1 + b.tt));
  EXPECT_LT(relative(a.mean, b.mean), tolerance);
  EXPECT_LT(relative(a.xt, b.xt), tolerance);
  EXPECT_LT(relative(a.xx, b.xx), tolerance);
}

void expect_equal(const std::vector<side_moments>& a, const std::vector<side_moments>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t h = 0; h < a.size(); ++h) {
    expect_equal(a[h].total, b[h].total, tolerance);
    ASSERT_EQ(a[h].bucket.size(), b[h].bucket.size());
    for (std::size_t i = 0; i < a[h].bucket.size(); ++i) expect_equal(a[h].bucket[i], b[h].bucket[i], tolerance);
  }
}

/// The moments of all documents, over buckets of this size.
token_moments all_blocks(const capture_set& of, index_t layer, index_t bucket_size = 19) {
  auto blocks = set_moments::open(of, uniform_buckets{bucket_size}.edges(300))->read(layer);
  for (std::size_t b = 1; b < blocks.size(); ++b) merge(blocks[0], blocks[b]);
  return std::move(blocks[0]);
}

class moments_of_tokens : public test::capture_test {
 protected:
  moments_of_tokens() {
    options.statistics.moments = true;
    options.selection.max_length = 300;
    options.selection.sampler = {sampler_kind::all, 64, 1};
    options.selection.head_list = {{0, 1}, {0, 2}, {0, 7}, {5, 4}};
  }

  capture_set run(const std::string& out, const std::vector<int>& books) {
    test::write_books(folder / (out + ".jsonl"), books);
    return run(out);
  }
  /// Captures OUT.jsonl.
  capture_set run(const std::string& out) {
    options.inputs.jsonl = folder / (out + ".jsonl");
    options.run.out = folder / out;
    test::capture_test::run({.moments = failing});
    return capture_set::open({options.run.out});
  }

  long calls_left = -1;
  const moment_function failing = [this](const auto&... rows) {
    if (calls_left-- == 0) fail("the power fails");
    return backend.moments(rows...);
  };
};

TEST_F(moments_of_tokens, are_those_of_all_rows) {
  options.selection.sampler.skip_first = 3;
  options.statistics.bucket_size = 50;
  test::write_books(folder / "a.jsonl", 3);
  write("a.jsonl", "{\"text\": \"\"}\n" + test::get(folder / "a.jsonl"));  // an empty document has none
  const auto source = run("a");
  const edge_buckets grid{uniform_buckets{100}.edges(300).edges()};
  const auto stored = set_moments::open(source, grid.edges(300));
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->blocks(), 3);
  EXPECT_FALSE(set_moments::open(source, uniform_buckets{70}.edges(300)));
  for (const index_t layer : source.layers()) {
    const auto rows = source.read_layer(layer);
    const auto expected = accumulate(cpu, rows.view<float>(), grid, {.context_length = 300});
    const auto found = all_blocks(source, layer, 100);
    EXPECT_EQ(found.moments.key_of_query, expected.key_of_query);
    expect_equal(found.moments.q, expected.q, 1e-9);
    expect_equal(found.moments.k, expected.k, 1e-9);
    const auto view = rows.view<float>();
    const auto by_document = moments_by_block(cpu, "k", view.k, view.k_position, view.k_document,
                                              blocks_of({view.k_document.begin(), view.k_document.end()}, 1));
    EXPECT_EQ(found.k_pairs, 3 * 297.0 * 296 / 2);
    for (std::size_t h = 0; h < by_document.size(); ++h)
      EXPECT_LT(relative(found.k_differences[h], by_document[h][0].differences), 1e-9);
  }
}

TEST_F(moments_of_tokens, of_two_captures_are_those_of_both_documents) {
  const auto all = run("all", {3, 4, 5});
  run("first", {3});
  run("second", {4, 5});
  const auto two = capture_set::open({folder / "first", folder / "second"});
  options.selection.sampler.kind = sampler_kind::uniform;  // the rows are others, the moments the same
  const auto sampled = run("sampled", {3, 4, 5});
  for (const index_t layer : all.layers()) {
    const auto expected = all_blocks(all, layer), merged = all_blocks(two, layer);
    expect_equal(merged.moments.q, expected.moments.q, 1e-10);
    expect_equal(merged.moments.k, expected.moments.k, 1e-10);
    EXPECT_EQ(merged.k_pairs, expected.k_pairs);
    EXPECT_LT(relative(merged.k_differences[0], expected.k_differences[0]), 1e-10);
    const auto of_sampled = all_blocks(sampled, layer, 64);
    EXPECT_EQ(of_sampled.moments.q[0].total.count, expected.moments.q[0].total.count);
    EXPECT_LT(relative(of_sampled.moments.q[0].total.xx, expected.moments.q[0].total.xx), 1e-10);
  }
}

// Ten blocks of two shards each: a resumed run continues within a block.
TEST_F(moments_of_tokens, of_an_interrupted_capture_end_with_the_same_bits) {
  options.selection.max_length = 2048;
  options.selection.head_list = {{0, 1}, {0, 7}};
  options.selection.sampler = {sampler_kind::uniform, 1024, 1};
  std::vector<int> many(13 * 8);
  std::iota(many.begin(), many.end(), 0);
  const auto whole = run("whole", many);
  EXPECT_EQ(whole.captures()[0].manifest().extra["moments"]["blocks"], 10);
  const auto expected = test::contents_of(folder / "whole");
  EXPECT_EQ(expected.size(), 20u + 10u + 1u);
  const auto resumed = [&](const std::string& after) {
    options.run.resume = true;
    options.run.batch_tokens = 3 * 2048;  // need not be that of the first run
    run("cut", many);
    EXPECT_EQ(test::contents_of(folder / "cut"), expected) << after;
    options.run.batch_tokens = 8192;
    options.run.resume = false;
    fs::remove_all(folder / "cut");
  };
  // A document is four calls: two buckets, queries and keys.
  for (const long calls : {4 * 8 * 5 + 1, 4 * 8 * 13 - 1}) {
    calls_left = calls;
    EXPECT_THROW(run("cut", many), error);
    calls_left = -1;
    options.run.resume = true;
    fs::rename(folder / "cut" / "shard-00002.safetensors", folder / "aside");
    EXPECT_QKGEOM_ERROR("shard-00002.safetensors: the shard is missing", run("cut", many));
    fs::rename(folder / "aside", folder / "cut" / "shard-00002.safetensors");
    resumed("after " + std::to_string(calls) + " calls");
  }
  // The disk fills while an unfinished block is written.
  fs::create_directory(folder / "cut");
  const fs::path so_far = folder / "cut" / "moments-00.safetensors.upto-0";
  fs::create_symlink("/dev/full", so_far);
  EXPECT_QKGEOM_ERROR("No space left on device", run("cut", many));
  fs::remove(so_far);
  resumed("after a full disk");
}

TEST_F(moments_of_tokens, and_everything_else_are_the_same_bytes_however_documents_are_batched) {
  const std::string books = test::get(test::bundled / "heldout.jsonl");
  const std::string book = json::parse(books.substr(0, books.find('\n')))["text"].get<std::string>();
  std::string lines;
  for (std::size_t i = 0; i < 40; ++i)
    lines += json({{"text", book.substr(1000 * i, i % 7 == 3 ? 0 : i % 3 == 0 ? 40 * i : 2600)}}).dump() + '\n';
  options.inputs.jsonl = write("d.jsonl", lines);
  options.statistics.softmax = true;
  options.selection.sampler = {sampler_kind::uniform, 64, 4};
  options.selection.head_list = {{0, 1}, {0, 7}, {1, 4}};
  for (const compute_type type : {compute_type::f32, compute_type::bf16}) {
    const bool long_ones = type == compute_type::f32;  // the loss takes every layer
    options.statistics.loss = !long_ones;
    options.model.compute = type;
    options.selection.max_length = long_ones ? 1000 : 150;
    std::map<index_t, std::map<std::string, test::file_bytes>> files;
    for (const index_t batch : long_ones ? std::vector<index_t>{1, 8192} : std::vector<index_t>{1, 400, 8192}) {
      options.run.batch_tokens = batch;
      options.run.out = folder / (std::string(name_of(type)) + std::to_string(batch));
      EXPECT_EQ(test::capture_test::run({.moments = failing}).shards, 10);
      files[batch] = test::contents_of(options.run.out);
    }
    for (const auto& [batch, bytes] : files) EXPECT_TRUE(bytes == files[1]) << name_of(type) << ' ' << batch;
    EXPECT_EQ(files[1].size(), 10u + 10u + 1u);
  }
}

// Blocks hold documents, not shards: errors over blocks exist even if all documents fit into one shard.
TEST_F(moments_of_tokens, are_dealt_to_blocks_of_documents) {
  using blocks = std::vector<std::size_t>;
  EXPECT_EQ(moment_blocks_of(std::vector<index_t>{9, 9, 9}), (blocks{0, 1, 2}));
  EXPECT_EQ(moment_blocks_of(std::vector<index_t>{0, 9, 0, 0, 9, 0}), (blocks{0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(moment_blocks_of(std::vector<index_t>{0, 0}), (blocks{0, 0}));
  EXPECT_EQ(moment_blocks_of(std::vector<index_t>(12, 1)), (blocks{0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9}));
  EXPECT_EQ(moment_blocks_of(std::vector<index_t>(200, 50000))[199], 9u);

  const auto together = run("five", {0, 1, 2, 3, 4});
  EXPECT_EQ(together.captures()[0].manifest().shards.size(), 5u);
  const moments_file last(std::make_shared<const safetensors_file>(folder / "five" / moments_name(4)),
                          together.captures()[0].manifest());
  const auto alone = all_blocks(run("alone", {4}), 0);
  expect_equal(last.read(0).moments.q, alone.moments.q, 1e-14);
  EXPECT_EQ(last.read(0).k_pairs, alone.k_pairs);
}

// By default analyses take the buckets of the moments, since moments over others cannot be used.
TEST_F(moments_of_tokens, say_the_buckets_of_a_capture_without_uniform_ones) {
  options.selection.sampler = {sampler_kind::log2, 16, 4};
  options.statistics.bucket_size = 31;
  const auto source = run("odd", {0});
  EXPECT_EQ(source.manifest().usual_bucket_size(), 31);
  EXPECT_TRUE(set_moments::open(source, uniform_buckets{31}.edges(300)));
  options.selection.sampler = {sampler_kind::uniform, 100, 4};
  EXPECT_EQ(run("uniform", {0}).manifest().usual_bucket_size(), 100);
}

TEST_F(moments_of_tokens, damaged_files_are_refused) {
  run("a", {0});
  const auto read_all = [&] {
    const auto source = capture_set::open({folder / "a"});
    const auto stored = set_moments::open(source, uniform_buckets{19}.edges(300));
    for (const index_t layer : source.layers()) stored->read(layer);
  };
  const auto refused = [&] { return test::message_of(read_all); };
  EXPECT_NO_THROW(read_all());
  const fs::path path = folder / "a" / "moments-00.safetensors";
  const std::string good = test::get(path);
  const auto rename_tensor = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    test::put(path, bad);
  };
  rename_tensor("layer.5.k.moments.cov_t", "layer.5.k.moments.cov_x");
  EXPECT_THAT(refused(), HasSubstr("there is no tensor layer.5.k.moments.cov_t"));
  rename_tensor("[3,16,32,32]", "[3,32,16,32]");
  EXPECT_THAT(refused(), HasSubstr("must have shape"));
  fs::remove(path);
  EXPECT_THAT(refused(), HasSubstr("moments-00.safetensors"));
  options.statistics.bucket_size = 0;
  options.run.resume = true;
  EXPECT_ANY_THROW(run("a", {0}));  // the manifest says complete, but a file is missing
  options.inputs.jsonl = folder / "a.jsonl";
  options.run.out = folder / "b";
  EXPECT_QKGEOM_ERROR("need a backend", test::capture_test::run(capture_backend{}));
}

}  // namespace
}  // namespace qkgeom
