// SPDX-License-Identifier: MIT
#include "capture/job/protocol.hpp"

#include "capture/model/head_changes.hpp"
#include "tests/common/data_files.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

// make_protocols.py --check (capture.protocols) compares the files with what the thesis draws.
TEST(protocol, every_one_is_read_as_it_is_written) {
  std::set<std::string> models;
  int thesis = 0, templates = 0;
  for (const builtin_protocol& s : builtin_protocols()) {
    const capture_options o = parse_protocol(s.text, std::string(s.name));
    const bool is_template = s.name.substr(0, 10) == "templates/";
    (is_template ? templates : thesis) += 1;
    if (!is_template) {
      EXPECT_EQ(o.protocol.name, s.name);
    }
    models.insert(o.protocol.model);
    const protocol_facts& f = o.protocol;
    json drawn;
    for (const auto& [layer, head] : o.selection.head_list) drawn[std::to_string(layer)].push_back(head);
    EXPECT_EQ(drawn, json::parse(s.text)["heads"]) << s.name;
    EXPECT_EQ(o.model.compute, compute_type::bf16);
    EXPECT_FALSE(o.selection.pre_rope);
    EXPECT_FALSE(o.selection.include_windowed);
    EXPECT_EQ(o.selection.sampler.rate, 1.0);
    const bool sixteenth = is_template || f.model == "HuggingFaceTB/SmolLM3-3B-checkpoints";
    EXPECT_EQ(o.selection.sampler.bucket_size, sixteenth ? o.selection.max_length / 16 : 8192) << s.name;
    EXPECT_EQ(o.model.rope_scaling, f.model.substr(0, 10) == "Qwen/Qwen3" ? "yarn:4.0:32768" : "") << s.name;
    EXPECT_FALSE(o.model.family.empty());
  }
  EXPECT_EQ(thesis, 23);
  EXPECT_EQ(templates, 5);
  EXPECT_EQ(models.size(), 14u + 5u);
}

// The thesis' list for Qwen3 8B begins like this (its published capture).
TEST(protocol, the_first_layer_of_a_list) {
  const auto o = find_protocol("qwen3-8b");
  std::vector<index_t> first;
  for (const head_id& h : o.selection.head_list)
    if (h.layer == 0) first.push_back(h.head);
  EXPECT_THAT(first, ::testing::ElementsAre(0, 2, 3, 4, 6, 16, 18, 25, 27, 28, 29, 30));
  EXPECT_EQ(o.selection.max_length, 131072);
  EXPECT_EQ(find_protocol("smollm3-lc-32k-to-64k-step-4000").protocol.tokenizer, "HuggingFaceTB/SmolLM3-3B");
  EXPECT_EQ(find_protocol("smollm3-lc-32k-to-64k-step-4000").model.revision, "lc-32k-to-64k-step-4000");
}

TEST(protocol, damaged_files_are_refused_by_field) {
  test::expect_refusals("protocols", [](const json& fields) { parse_protocol(fields.dump(), "s.json"); });
  EXPECT_QKGEOM_ERROR("qwen3-8b, ", find_protocol("qwen9"));
}

TEST(protocol, head_lists_as_words_and_as_json) {
  const test::scratch_folder folder;
  const auto read = [&](const std::string& text) {
    test::put(folder / "heads", text);
    return read_head_list(folder / "heads");
  };
  const std::vector<head_id> expected{{0, 3}, {2, 0}, {11, 31}};
  EXPECT_EQ(read("# layer.head\n2.0, 0.3\r\n11.31 # the last\n"), expected);
  EXPECT_EQ(read(R"( {"11": [31], "0": [3], "2": [0]})"), expected);
  test::expect_refusals("heads", [&](const json& text) { read(text); });
}

}  // namespace
}  // namespace qkgeom
