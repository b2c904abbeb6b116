// SPDX-License-Identifier: MIT
// Manifests, what a writer of captures writes and refuses, and checks of whole captures.
#include "qkgeom/io/capture_writer.hpp"
#include "qkgeom/io/capture_check.hpp"
#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put, test::sample_manifest, test::sample_rows;
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

/// A capture of two shards in a folder of its own.
struct two_shards {
  const test::scratch_folder scratch;
  const std::filesystem::path folder = scratch / "c", second = folder / shard_name(1);

  two_shards() { test::write_sample_folder(folder); }
  json manifest() const { return json::parse(get(folder / "manifest.json")); }
  void set_manifest(const json& m) const { put(folder / "manifest.json", m.dump()); }
  /// The manifest as it was before shards had hashes.
  void forget_hashes() const {
    auto m = manifest();
    for (auto& shard : m["shards"]) shard.erase("sha256");
    set_manifest(m);
  }
  std::string refusal() const {
    return test::message_of([&] { check_capture(capture::open(folder)); });
  }
};

TEST(CaptureCheck, SaysWhatItHasRead) {
  const two_shards c;
  const auto found = check_capture(capture::open(c.folder));
  EXPECT_EQ(found.shards, 2);
  EXPECT_EQ(found.rows, 60);
  EXPECT_EQ(found.documents, 3);
  EXPECT_EQ(found.hashed, 2);
  EXPECT_EQ(found.moments, 0);
  c.forget_hashes();
  EXPECT_EQ(check_capture(capture::open(c.folder)).hashed, 0);
  EXPECT_EQ(check_capture(capture::open(c.second)).rows, 20) << "a single file";
}

TEST(CaptureCheck, FindsEveryChangedByte) {
  const two_shards c;
  const auto shard = capture::open(c.folder).manifest().shards[1];
  EXPECT_EQ(shard.sha256.size(), 64u);
  const std::string good = get(c.second);
  for (std::size_t i = 0; i < good.size(); i += 97) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    put(c.second, bad);
    EXPECT_QKGEOM_ERROR("shard-00001.safetensors is damaged", check_shard(c.folder, shard)) << i;
  }
  put(c.second, good.substr(0, 500));
  EXPECT_QKGEOM_ERROR("shard-00001.safetensors is damaged", check_shard(c.folder, shard));
  EXPECT_THAT(c.refusal(), HasSubstr("shard-00001.safetensors is damaged"));
  std::filesystem::remove(c.second);
  EXPECT_QKGEOM_ERROR("shard-00001.safetensors: the shard is missing", check_shard(c.folder, shard));
}

TEST(CaptureCheck, OfShardsWithoutHashesComparesRows) {
  const two_shards c;
  c.forget_hashes();
  auto shard = capture::open(c.folder).manifest().shards[1];
  check_shard(c.folder, shard);
  shard.rows = 21;
  EXPECT_QKGEOM_ERROR("it holds 20 rows of queries and keys, not 21", check_shard(c.folder, shard));
  put(c.second, get(c.second).substr(0, 500));
  EXPECT_QKGEOM_ERROR("shard-00001.safetensors", check_shard(c.folder, shard));
}

TEST(CaptureCheck, HoldsTheManifestAgainstTheRows) {
  const two_shards c;
  auto m = c.manifest();
  m["shards"][1]["rows"] = 19;
  c.set_manifest(m);
  EXPECT_THAT(c.refusal(), HasSubstr("shard-00001.safetensors: it holds 20 rows of queries and keys, 19 by"));
  EXPECT_QKGEOM_ERROR("it holds 20 rows", capture::open(c.folder).read_layer(0, 1));
  m["shards"][1]["rows"] = 20;
  m["examples"][2]["tokens"] = 12;  // queries of layer 0 stand at 0, 3, ..., 12
  c.set_manifest(m);
  EXPECT_THAT(c.refusal(),
              HasSubstr("layer.0.q.position row 4: position 12 lies past the end of example 4, which has 12"));
  m.erase("examples");
  c.set_manifest(m);
  EXPECT_EQ(check_capture(capture::open(c.folder)).rows, 60) << "lengths are not known";
}

TEST(CaptureCheck, FindsValuesThatAreNotFinite) {
  const test::scratch_folder folder;
  sample_rows<> rows;
  rows.k2.data[4] = std::numeric_limits<float>::quiet_NaN();
  write_capture_file(folder / "c", sample_manifest(), rows.layers());
  EXPECT_QKGEOM_ERROR("layer.2.k row 1 (example 0, position 4) holds NaN", check_capture(capture::open(folder / "c")));
}

}  // namespace
}  // namespace qkgeom
