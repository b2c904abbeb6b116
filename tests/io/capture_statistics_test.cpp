// SPDX-License-Identifier: MIT
// Softmax and losses of captures: read by document over shards and captures, and refused where they disagree with the
// manifest.
#include "qkgeom/io/capture_statistics.hpp"

#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::sample_rows, test::sample_statistics;
using testing::HasSubstr;

/// A single file of the sample with statistics, after `spoil`.
void write_spoilt(const std::filesystem::path& path,
                  const std::function<void(capture_manifest&, sample_statistics&)>& spoil) {
  sample_statistics s;
  auto m = sample_statistics::manifest();
  spoil(m, s);
  const sample_rows<float> rows;
  write_capture_file(path, m, rows.layers(), s.tensors);
}

TEST(CaptureStatistics, AreThoseOfAllDocumentsHoweverTheyAreStored) {
  const test::scratch_folder folder;
  test::write_sample_folder(folder / "two-shards", true);
  write_spoilt(folder / "one", [](auto&, auto&) {});
  const sample_statistics expected;
  for (const std::string name : {"two-shards", "one"}) {
    const auto source = capture_set::open({folder / name});
    std::size_t tensor = 0;
    for (const index_t layer : {index_t{0}, index_t{2}}) {
      const auto s = read_softmax(source, layer);
      ASSERT_TRUE(s) << name;
      EXPECT_EQ(s->documents, 3);
      EXPECT_EQ(s->heads, layer == 0 ? 2 : 1);
      EXPECT_EQ(s->buckets.edges(), (std::vector<index_t>{0, 8, 16, 24, 32}));
      EXPECT_EQ(s->distances.edges(), (std::vector<index_t>{0, 1, 2, 4, 8, 16, 32}));
      EXPECT_EQ(s->count, expected.values[tensor++]);
      EXPECT_EQ(s->first, expected.values[tensor++]);
      EXPECT_EQ(s->distance, expected.values[tensor++]);
      EXPECT_EQ(s->entropy, expected.values[tensor++]);
    }
    const auto l = read_losses(source);
    ASSERT_TRUE(l) << name;
    EXPECT_EQ(l->count, expected.values[tensor++]);
    EXPECT_EQ(l->sum, expected.values[tensor++]);
  }
  // Two captures: the documents of the second follow those of the first.
  const auto both = *read_losses(capture_set::open({folder / "one", folder / "two-shards"}));
  EXPECT_EQ(both.documents, 6);
  auto twice = expected.values[9];
  twice.insert(twice.end(), expected.values[9].begin(), expected.values[9].end());
  EXPECT_EQ(both.sum, twice);
  EXPECT_EQ(read_softmax(capture_set::open({folder / "one", folder / "two-shards"}), 2)->documents, 6);
}

TEST(CaptureStatistics, AreThereOnlyWhereEveryCaptureHoldsThemOverTheSameBuckets) {
  const test::scratch_folder folder;
  test::write_sample_folder(folder / "with", true);
  test::write_sample_folder(folder / "without");
  EXPECT_FALSE(read_softmax(capture_set::open({folder / "without"}), 0));
  EXPECT_FALSE(read_losses(capture_set::open({folder / "without"})));
  EXPECT_FALSE(read_softmax(capture_set::open({folder / "with", folder / "without"}), 0));
  EXPECT_FALSE(read_losses(capture_set::open({folder / "without", folder / "with"})));
  write_spoilt(folder / "other", [](auto& m, auto&) { m.extra["loss"]["bucket_size"] = 16; });
  EXPECT_FALSE(read_losses(capture_set::open({folder / "with", folder / "other"})));
  EXPECT_TRUE(read_softmax(capture_set::open({folder / "with", folder / "other"}), 0));
}

TEST(CaptureStatistics, ThatDisagreeWithTheManifestAreRefused) {
  const auto refusal = [](const std::function<void(capture_manifest&, sample_statistics&)>& spoil) {
    const test::scratch_folder folder;
    write_spoilt(folder / "c.safetensors", spoil);
    const auto text = test::message_of([&] {
      const auto source = capture_set::open({folder / "c.safetensors"});
      for (const index_t layer : source.layers()) read_softmax(source, layer);
      read_losses(source);
    });
    EXPECT_THAT(text, HasSubstr("c.safetensors"));
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  };
  const auto without = [&](const std::string& name) {
    return refusal([&](auto&, auto& s) { std::erase_if(s.tensors, [&](const auto& t) { return t.name == name; }); });
  };
  for (const std::string name : {"layer.0.attention.count", "layer.0.attention.first", "layer.2.attention.distance",
                                 "layer.2.attention.entropy", "loss.sum", "loss.count"})
    EXPECT_THAT(without(name), HasSubstr("there is no tensor " + name));
  const auto with_value = [&](std::size_t tensor, double x) {
    return refusal([&](auto&, auto& s) { s.values[tensor].back() = x; });
  };
  EXPECT_THAT(with_value(0, 0.5), HasSubstr("layer.0.attention.count must hold counts, not 0.5"));
  EXPECT_THAT(with_value(1, -1), HasSubstr("layer.0.attention.first holds -1, but"));
  EXPECT_THAT(with_value(2, std::numeric_limits<double>::infinity()),
              HasSubstr("layer.0.attention.distance holds a number that is not finite"));
  EXPECT_THAT(with_value(3, std::numeric_limits<double>::quiet_NaN()), HasSubstr("layer.0.attention.entropy holds a"));
  EXPECT_THAT(with_value(8, -8), HasSubstr("loss.count holds -8"));
  EXPECT_THAT(with_value(9, std::numeric_limits<double>::quiet_NaN()), HasSubstr("loss.sum holds a"));
  EXPECT_THAT(refusal([](auto&, auto& s) {
                s.tensors[1].shape = {3, 2, 3, 4};
              }),
              HasSubstr("layer.0.attention.first must have shape (3, 2, 4, 3) by the manifest, not (3, 2, 3, 4)"));
  EXPECT_THAT(refusal([](auto&, auto& s) { s.tensors[9].dtype = "I64"; }),
              HasSubstr("loss.sum must have dtype F64, not I64"));
  EXPECT_THAT(refusal([](auto& m, auto&) { m.extra["loss"]["bucket_size"] = 4; }),
              HasSubstr("loss.sum must have shape (3, 8)"));
  EXPECT_THAT(refusal([](auto& m, auto&) { m.extra["loss"]["bucket_size"] = 0; }),
              HasSubstr("(manifest): loss.bucket_size must be an integer from 1"));
  EXPECT_THAT(refusal([](auto& m, auto&) { m.extra["softmax"] = 3; }),
              HasSubstr("(manifest): softmax must be an object, not 3"));
  EXPECT_THAT(refusal([](auto& m, auto&) { m.documents.reset(); }), HasSubstr("the manifest must list its examples"));
  // So many buckets that no capture has them, named by a manifest that claims a long context.
  EXPECT_THAT(refusal([](auto& m, auto&) { m.context_length = 1 << 30; }),
              HasSubstr("bucket_size must be an integer from 262144"));
}

}  // namespace
}  // namespace qkgeom
