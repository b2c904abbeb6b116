// SPDX-License-Identifier: MIT
#include "capture/model/description.hpp"

#include "capture/job/plan.hpp"
#include "tests/capture/model/said.hpp"
#include "tests/common/data_files.hpp"

namespace qkgeom {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Tables of descriptions.json: `configs` by name; `readings`, lines of a config's name, fields put over its own
/// ("absent": taken away; options of the program), what the description says (`frequencies` by number), and perhaps
/// why; `refusals`, of a config, fields and words.
const json& tables() { return test::json_data("descriptions.json"); }
json config_of(const std::string& name) { return tables().at("configs").at(name); }
json config_of_line(const json& line) {
  json config = config_of(line[0]);
  for (const auto& [field, value] : line[1].items()) {
    config[field] = value;
    if (value == "absent" || field.starts_with("--")) config.erase(field);
  }
  if (const auto scaling = line[1].find("--rope-scaling"); scaling != line[1].end())
    config = with_rope_scaling(config, *scaling);
  if (const auto theta = line[1].find("--rope-theta"); theta != line[1].end()) config = with_rope_theta(config, *theta);
  return config;
}
json llama() { return config_of("llama"); }
json with(json config, const json& patch) {
  config.merge_patch(patch);
  return config;
}
/// A model of twelve layers, of any family.
json small(const char* type) { return with(config_of("small"), {{"model_type", type}}); }
void expect_near(float x, double expected) { EXPECT_NEAR(x, expected, 1e-6 * expected); }

TEST(description, says_what_the_table_says) {
  for (const json& line : tables().at("readings")) test::expect_said(read_description(config_of_line(line)), line);
}

TEST(description, is_refused_as_the_table_says) {
  for (const json& line : tables().at("refusals"))
    EXPECT_QKGEOM_ERROR(line[2].get<std::string>(), read_description(config_of_line(line))) << line;
  EXPECT_QKGEOM_ERROR("object", read_description(json::array()));
  EXPECT_QKGEOM_ERROR(
      "config.json: model_type 'foo' is not supported; supported: llama, mllama, mllama_text_model, llama4, ",
      read_description({{"model_type", "foo"}}));
}

TEST(description, a_text_config_that_does_not_say_its_type_has_that_of_the_family) {
  for (const decoder_family& family : decoder_families()) {
    if (family.text_type.empty()) continue;
    const std::string type(family.model_type), text(family.text_type);
    const json with_type = with(small(text.c_str()), {{"hidden_size_per_layer_input", 0}});
    json silent = with_type;
    silent.erase("model_type");
    const auto wrapped = read_description({{"model_type", type}, {"text_config", silent}}),
               alone = read_description(with_type);
    EXPECT_EQ(wrapped.model_type, type);
    EXPECT_THAT(wrapped.prefixes, testing::Contains("language_model.model.")) << type;
    EXPECT_EQ(wrapped.rope.inv_freq, alone.rope.inv_freq) << type;
    EXPECT_EQ(wrapped.context, alone.context) << type;
    ASSERT_EQ(wrapped.layers.size(), alone.layers.size()) << type;
    for (std::size_t i = 0; i < alone.layers.size(); ++i)
      EXPECT_EQ(wrapped.layers[i].window, alone.layers[i].window) << type;
  }
}

TEST(plan, a_capture_holds_layers_whose_heads_are_alike) {
  const auto d = read_description(config_of("gemma4"));
  for (const bool windowed : {false, true}) {
    const auto full = plan_capture(d, "m", "", {.include_windowed = windowed});
    ASSERT_EQ(full.layers.size(), 2u);
    EXPECT_EQ(full.model.head_dim, 512);
    EXPECT_EQ(full.rope->rotary_dim, 512);
    EXPECT_THAT(full.layers[0].key_heads, ElementsAre(0, 1));
  }
  const auto sliding = plan_capture(d, "m", "", {.layers = {0, 3}});
  EXPECT_EQ(sliding.model.head_dim, 256);
  EXPECT_EQ(sliding.model.n_key_heads, 4);
  EXPECT_EQ(sliding.rope->rotary_dim, 256);
  EXPECT_THAT(sliding.layers[1].key_heads, ElementsAre(0, 1, 2, 3));
  EXPECT_QKGEOM_ERROR("such as --layers 0-2", plan_capture(d, "m", "", {.layers = {0, 1, 2, 5}}));
  EXPECT_EQ(ranges_text(layers_with_other_heads(d)), "0-4,6-10");
}

TEST(description, longrope_chooses_by_length) {
  json phi{{"model_type", "phi3"},
           {"num_attention_heads", 32},
           {"max_position_embeddings", 131072},
           {"original_max_position_embeddings", 4096},
           {"rope_scaling", {{"type", "su"}, {"short_factor", json::array()}, {"long_factor", json::array()}}}};
  for (int i = 0; i < 48; ++i) {
    phi["rope_scaling"]["short_factor"].push_back(1 + 0.01 * i);
    phi["rope_scaling"]["long_factor"].push_back(1 + 0.5 * i);
  }
  const auto d = read_description(phi);
  EXPECT_NEAR(d.rope.attention_factor, 1.19023807, 1e-8);
  expect_near(d.rope.inv_freq[10], 1 / (1.1 * std::pow(1e4, 20.0 / 96)));
  EXPECT_EQ(frequencies_of(d.rope, 4096), d.rope.inv_freq);
  expect_near(frequencies_of(d.rope, 4097)[10], 1 / (6 * std::pow(1e4, 20.0 / 96)));
  const auto planned = [&](index_t length) {
    return plan_capture(d, "m", "", {.max_length = length}).rope->inv_freq[10];
  };
  EXPECT_EQ(planned(4096), static_cast<double>(d.rope.inv_freq[10]));
  EXPECT_EQ(planned(4097), static_cast<double>(d.rope.longrope->inv_freq[10]));
  EXPECT_EQ(read_description(with_rope_scaling(phi, "yarn:4:4096")).rope.type, "yarn");
  EXPECT_EQ(read_description(with(phi, {{"original_max_position_embeddings", 1e19}})).rope.longrope->context,
            index_t{9'000'000'000'000'000});
  phi["rope_scaling"]["long_factor"].push_back(2);
  EXPECT_QKGEOM_ERROR("long_factor must list 48 numbers", read_description(phi));
  phi["rope_scaling"].erase("long_factor");
  phi["rope_scaling"]["type"] = "longrope";
  EXPECT_QKGEOM_ERROR("long_factor is missing", read_description(phi));
}

TEST(plan, layers_that_attend_within_chunks_are_captured_up_to_one_chunk) {
  const decoder_description d = read_description({{"model_type", "llama4_text"}, {"num_hidden_layers", 8}});
  EXPECT_EQ(choose_layers(d, {.max_length = 8192}).size(), 8u);
  EXPECT_EQ(choose_layers(d, {.max_length = 8193}), (std::vector<index_t>{3, 7}));
  EXPECT_QKGEOM_ERROR("--max-length 8192", choose_layers(d, {.max_length = 8193, .layers = {1}}));
}

TEST(plan, layers_without_queries_and_keys_are_refused_by_name) {
  const auto d = read_description({{"model_type", "qwen3_5"}, {"text_config", json::object()}});
  EXPECT_QKGEOM_ERROR("gated delta net", choose_layers(d, {.layers = {4}}));
  const auto lfm = read_description({{"model_type", "lfm3"}});
  EXPECT_QKGEOM_ERROR("it is a convolution", choose_layers(lfm, {.layers = {0}}));
}

/// Phi 3.5 and 4 mini, Ministral 8B: a window that no document fills is none, as transformers' mask says too.
TEST(plan, layers_with_a_window_within_the_context_are_left_out_unless_asked_for) {
  const json ministral =
      with(llama(), {{"model_type", "mistral"}, {"sliding_window", 32768}, {"rope_scaling", nullptr}});
  const auto planned = [&](index_t context, const selection_options& options) {
    return plan_capture(read_description(with(ministral, {{"max_position_embeddings", context}})), "m", "", options);
  };
  const auto all = planned(32768, {.max_length = 512});
  EXPECT_EQ(all.layers.size(), 16u);
  EXPECT_EQ(all.layers[0].window, std::nullopt);
  EXPECT_QKGEOM_ERROR("every layer of the model has a sliding window", planned(32769, {.max_length = 512}));
  EXPECT_QKGEOM_ERROR("every layer of the model has a sliding window", planned(32768, {.max_length = 32769}));
  EXPECT_EQ(planned(32768, {.max_length = 32769, .include_windowed = true}).layers[0].window, 32768);
  const auto mixed =
      read_description(with(config_of("smollm3"), {{"use_sliding_window", true}, {"sliding_window", 64}}));
  EXPECT_EQ(plan_capture(mixed, "m", "", {}).layers.size(), 6u);
  EXPECT_EQ(plan_capture(mixed, "m", "", {.include_windowed = true}).layers.size(), 8u);
  EXPECT_EQ(plan_capture(mixed, "m", "", {.layers = {3}}).layers.at(0).window, 64);
  const json phi{{"model_type", "phi3"},
                 {"max_position_embeddings", 131072},
                 {"sliding_window", 262144},
                 {"original_max_position_embeddings", 4096}};
  EXPECT_EQ(choose_layers(read_description(phi), {}).size(), 32u);
}

TEST(plan, layers_that_are_left_out_are_named) {
  const auto left_out = [](const json& config, const selection_options& options) {
    return left_out_text(read_description(config), options);
  };
  const json gemma = with(llama(), {{"model_type", "gemma2"}, {"rope_scaling", nullptr}, {"num_hidden_layers", 4}});
  EXPECT_EQ(left_out(gemma, {}), "layers 0,2, which have a sliding window (--include-windowed captures them)");
  EXPECT_EQ(left_out(gemma, {.include_windowed = true}), "");
  EXPECT_EQ(left_out(gemma, {.layers = {1}}), "");
  EXPECT_EQ(left_out(llama(), {}), "");
  EXPECT_THAT(left_out({{"model_type", "qwen3_5"}, {"text_config", json::object()}}, {}),
              testing::AllOf(testing::StartsWith("layers 0-2,4-6,"), testing::EndsWith("which are gated delta nets")));
  const json granite = with(config_of("granite4"), {{"layer_types", {"mamba", "attention", "mamba", "mamba"}}});
  EXPECT_EQ(left_out(granite, {}), "layers 0,2-3, which are state spaces");
  const json llama4{{"model_type", "llama4"}, {"text_config", {{"num_hidden_layers", 4}}}};
  EXPECT_EQ(left_out(llama4, {.max_length = 8193}), "layers 0-2, which attend within chunks");
  EXPECT_EQ(left_out(llama4, {.max_length = 8192}), "");
}

/// A family that does not read layer_types takes none of them for full attention.
TEST(description, layer_types_that_a_family_does_not_have_are_refused) {
  const std::string full = "full_attention", chunked = "chunked_attention";
  for (const char* type : {"llama", "olmo3", "exaone4", "cohere2", "gemma2", "qwen3"})
    for (const auto& [types, words] : {std::pair{std::vector{full}, "layer_types"},
                                       {{full, full, full}, "layer_types"},
                                       {{full, chunked}, "\"chunked_attention\""}})
      EXPECT_QKGEOM_ERROR(words,
                          read_description(with(small(type), {{"num_hidden_layers", 2}, {"layer_types", types}})))
          << type;
}

TEST(description, refusals_show_text_of_config_json_cut_and_without_controls) {
  const std::string bad = "\x1b[2J\n" + std::string(1, '\0') + std::string(1000, 'x');
  for (const auto& patch : std::vector<json>{{{"model_type", bad}},
                                             {{"hidden_act", bad}},
                                             {{"rope_scaling", {{"rope_type", bad}}}},
                                             {{"model_type", "qwen3"}, {"layer_types", std::vector(16, bad)}}}) {
    const std::string text = test::message_of([&] { read_description(with(llama(), patch)); });
    EXPECT_THAT(text, testing::AnyOf(HasSubstr("?[2J??xxx"), HasSubstr("\\u001b[2J\\n\\u0000xxx")));
    EXPECT_LT(text.size(), 700u) << text;  // half of it lists the families
  }
}

TEST(plan, heads_and_their_keys) {
  const auto model = read_description(llama());
  const auto all = plan_capture(model, "m", "", {});
  ASSERT_EQ(all.layers.size(), 16u);
  EXPECT_EQ(all.layers[5].query_heads.size(), 32u);
  EXPECT_THAT(all.layers[5].key_heads, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const auto some = plan_capture(model, "m", "", {.heads = 40, .layers = {2, 5}, .seed = 3});
  std::size_t heads = 0;
  for (const auto& l : some.layers) {
    EXPECT_TRUE(l.layer == 2 || l.layer == 5);
    heads += l.query_heads.size();
    EXPECT_EQ(some.key_of_query(l).size(), l.query_heads.size());
  }
  EXPECT_EQ(heads, 40u);
  EXPECT_THROW(plan_capture(model, "m", "", {.layers = {16}}), error);
  EXPECT_THROW(plan_capture(model, "m", "", {.heads = 0}), error);
  EXPECT_FALSE(all.score_scale) << "that of the head size";
  auto scaled = model;
  scaled.score_scale = 0.0625;
  EXPECT_EQ(plan_capture(scaled, "m", "", {}).score_scale, 0.0625);
}

TEST(plan, the_rate_is_a_probability_for_uniform_buckets) {
  const auto model = read_description(config_of("smollm3"));
  const auto rate = [&](token_sampler s) { return plan_capture(model, "m", "", {.sampler = s}).rate; };
  EXPECT_DOUBLE_EQ(rate({sampler_kind::uniform, 512, 24}), 24.0 / 512);
  EXPECT_DOUBLE_EQ(rate({sampler_kind::uniform, 8, 24}), 1);
  EXPECT_DOUBLE_EQ(rate({sampler_kind::log2, 64, 24}), 24);
  EXPECT_DOUBLE_EQ(rate({sampler_kind::all, 512, 24}), 1);
}

TEST(plan, lists_of_layers) {
  EXPECT_THAT(parse_layers("0,3,5-7"), ElementsAre(0, 3, 5, 6, 7));
  EXPECT_THAT(parse_layers("3,1-3"), ElementsAre(1, 2, 3));
  EXPECT_TRUE(parse_layers("all").empty());
  for (const char* bad : {"", "x", "1,", "1-", "-1", "1;2", "1 2", "7-3", "7-3,5"})
    EXPECT_THROW(parse_layers(bad), error) << bad;
}

}  // namespace
}  // namespace qkgeom
