// SPDX-License-Identifier: MIT
// Captures that disagree with the format or with their manifest: each is refused with a sentence that names the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_writer.hpp"
#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put, test::sample_manifest, test::sample_rows;
using testing::AllOf;
using testing::HasSubstr;

/// Tensors of the sample by name, to be spoilt; the rows stay in `rows`.
struct spoilt {
  sample_rows<float> rows;
  std::vector<std::int64_t> wide{};
  std::vector<tensor_to_write> tensors{};
  json manifest = json::parse(manifest_text(sample_manifest()));

  spoilt() {
    for (const auto& l : rows.layers())
      for (const char kind : {'q', 'k'})
        detail::add_side(tensors, sample_manifest(), "", "layer." + std::to_string(l.layer) + '.' + kind, l.element,
                         l.layer == 0 ? 2 : 1, kind == 'q' ? l.q : l.k, std::nullopt);
  }
  tensor_to_write& at(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  }
  void drop(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
  }
};

/// The sentence with which the sample is refused after `spoil`: when it is opened or layer 0 is read.
std::string refusal(const std::function<void(spoilt&)>& spoil) {
  const test::scratch_folder folder;
  spoilt s;
  spoil(s);
  write_safetensors(folder / "c.safetensors", s.tensors, {{"qkgeom", s.manifest.dump()}});
  const auto text = test::message_of([&] { capture::open(folder / "c.safetensors").read_layer(0); });
  EXPECT_THAT(text, HasSubstr("c.safetensors"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  return text;
}

using CaptureRefusal = test::in_scratch_folder;

TEST_F(CaptureRefusal, MissingTensors) {
  for (const std::string name :
       {"layer.0.q", "layer.0.k", "layer.0.q.position", "layer.0.k.position", "layer.0.q.example", "layer.0.k.example"})
    EXPECT_THAT(refusal([&](spoilt& s) { s.drop(name); }), HasSubstr("there is no tensor " + name));
}

TEST_F(CaptureRefusal, ShapesAndDtypes) {
  EXPECT_THAT(refusal([](spoilt& s) {
                s.at("layer.0.q").shape = {15, 3, 2};
              }),
              HasSubstr("layer.0.q must have shape (rows, 2, 3) after the manifest, not (15, 3, 2)"));
  EXPECT_THAT(refusal([](spoilt& s) { s.at("layer.0.q").shape = {15, 6}; }), HasSubstr("not (15, 6)"));
  EXPECT_THAT(refusal([](spoilt& s) { s.at("layer.0.q").shape = {30, 1, 3}; }), HasSubstr("not (30, 1, 3)"));
  EXPECT_THAT(refusal([](spoilt& s) { s.at("layer.0.q").dtype = "I32"; }),
              HasSubstr("layer.0.q must have dtype BF16, F16, F32 or F64, not I32"));
  EXPECT_THAT(refusal([](spoilt& s) {
                auto& t = s.at("layer.0.k");
                t.dtype = "BF16", t.data = t.data.first(t.data.size() / 2);
              }),
              HasSubstr("layer.0.k must have the dtype of layer.0.q, F32, not BF16"));
  EXPECT_THAT(refusal([](spoilt& s) { s.at("layer.0.q.position").dtype = "F32"; }),
              HasSubstr("layer.0.q.position must have dtype I32 or I64, not F32"));
  EXPECT_THAT(refusal([](spoilt& s) {
                s.at("layer.0.k.example").shape = {15, 1};
              }),
              HasSubstr("layer.0.k.example must have shape (15,), one entry for each row of layer.0.k, not (15, 1)"));
  EXPECT_THAT(refusal([](spoilt& s) {
                auto& t = s.at("layer.0.k.position");
                t.shape = {14}, t.data = t.data.first(14 * 4);
              }),
              HasSubstr("layer.0.k.position must have shape (15,)"));
  EXPECT_THAT(refusal([](spoilt& s) { s.at("layer.0.q.token").shape = {1, 15}; }), HasSubstr("layer.0.q.token"));
}

TEST_F(CaptureRefusal, Rows) {
  EXPECT_THAT(refusal([](spoilt& s) { s.rows.q0.position[7] = 32; }),
              HasSubstr("layer.0.q.position row 7: position 32 is not in [0, 32)"));
  EXPECT_THAT(refusal([](spoilt& s) { s.rows.k0.position[0] = -1; }),
              HasSubstr("layer.0.k.position row 0: position -1"));
  EXPECT_THAT(refusal([](spoilt& s) { s.rows.k0.position[3] = 3; }),
              HasSubstr("layer.0.k.position row 3: position 3 follows 4 in example 0"));
  EXPECT_THAT(refusal([](spoilt& s) { s.rows.q0.document[14] = 0; }),
              HasSubstr("layer.0.q.example row 14: example 0 follows 4"));
  EXPECT_THAT(refusal([](spoilt& s) { s.rows.q0.document[14] = 5; }),
              HasSubstr("layer.0.q.example row 14: the manifest lists no example 5 here"));
  EXPECT_THAT(refusal([](spoilt& s) { s.rows.q0.document[0] = -1; }), HasSubstr("no example -1"));
  EXPECT_THAT(refusal([](spoilt& s) {
                s.wide.assign(15, 0);
                s.wide[2] = std::int64_t{1} << 32;
                auto& t = s.at("layer.0.q.position");
                t.dtype = "I64", t.data = std::as_bytes(std::span(s.wide));
              }),
              HasSubstr("layer.0.q.position row 2: 4294967296 does not fit in 32 bits"));
}

TEST_F(CaptureRefusal, EqualPositionsAreInOrder) {
  sample_rows<float> rows;
  for (auto& p : rows.q0.position) p = 3;
  write_capture_file(folder / "c", sample_manifest(), rows.layers());
  EXPECT_EQ(capture::open(folder / "c").read_layer(0).q.position[4], 3);
}

TEST_F(CaptureRefusal, Manifest) {
  const auto with = [](const char* pointer, const json& value) {
    return refusal([&](spoilt& s) { s.manifest[json::json_pointer(pointer)] = value; });
  };
  const auto without = [](const char* field) { return refusal([&](spoilt& s) { s.manifest.erase(field); }); };
  for (const auto* field :
       {"format", "version", "model", "context_length", "bucket", "rate", "rope_stage", "seed", "layers"})
    EXPECT_THAT(without(field), HasSubstr(std::string("the field ") + field + " is missing"));
  EXPECT_THAT(with("/format", "other"), HasSubstr("format must be \"qkgeom-capture\", not \"other\""));
  EXPECT_THAT(with("/version", 2), HasSubstr("version must be 1"));
  EXPECT_THAT(with("/model/head_dim", 0), HasSubstr("model.head_dim must be an integer from 1 to 65536, not 0"));
  EXPECT_THAT(with("/model/head_dim", "3"), HasSubstr("model.head_dim must be an integer from 1 to 65536, not \"3\""));
  EXPECT_THAT(with("/model/n_key_heads", 5), HasSubstr("model.n_key_heads"));
  EXPECT_THAT(with("/model/n_key_heads", 3), HasSubstr("query heads (4) must be a multiple of key heads (3)"));
  EXPECT_THAT(with("/context_length", 1e300), HasSubstr("context_length"));
  EXPECT_THAT(with("/context_length", std::uint64_t{1} << 63), HasSubstr("context_length"));
  EXPECT_THAT(with("/bucket/kind", "odd"), HasSubstr("bucket.kind must be \"uniform\", \"log2\" or \"all\""));
  EXPECT_THAT(with("/bucket/size", 0), HasSubstr("bucket.size"));
  EXPECT_THAT(with("/rate", -1), HasSubstr("rate must be a number >= 0"));
  EXPECT_THAT(with("/rope_stage", "mid"), HasSubstr("rope_stage must be \"post\" or \"pre\""));
  EXPECT_THAT(with("/seed", -3), HasSubstr("seed"));
  EXPECT_THAT(with("/layers", json::array()), HasSubstr("layers must be a list of at least one layer"));
  EXPECT_THAT(with("/layers", 3), HasSubstr("layers must be a list, not 3"));
  EXPECT_THAT(with("/layers/0/layer", 4), HasSubstr("layers[0].layer must be an integer from 0 to 3, not 4"));
  EXPECT_THAT(with("/layers/1/layer", 0), HasSubstr("layer 0 stands twice"));
  EXPECT_THAT(with("/layers/0/rope", nullptr), HasSubstr("layers[0].rope must be true or false, not null"));
  EXPECT_THAT(with("/layers/0/window", 0), HasSubstr("layers[0].window"));
  EXPECT_THAT(with("/layers/0/query_heads", {0, 4}),
              HasSubstr("layers[0].query_heads[1] must be an integer from 0 to 3"));
  EXPECT_THAT(with("/layers/0/query_heads", {1, 1}), HasSubstr("names each head once"));
  EXPECT_THAT(with("/layers/0/query_heads", json::array()), HasSubstr("at least one head"));
  EXPECT_THAT(with("/layers/0/key_heads", {0}),
              HasSubstr("layer 0: query head 3 reads key head 1, which key_heads does not list"));
  EXPECT_THAT(with("/examples/1/index", 0), HasSubstr("example 0 stands twice"));
  EXPECT_THAT(with("/examples/1/labels", 3), HasSubstr("examples[1].labels must be an object"));
  const std::string long_name(5000, 'n');
  EXPECT_THAT(with("/model/name", long_name), HasSubstr("model.name must be a string of at most 4096 bytes"));
  EXPECT_THAT(with("/examples/1/id", long_name), HasSubstr("examples[1].id must be a string of at most 4096 bytes"));
  EXPECT_THAT(with("/examples/1/labels", {{long_name, 1}}),
              HasSubstr("examples[1].labels: a name or a value has more than"));
  EXPECT_THAT(with("/examples/1/labels", {{"a", long_name}}), HasSubstr("a name or a value has more than 4096 bytes"));
  EXPECT_THAT(with("/rope", {{"style", "third"}}), HasSubstr("rope.style must be \"half\" or \"interleaved\""));
  const auto rope = [](int rotary_dim, const json& inv_freq) {
    return json{{"style", "half"}, {"rotary_dim", rotary_dim}, {"inv_freq", inv_freq}};
  };
  EXPECT_THAT(with("/rope", rope(4, {1, 1})), HasSubstr("rope.rotary_dim must be an integer from 0 to 3, not 4"));
  EXPECT_THAT(with("/rope", rope(2, {1, 1})), HasSubstr("rope.inv_freq must be a frequency for each two"));
  EXPECT_THAT(with("/layers/0/rope", rope(2, std::vector<int>(100000))), HasSubstr("layers[0].rope.inv_freq must be"));
}

TEST_F(CaptureRefusal, WhatIsNoCapture) {
  const float x = 1;
  write_safetensors(folder / "plain", {tensor_of("x", {1}, &x)});
  write_safetensors(folder / "broken", {}, {{"qkgeom", "{\"format\""}});
  write_safetensors(folder / "deep", {}, {{"qkgeom", std::string(100000, '[')}});
  write_safetensors(folder / "twice", {}, {{"qkgeom", R"({"format":"a","format":"b"})"}});
  EXPECT_QKGEOM_ERROR("not a capture: its metadata has no field qkgeom", capture::open(folder / "plain"));
  EXPECT_QKGEOM_ERROR("not valid JSON", capture::open(folder / "broken"));
  EXPECT_QKGEOM_ERROR("nested deeper than 64 levels", capture::open(folder / "deep"));
  EXPECT_QKGEOM_ERROR("names the field \"format\" twice", capture::open(folder / "twice"));
  EXPECT_QKGEOM_ERROR("No such file", capture::open(folder / "none"));
  EXPECT_QKGEOM_ERROR("no manifest.json in this folder", capture::open(folder.path()));
}

TEST_F(CaptureRefusal, Folders) {
  test::write_sample_folder(folder / "c");
  const auto name = folder / "c" / "manifest.json";
  const auto good = json::parse(get(name));
  const auto with = [&](const char* pointer, const json& value) {
    auto m = good;
    m[json::json_pointer(pointer)] = value;
    put(name, m.dump());
    return test::message_of([&] { capture::open(folder / "c").read_layer(0); });
  };
  EXPECT_THAT(with("/shards", json::array()), HasSubstr("shards must list at least one file"));
  for (const auto* file : {"../c/shard-00000.safetensors", "/shard", "", ".", "..", "a\\b", "a\n"})
    EXPECT_THAT(with("/shards/0/file", file), HasSubstr("shards[0].file must be the plain name"));
  EXPECT_THAT(with("/shards/0/file", "shard-00001.safetensors"),
              HasSubstr("shard shard-00001.safetensors stands twice"));
  EXPECT_THAT(with("/shards/0/file", "none"), AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(with("/shards/1/examples", {0}), HasSubstr("example 0 is in more than one shard"));
  EXPECT_THAT(with("/shards/1/examples", {3}), HasSubstr("holds example 3, which examples does not list"));
  EXPECT_THAT(with("/shards/1/examples", json::array()), HasSubstr("the manifest lists no example 4 here"));
  EXPECT_THAT(with("/shards", {good["shards"][1], good["shards"][0]}),
              HasSubstr("starts with example 0 where the shards before it end with 4"));
  EXPECT_THAT(with("/seed", 8),
              HasSubstr("the shard's seed differs from that in manifest.json: it belongs to another capture"));
  EXPECT_THAT(with("/layers/1/window", nullptr), HasSubstr("the shard's layers differs"));
  put(name, good.dump());
  const auto c = capture::open(folder / "c");
  EXPECT_QKGEOM_ERROR("layer 1 is not in this capture", c.read_layer(1));
  EXPECT_QKGEOM_ERROR("there is no shard 2 of 2", c.read_layer(0, 2));
  EXPECT_QKGEOM_ERROR("there is no shard -1 of 2", c.read_layer(0, -1));
}

TEST_F(CaptureRefusal, ShardsOfDifferentDtypes) {
  const auto m = sample_manifest();
  capture_writer writer(folder / "c", m);
  writer.add_shard({(*m.documents)[0]}, sample_rows<float>({0}).layers());
  writer.add_shard({(*m.documents)[1]}, sample_rows<double>({1}).layers());
  writer.finish();
  EXPECT_QKGEOM_ERROR("layer.0.q has dtype F64, but F32", capture::open(folder / "c").read_layer(0));
  EXPECT_EQ(capture::open(folder / "c").read_layer(0, 1).element, dtype::f64);
}

}  // namespace
}  // namespace qkgeom
