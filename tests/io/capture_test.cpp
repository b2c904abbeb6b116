// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture.hpp"

#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put, test::sample_manifest, test::sample_rows;
using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
class CaptureOf : public testing::Test {};
using element_types = testing::Types<bf16, f16, float, double>;
TYPED_TEST_SUITE(CaptureOf, element_types);

std::vector<std::int32_t> list(vector_view<const std::int32_t> v) { return {v.begin(), v.end()}; }

/// What the sample holds, read back in place from one file or joined from two shards.
template <class T>
void expect_sample(const captured_layer& l) {
  const sample_rows<T> rows;
  EXPECT_EQ(l.element, dtype_of<T>());
  EXPECT_THAT(l.key_of_query, ElementsAre(0, 1));
  EXPECT_THAT(list(l.q.token), ElementsAre(100, 101, 102, 103, 104, 100, 101, 102, 103, 104, 100, 101, 102, 103, 104));
  index_t seen = 0;
  l.visit([&]<class U>(layer_view<U> v) {
    check_shapes(v);
    EXPECT_TRUE((std::is_same_v<T, U>));
    EXPECT_EQ(v.q.rows, 15);
    for (index_t i = 0; i < v.q.rows; ++i, ++seen) {
      EXPECT_EQ(v.q_position[i], rows.q0.position[i]);
      EXPECT_EQ(v.k_position[i], rows.k0.position[i]);
      EXPECT_EQ(v.k_document[i], rows.k0.document[i]);
      EXPECT_EQ(static_cast<double>(v.q.head(1)(i, 2)), static_cast<double>(rows.q0.data[i * 6 + 5]));
      EXPECT_EQ(static_cast<double>(v.k.head(0)(i, 1)), static_cast<double>(rows.k0.data[i * 6 + 1]));
    }
  });
  EXPECT_EQ(seen, 15);
  check_finite(l);
}

TYPED_TEST(CaptureOf, SingleFileIsReadInPlace) {
  const test::scratch_folder folder;
  write_capture_file(folder / "c.safetensors", sample_manifest(), sample_rows<TypeParam>().layers());
  const auto c = capture::open(folder / "c.safetensors");
  EXPECT_THAT(c.layers(), ElementsAre(0, 2));
  EXPECT_EQ(c.n_shards(), 1);
  EXPECT_EQ(c.manifest(), sample_manifest());
  const auto l = c.read_layer(0);
  expect_sample<TypeParam>(l);
  EXPECT_EQ(l.q.data, c.file(0)->at("layer.0.q").data);
  const auto windowed = c.read_layer(2);
  EXPECT_FALSE(windowed.rope);
  EXPECT_EQ(windowed.window, 16);
}

TYPED_TEST(CaptureOf, FolderOfShardsIsJoined) {
  const test::scratch_folder folder;
  test::write_sample_folder<TypeParam>(folder / "c");
  const auto c = capture::open(folder / "c");
  EXPECT_EQ(c.n_shards(), 2);
  EXPECT_EQ(c.manifest().documents, sample_manifest().documents);
  expect_sample<TypeParam>(c.read_layer(0));
  const auto last = c.read_layer(0, 1);
  EXPECT_EQ(last.q.rows, 5);
  EXPECT_EQ(last.q.document[0], 4);
  EXPECT_EQ(last.q.data, c.file(1)->at("layer.0.q").data);
}

using Capture = test::in_scratch_folder;

TEST_F(Capture, AShardStandsAloneAndListsOnlyItsOwnExamples) {
  test::write_sample_folder(folder / "c");
  const auto c = capture::open(folder / "c" / "shard-00001.safetensors");
  ASSERT_EQ(c.manifest().documents->size(), 1u);
  EXPECT_EQ((*c.manifest().documents)[0].id, "c");
  EXPECT_EQ(c.read_layer(2).k.rows, 5);
}

TEST_F(Capture, ALayerOutlivesItsCapture) {
  test::write_sample_folder(folder / "c");
  const auto one = capture::open(folder / "c").read_layer(0, 0);
  const auto all = capture::open(folder / "c").read_layer(0);
  EXPECT_EQ(one.view<float>().q.head(0)(1, 2), 12.f);
  EXPECT_EQ(all.view<float>().q.head(0)(14, 2), 442.f);
  EXPECT_QKGEOM_ERROR("layer.0.q holds F32, not BF16", all.view<bf16>());
}

