// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_writer.hpp"

#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::sample_manifest, test::sample_rows;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(CaptureManifest, RoundTripsEveryField) {
  auto m = sample_manifest();
  m.bucket = {"log2", 16};
  m.seed = 0xffffffffffffffff;
  m.rate = 0.1;
  m.rope_stage = "pre";
  m.revision = "main";
  m.compute_dtype = "bf16";
  m.score_scale = 0.0625;
  m.score_softcap = 50;
  m.family = "short";
  m.rope = captured_rope{"half", 2, 1.25, {0.1}};
  m.rope->by_length = frequencies_by_length{64, {0.1}, {0.05}};
  m.model.context = 4096;
  m.layers[0].rope_parameters = captured_rope{"interleaved", 2, 1, {1.0 / 3}};
  m.layers[0].norm = captured_norm{1e-6, {1, 2, 3}, {0.1, 0.2, 0.3}};
  m.layers[1].norm = captured_norm{0};
  m.shards = {{"shard-00000.safetensors", {0, 1, 4}, 20}};
  m.extra = {{"moments", {{"edges", {0, 8}}}}};
  EXPECT_EQ(parse_manifest(manifest_text(m), "m"), m);
  EXPECT_EQ(parse_manifest(manifest_text(m, 1), "m"), m);
  auto own = json::parse(manifest_text(m));
  own["layers"][0]["rope"] = own["layers"][0]["rope_parameters"];
  own["layers"][0].erase("rope_parameters");
  EXPECT_EQ(parse_manifest(own.dump(), "m"), m) << "a layer's parameters may stand in place of its flag";
}

TEST(CaptureManifest, FrequenciesFollowTheLengthOfADocument) {
  auto m = sample_manifest();
  m.model.head_dim = 4;
  const rope_description model{
      .theta = 1e4, .rotary_dim = 4, .inv_freq = default_frequencies(1e4, 4), .dynamic = dynamic_scaling{4, 64}};
  m.rope = captured_rope_of(model, 128);
  const auto read = parse_manifest(manifest_text(m), "m");
  EXPECT_EQ(read, m);
  for (const index_t tokens : {1, 64, 65, 128, 300}) {
    const auto f = frequencies_of(model, tokens);
    EXPECT_EQ(read.rope->at_length(tokens).inv_freq, std::vector<double>(f.begin(), f.end())) << tokens;
  }
  EXPECT_EQ(read.rope->inv_freq, read.rope->at_length(128).inv_freq);
  EXPECT_LT(read.rope->inv_freq[1], read.rope->at_length(64).inv_freq[1]);
  // Earlier captures have the frequencies of longrope beside the embedding.
  m.rope = captured_rope{"half", 2, 1, {0.5}};
  auto earlier = json::parse(manifest_text(m));
  earlier["longrope"] = {{"context", 64}, {"short", {1}}, {"long", {0.5}}};
  m.rope->by_length = frequencies_by_length{64, {1}, {0.5}};
  EXPECT_EQ(parse_manifest(earlier.dump(), "m"), m);
}

TEST(CaptureManifest, BucketsHaveEdges) {
  EXPECT_EQ((captured_buckets{"uniform", 8}.edges(20)), uniform_buckets{8}.edges(20));
  EXPECT_EQ((captured_buckets{"all", 8}.edges(20)), uniform_buckets{8}.edges(20));
  EXPECT_EQ((captured_buckets{"log2", 8}.edges(99)), log2_buckets{8}.edges(99));
  EXPECT_QKGEOM_ERROR("more than the 4096 allowed", (captured_buckets{"uniform", 1}.edges(0x7fffffff)));
}

using CaptureWriter = test::in_scratch_folder;

TEST_F(CaptureWriter, ManifestComesLast) {
  const auto m = sample_manifest();
  capture_writer writer(folder / "new/c", m);
  EXPECT_QKGEOM_ERROR("it has no shard", writer.finish());
  const auto& shard = writer.add_shard(*m.documents, sample_rows<>().layers());
  EXPECT_EQ(shard.file, "shard-00000.safetensors");
  EXPECT_EQ(shard.rows, 60);
  EXPECT_FALSE(std::filesystem::exists(folder / "new/c/manifest.json"));
  writer.finish();
  EXPECT_TRUE(std::filesystem::exists(folder / "new/c/manifest.json"));
  EXPECT_QKGEOM_ERROR("it already holds one", capture_writer(folder / "new/c", m));
}

