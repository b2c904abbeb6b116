// SPDX-License-Identifier: MIT
#include "qkgeom/io/what_if.hpp"

#include "qkgeom/rotary/stationarity.hpp"
#include "tests/io/planted_capture.hpp"
#include "tests/io/scratch.hpp"

namespace {

using namespace qkgeom;
using test::planted_capture;

/// Captures of 64 tokens in a folder of the test.
struct what_if_test : test::in_scratch_folder {
  planted_capture planted{.context = 64, .documents = 2, .rows = 16, .stage = "pre"};

  capture_set opened(const planted_capture& capture, const std::string& name) const {
    capture.write(folder / name);
    return capture_set::open({folder / name});
  }
};

/// Expects equal rows (rows, 1, d) within `tolerance`.
void expect_near(const auto& x, const auto& y, double tolerance) {
  ASSERT_EQ(x.rows, y.rows);
  for (index_t i = 0; i < x.rows; ++i)
    for (index_t c = 0; c < x.dim; ++c) EXPECT_NEAR(x.head(0)(i, c), y.head(0)(i, c), tolerance);
}

TEST(stretched_position, keeps_the_order_and_covers_the_context) {
  for (const auto& [from, to] : {std::pair<index_t, index_t>{64, 512}, {64, 100}, {1000, 128'000}, {7, 7}}) {
    index_t before = -1;
    for (index_t t = 0; t < from; ++t) {
      const index_t at = stretched_position(t, from, to, 3);
      EXPECT_GT(at, before);
      EXPECT_LT(at, to);
      if (t < kept_first_tokens)
        EXPECT_EQ(at, t);
      else
        EXPECT_LE(std::abs(at * from - t * to), to + from) << t << " of " << from << " to " << to;
      before = at;
    }
  }
  EXPECT_EQ(stretched_position(40, 64, 4096, 1, 4, 9), stretched_position(40, 64, 4096, 1, 4, 9));
  EXPECT_NE(stretched_position(40, 64, 4096, 1, 4, 9), stretched_position(40, 64, 4096, 2, 4, 9));
}

TEST_F(what_if_test, rotates_rows_to_their_new_positions) {
  const auto source = opened(planted, "c");
  const auto longer = what_if(source, {.context_length = 1024});
  EXPECT_EQ(longer.manifest().context_length, 1024);
  EXPECT_EQ(longer.manifest().rope_stage, "post");
  EXPECT_EQ(longer.manifest().bucket.size, 64);
  EXPECT_EQ(longer.listed_documents().at(0).tokens, 1024);
  const auto was = source.read_layer(0), is = longer.read_layer(0);
  const auto before = was.view<float>().head(0), after = is.view<float>().head(0);
  ASSERT_EQ(after.q.rows, before.q.rows);
  for (index_t i = 0; i < before.q.rows; ++i) {
    EXPECT_EQ(after.q_position[i],
              stretched_position(before.q_position[i], 64, 1024, static_cast<std::uint32_t>(before.q_document[i])));
    std::vector<double> x(before.q.row(i), before.q.row(i) + before.q.cols);
    vector_rotation(planted.rope(), after.q_position[i])(x.data());
    for (index_t c = 0; c < before.q.cols; ++c) EXPECT_NEAR(after.q(i, c), x[c], 1e-5);
  }
}

TEST_F(what_if_test, of_rows_from_after_the_rotation_is_that_of_rows_from_before_it) {
  const auto pre = opened(planted, "pre");
  planted.stage = "post";
  const auto post = opened(planted, "post");
  const rotary_change change{.context_length = 256, .rope = captured_rope{"half", 8, 2, {0.8, 0.3, 0.1, 0.002}}};
  const auto a = what_if(pre, change).read_layer(0), b = what_if(post, change).read_layer(0);
  const auto back = before_rope(post).read_layer(0), was = pre.read_layer(0);
  expect_near(a.view<float>().k, b.view<float>().k, 2e-5);
  expect_near(back.view<float>().k, was.view<float>().k, 2e-6);
  EXPECT_EQ(before_rope(post).manifest().rope_stage, "pre");
}

TEST_F(what_if_test, a_longer_document_has_the_frequencies_of_long_ones) {
  const std::vector<double> usual = planted.rope().inv_freq, beyond{0.5, 0.05, 0.002, 0.0001};
  planted.by_length = frequencies_by_length{100, usual, beyond};
  const auto source = opened(planted, "c");
  planted.by_length.reset();
  const auto plain = opened(planted, "plain");
  for (const index_t to : {64, 128}) {
    const auto& frequencies = to > 100 ? beyond : usual;
    const auto longer = what_if(source, {.context_length = to});
    EXPECT_EQ(longer.manifest().rope->inv_freq, frequencies);
    EXPECT_EQ(sole_rope_of(longer, 0, "")->inv_freq, frequencies);
    const captured_rope rope{"half", 8, 1, frequencies};
    const auto is = longer.read_layer(0), as = what_if(plain, {.context_length = to, .rope = rope}).read_layer(0),
               back = before_rope(longer).read_layer(0), was = source.read_layer(0);
    expect_near(is.view<float>().k, as.view<float>().k, 0);
    expect_near(back.view<float>().k, was.view<float>().k, 2e-6);
  }
  // A part of a document turned as the whole does.
  planted.stage = "post";
  planted.by_length = frequencies_by_length{32, beyond, usual};
  const auto whole = opened(planted, "post"), part = whole.before(32);
  const auto x = before_rope(part).read_layer(0), y = source.before(32).read_layer(0);
  expect_near(x.view<float>().k, y.view<float>().k, 2e-6);
  EXPECT_EQ(sole_rope_of(what_if(part, {}), 0, "")->inv_freq, beyond);
}

TEST_F(what_if_test, holds_planes_still) {
  const auto source = opened(planted, "c");
  const auto some = what_if(source, {.rotating = [](double f) { return f < 0.05; }});
  EXPECT_EQ(some.manifest().rope->inv_freq, (std::vector<double>{0, 0, 0.01, 0.0005}));
  const auto was = source.read_layer(0), is = some.read_layer(0);
  for (index_t i = 0; i < was.q.rows; ++i)
    for (const index_t c : {0, 1, 4, 5}) EXPECT_EQ(is.view<float>().q.head(0)(i, c), was.view<float>().q.head(0)(i, c));
}

TEST_F(what_if_test, multiplies_queries_that_grow_with_their_position) {
  const auto plain = opened(planted, "plain");
  planted.extra["query_growth"] = {{"beta", 0.5}, {"context", 32}};
  const auto growing = what_if(opened(planted, "growing"), {.context_length = 256});
  const auto a = what_if(plain, {.context_length = 256}).read_layer(0), b = growing.read_layer(0),
             back = before_rope(growing).read_layer(0), was = plain.read_layer(0);
  bool grew = false;
  for (index_t i = 0; i < a.q.rows; ++i)
    for (index_t c = 0; c < a.q.dim; ++c) {
      const double factor = 1 + 0.5 * std::log(1.0 + a.q.position[i] / 32);
      grew = grew || factor > 1.5;
      EXPECT_NEAR(b.view<float>().q.head(0)(i, c), factor * a.view<float>().q.head(0)(i, c), 1e-5);
    }
  expect_near(b.view<float>().k, a.view<float>().k, 0);
  expect_near(back.view<float>().q, was.view<float>().q, 1e-5);
  EXPECT_TRUE(grew);
}

TEST_F(what_if_test, as_in_a_shorter_capture_is_that_capture) {
  const auto brief = opened({.context = 64, .documents = 2, .rows = 16}, "short"),
             whole = opened({.context = 256, .documents = 2, .rows = 64}, "long");
  const auto cut = what_if_as_in(whole, brief.manifest());
  EXPECT_EQ(cut.manifest().context_length, 64);
  const auto a = cut.read_layer(0), b = whole.before(64).read_layer(0);
  expect_near(a.view<float>().q, b.view<float>().q, 1e-6);
  EXPECT_EQ(what_if_as_in(brief, whole.manifest()).manifest().context_length, 256);
}

TEST(wanted_context, is_the_one_that_a_short_capture_stands_for) {
  capture_manifest m;
  m.context_length = 64;
  EXPECT_EQ(wanted_context(m, 0), 64);
  m.extra["short_of"] = 4096;
  EXPECT_EQ(wanted_context(m, 0), 4096);
  EXPECT_EQ(wanted_context(m, 128), 128);
  m.extra["short_of"] = 32;
  EXPECT_QKGEOM_ERROR("short_of", wanted_context(m, 0));
}

TEST_F(what_if_test, refuses_what_it_cannot_know) {
  const auto source = opened(planted, "c");
  EXPECT_QKGEOM_ERROR("a context of 64 tokens cannot be stretched to 32", what_if(source, {.context_length = 32}));
  EXPECT_QKGEOM_ERROR("more than 32 bits count", what_if(source, {.context_length = index_t{1} << 32}));
  auto manifest = source.manifest();
  const auto with = [&](const captured_norm& norm, std::string stage) {
    manifest.layers[0].norm = norm;
    manifest.rope_stage = std::move(stage);
    return source.changed({manifest, [](captured_layer l) { return l; }, [](index_t n) { return n; }});
  };
  const captured_norm none{1e-5}, weighs{1e-5, std::vector<double>(8, 1.0), {1, 1, 1, 0, 1, 1, 1, 1}};
  EXPECT_TRUE(sole_rope_of(with(none, "post"), 0, "this is why"));
  EXPECT_QKGEOM_ERROR("weights of channels after the rotation: this is why",
                      sole_rope_of(with(weighs, "post"), 0, "this is why"));
  EXPECT_QKGEOM_ERROR("weighs a channel by 0", before_rope(with(weighs, "post")).read_layer(0));
  EXPECT_NO_THROW(before_rope(with(weighs, "pre")).read_layer(0));
  EXPECT_QKGEOM_ERROR("does not tell", [&] {
    manifest.extra[head_parts_field] = {{"some", {0, 8}}};
    head_part(with(none, "post"), "some");
  }());
  planted.by_length = frequencies_by_length{32, {1, 1, 1, 1}, {2, 2, 2, 2}};
  opened(planted, "other");
  EXPECT_QKGEOM_ERROR("rotary embedding differs", capture_set::open({folder / "c", folder / "other"}));
  planted.says_rope = false;
  EXPECT_QKGEOM_ERROR("does not say which", what_if(opened(planted, "silent"), {.context_length = 128}));
}

TEST(stationarity, finds_the_step_and_the_growth_that_were_planted) {
  const auto of = [](double drift, double growth) {
    const test::scratch_folder folder;
    planted_capture{.context = 256, .documents = 24, .rows = 64, .drift = drift, .growth = growth}.write(folder / "c");
    const auto layer = before_rope(capture_set::open({folder / "c"})).read_layer(0);
    const auto head = layer.view<float>().head(0);
    return stationarity_of(head.q, head.q_position, head.q_document, 0);
  };
  const auto steady = of(0, 0), drifting = of(3, 0), growing = of(0, 0.8);
  EXPECT_FALSE(is_doubtful(steady));
  EXPECT_LT(std::abs(steady.shift.value), 0.02);
  EXPECT_LT(std::abs(steady.spread.value), 0.1);
  // A mean that rises by 3 over the context: halves differ by 1.5; 1.5^2 / 4 over a variance of 8 and of the rise.
  EXPECT_NEAR(drifting.shift.value, 1.5 * 1.5 / 4 / (8 + 1.5 * 1.5 / 12), 0.02);
  EXPECT_TRUE(is_doubtful(drifting));
  EXPECT_GT(growing.spread.value, 0.3);
  EXPECT_TRUE(is_doubtful(growing));
}

}  // namespace