// Without the optional parts, with what the format allows beside them, with I64 rows and misaligned data.
TEST_F(Capture, ReadsTheBareMinimumOfAnotherWriter) {
  const std::string manifest =
      R"({"format":"qkgeom-capture","version":1,"model":{"name":"m","model_type":"t","config_sha256":"","head_dim":1,)"
      R"("n_layers":1,"n_query_heads":1,"n_key_heads":1},"context_length":4,"bucket":{"kind":"all","size":1},"rate":1,)"
      R"("rope_stage":"pre","seed":0,)"
      R"("layers":[{"layer":0,"rope":true,"window":null,"query_heads":[0],"key_heads":[0]}],)"
      R"("unknown":[1],"written_by":"x"})";
  json header{{"__metadata__", {{"qkgeom", manifest}}}};
  std::string data;
  const auto add = [&](const std::string& name, const char* dtype, const json& shape, const auto& values) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  };
  add("pad", "U8", {1}, std::string("p"));
  for (const std::string side : {"layer.0.q", "layer.0.k"}) {
    add(side, "F32", {2, 1, 1}, std::vector<float>{1, 2});
    add(side + ".position", "I64", {2}, std::vector<std::int64_t>{1, 3});
    add(side + ".example", "I64", {2}, std::vector<std::int64_t>{0, 9});
  }
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  put(folder / "c.safetensors", test::raw_safetensors(text, data));
  const auto c = capture::open(folder / "c.safetensors");
  EXPECT_FALSE(c.manifest().documents.has_value());
  EXPECT_EQ(c.manifest().extra, json({{"unknown", {1}}}));
  const auto l = c.read_layer(0);
  EXPECT_NE(l.q.data, c.file(0)->at("layer.0.q").data) << "misaligned: copied";
  EXPECT_EQ(l.view<float>().k.head(0)(1, 0), 2.f);
  EXPECT_THAT(list(l.k.document), ElementsAre(0, 9));
  EXPECT_EQ(l.q.token.size, 0);
}

TEST_F(Capture, NamesTensorAndRowOfNanAndInfinity) {
  const auto message = [&]<class T>(T bad, bool key) {
    sample_rows<T> rows;
    (key ? rows.k0 : rows.q0).data[7 * 6 + 4] = bad;
    write_capture_file(folder / "c", sample_manifest(), rows.layers());
    const auto l = capture::open(folder / "c").read_layer(0);
    return test::message_of([&] { check_finite(l); });
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message(nan, false),
              HasSubstr("layer.0.q row 7 (example 1, position 6) holds NaN at head 1 of the tensor, coordinate 1"));
  EXPECT_THAT(message(-inf, true), HasSubstr("layer.0.k row 7 (example 1, position 4) holds an infinity"));
  EXPECT_THAT(message(bf16::round(nan), false), HasSubstr("holds NaN"));
  EXPECT_THAT(message(bf16::round(inf), false), HasSubstr("holds an infinity"));
  EXPECT_THAT(message(f16::round(nan), true), HasSubstr("holds NaN"));
  EXPECT_THAT(message(f16::round(inf), true), HasSubstr("holds an infinity"));
  EXPECT_THAT(message(static_cast<double>(nan), true), HasSubstr("holds NaN"));
  EXPECT_THAT(message(static_cast<double>(inf), true), HasSubstr("holds an infinity"));
}

TEST_F(Capture, NamesTensorAndHeadOfSizesThatF64DoesNotTake) {
  const auto check = [&](double scale) {
    sample_rows<double> rows;
    for (double& x : rows.k0.data) x *= scale;
    write_capture_file(folder / "c", sample_manifest(), rows.layers());
    check_finite(capture::open(folder / "c").read_layer(0));
  };
  EXPECT_QKGEOM_ERROR("tensor layer.0.k holds values up to ", check(1e80));
  EXPECT_QKGEOM_ERROR("but sizes must lie between 1e-70 and 1e+70; scale the rows", check(1e-80));
  EXPECT_NO_THROW(check(1e60));
  EXPECT_NO_THROW(check(0));
}

TEST_F(Capture, LargestFiniteValuesAreFinite) {
  const auto check = []<class T>(const std::vector<T>& x) {
    captured_layer layer;
    layer.element = dtype_of<T>();
    layer.q.rows = layer.q.heads = 1;
    layer.q.dim = static_cast<index_t>(x.size());
    layer.q.data = reinterpret_cast<const std::byte*>(x.data());
    check_finite(layer);
  };
  EXPECT_NO_THROW(
      check(std::vector{std::numeric_limits<float>::max(), -std::numeric_limits<float>::denorm_min(), -0.f}));
  EXPECT_NO_THROW(check(std::vector<bf16>{{0x7f7f}, {0xff7f}, {0x0001}}));
  EXPECT_NO_THROW(check(std::vector<f16>{{0x7bff}, {0xfbff}, {0x8001}}));
}

}  // namespace
}  // namespace qkgeom