TEST_F(CaptureWriter, AResumedFolderIsTheSame) {
  test::write_sample_folder(folder / "whole");
  const auto m = sample_manifest();
  captured_shard first;
  {
    capture_writer killed(folder / "resumed", m);
    first = killed.add_shard({(*m.documents)[0], (*m.documents)[1]}, sample_rows<>({0, 1}).layers());
  }
  capture_writer writer(folder / "resumed", m);
  writer.append_shard({(*m.documents)[0], (*m.documents)[1]}, first);
  writer.add_shard({(*m.documents)[2]}, sample_rows<>({4}).layers());
  writer.finish();
  for (const auto* name : {"manifest.json", "shard-00000.safetensors", "shard-00001.safetensors"})
    EXPECT_EQ(get(folder / "whole" / name), get(folder / "resumed" / name)) << name;
}

TEST_F(CaptureWriter, ExtraTensorsAreKept) {
  const std::vector<double> count{1, 2};
  write_capture_file(folder / "c", sample_manifest(), sample_rows<>().layers(),
                     {tensor_of("layer.0.q.moments.count", {2}, count.data())});
  EXPECT_THAT(capture::open(folder / "c").file(0)->values<double>("layer.0.q.moments.count"), ElementsAre(1, 2));
}

TEST_F(CaptureWriter, RefusesRowsThatNoReaderAccepts) {
  const auto write = [&](auto spoil) {
    auto m = sample_manifest();
    sample_rows<> rows;
    spoil(m, rows);
    write_capture_file(folder / "c", m, rows.layers());
  };
  EXPECT_QKGEOM_ERROR("layer.0.q.position row 1: position 40", write([](auto&, auto& r) { r.q0.position[1] = 40; }));
  EXPECT_QKGEOM_ERROR("layer.2.k.position row 1", write([](auto&, auto& r) { r.k2.position[0] = 5; }));
  EXPECT_QKGEOM_ERROR("the manifest lists no example 4", write([](auto& m, auto&) { m.documents->pop_back(); }));
  EXPECT_QKGEOM_ERROR("layer.0.k of shape (15, 2, 3) and dtype F32 was given 356 bytes",
                      write([](auto&, auto& r) { r.k0.data.pop_back(); }));
  EXPECT_QKGEOM_ERROR("14 examples", write([](auto&, auto& r) { r.q0.document.pop_back(); }));
  EXPECT_QKGEOM_ERROR("2 layers were given, the manifest lists 1", write([](auto& m, auto&) { m.layers.pop_back(); }));
  EXPECT_QKGEOM_ERROR("layer 3 of the manifest was not given", write([](auto& m, auto&) { m.layers[1].layer = 3; }));
  EXPECT_QKGEOM_ERROR("which key_heads does not list", write([](auto& m, auto&) { m.layers[0].key_heads = {0}; }));
  EXPECT_QKGEOM_ERROR("not UTF-8", write([](auto& m, auto&) { m.model.name = "\xff"; }));
  EXPECT_TRUE(folder.names().empty());
}

TEST_F(CaptureWriter, RefusesExamplesOutOfOrder) {
  const auto m = sample_manifest();
  capture_writer writer(folder / "c", m);
  writer.add_shard({(*m.documents)[1]}, sample_rows<>({1}).layers());
  EXPECT_QKGEOM_ERROR("example 0 follows 1, but examples must ascend",
                      writer.add_shard({(*m.documents)[0]}, sample_rows<>({0}).layers()));
  EXPECT_QKGEOM_ERROR("example 0 follows 1", writer.append_shard({(*m.documents)[0]}, {shard_name(1), {0}, 0, {}}));
}

}  // namespace
}  // namespace qkgeom
