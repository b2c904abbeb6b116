// SPDX-License-Identifier: MIT
// Captures that disagree with the format or with their manifest: each is refused with a sentence that names the place.
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
  void reshape(const std::string& name, auto... sizes) { at(name).shape = {sizes...}; }
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

struct spoilt_sample {
  void (*spoil)(spoilt&);
  const char* words;
};

TEST_F(CaptureRefusal, ShapesDtypesAndRows) {
  for (const auto& [spoil, words] : std::vector<spoilt_sample>{
           {[](auto& s) { s.reshape("layer.0.q", 15, 3, 2); },
            "layer.0.q must have shape (rows, 2, 3) after the manifest, not (15, 3, 2)"},
           {[](auto& s) { s.reshape("layer.0.q", 15, 6); }, "not (15, 6)"},
           {[](auto& s) { s.reshape("layer.0.q", 30, 1, 3); }, "not (30, 1, 3)"},
           {[](auto& s) { s.at("layer.0.q").dtype = "I32"; },
            "layer.0.q must have dtype BF16, F16, F32 or F64, not I32"},
           {[](auto& s) {
              auto& t = s.at("layer.0.k");
              t.dtype = "BF16", t.data = t.data.first(t.data.size() / 2);
            },
            "layer.0.k must have the dtype of layer.0.q, F32, not BF16"},
           {[](auto& s) { s.at("layer.0.q.position").dtype = "F32"; },
            "layer.0.q.position must have dtype I32 or I64, not F32"},
           {[](auto& s) { s.reshape("layer.0.k.example", 15, 1); },
            "layer.0.k.example must have shape (15,), one entry for each row of layer.0.k, not (15, 1)"},
           {[](auto& s) {
              auto& t = s.at("layer.0.k.position");
              t.shape = {14}, t.data = t.data.first(14 * 4);
            },
            "layer.0.k.position must have shape (15,)"},
           {[](auto& s) { s.reshape("layer.0.q.token", 1, 15); }, "layer.0.q.token"},
           {[](auto& s) { s.rows.q0.position[7] = 32; }, "layer.0.q.position row 7: position 32 is not in [0, 32)"},
           {[](auto& s) { s.rows.k0.position[0] = -1; }, "layer.0.k.position row 0: position -1"},
           {[](auto& s) { s.rows.k0.position[3] = 3; }, "layer.0.k.position row 3: position 3 follows 4 in example 0"},
           {[](auto& s) { s.rows.q0.document[14] = 0; }, "layer.0.q.example row 14: example 0 follows 4"},
           {[](auto& s) { s.rows.q0.document[14] = 5; },
            "layer.0.q.example row 14: the manifest lists no example 5 here"},
           {[](auto& s) { s.rows.q0.document[0] = -1; }, "no example -1"},
           {[](auto& s) {
              s.wide.assign(15, 0);
              s.wide[2] = std::int64_t{1} << 32;
              auto& t = s.at("layer.0.q.position");
              t.dtype = "I64", t.data = std::as_bytes(std::span(s.wide));
            },
            "layer.0.q.position row 2: 4294967296 does not fit in 32 bits"}})
    EXPECT_THAT(refusal(spoil), HasSubstr(words));
}

TEST_F(CaptureRefusal, EqualPositionsAreInOrder) {
  sample_rows<float> rows;
  for (auto& p : rows.q0.position) p = 3;
  write_capture_file(folder / "c", sample_manifest(), rows.layers());
  EXPECT_EQ(capture::open(folder / "c").read_layer(0).q.position[4], 3);
}

/// Lines of a pointer into the manifest, what stands there ("absent": nothing), and words of the refusal.
TEST_F(CaptureRefusal, Manifest) {
  json lines = read_json(QKGEOM_TEST_DATA "/refused-manifests.json");
  const std::string long_name(5000, 'n'), too_long = "a name or a value has more than 4096 bytes";
  lines.push_back({"/model/name", long_name, "model.name must be a string of at most 4096 bytes"});
  lines.push_back({"/examples/1/id", long_name, "examples[1].id must be a string of at most 4096 bytes"});
  lines.push_back({"/examples/1/labels", {{long_name, 1}}, "examples[1].labels: " + too_long});
  lines.push_back({"/examples/1/labels", {{"a", long_name}}, too_long});
  const json many{{"style", "half"}, {"rotary_dim", 2}, {"inv_freq", std::vector<int>(100000)}};
  lines.push_back({"/layers/0/rope", many, "layers[0].rope.inv_freq must be"});
  for (const json& line : lines)
    EXPECT_THAT(refusal([&](spoilt& s) {
                  const std::string place = line[0];
                  s.manifest[json::json_pointer(place)] = line[1];
                  if (line[1] == "absent") s.manifest.erase(place.substr(1));
                }),
                HasSubstr(line[2].get<std::string>()));
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
