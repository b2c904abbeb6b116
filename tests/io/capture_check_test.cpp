// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_check.hpp"
#include "qkgeom/io/capture_writer.hpp"

#include "qkgeom/io/capture.hpp"
#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put, test::sample_manifest, test::sample_rows;
using testing::HasSubstr;

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
