// SPDX-License-Identifier: MIT
// What README.md and docs/capture.md say about models follows from the tables of families and of GGUF's architectures,
// and from the families' fixtures. A failing test prints the lines as they must be.
#include "capture/gguf/architecture.hpp"
#include "capture/model/description.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using ::testing::HasSubstr;

std::string page(const std::string& name) { return test::get(std::string(QKGEOM_TEST_DATA) + "/../../" + name); }

/// "`a`, `b`"
std::string quoted(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "`" : ", `") + std::string(name) + '`';
  return text;
}

TEST(supported_models, the_readme_names_the_families_and_capture_md_has_a_row_for_each) {
  std::string rows, names;
  std::vector<std::string_view> types;
  const auto end_row = [&] {
    if (!types.empty()) rows += quoted(types) + " |\n";
    types.clear();
  };
  for (const decoder_family& family : decoder_families()) {
    if (!family.name.empty()) {
      end_row();
      rows += "| " + std::string(family.name) + " | ";
      names += (names.empty() ? "" : "; ") + std::string(family.name);
    }
    for (const auto type : model_types(family)) types.push_back(type);
  }
  end_row();
  EXPECT_THAT(page("docs/capture.md"), HasSubstr("|---|---|\n" + rows + "\n"));
  std::string readme = page("README.md");
  std::replace(readme.begin(), readme.end(), '\n', ' ');
  EXPECT_THAT(readme, HasSubstr(names + "."));
}

TEST(supported_models, capture_md_lists_the_table_of_architectures) {
  std::string list;
  for (const gguf_architecture& a : gguf_architectures()) {
    list += (list.empty() ? "`" : ", `") + std::string(a.name) + '`';
    if (!a.models.empty()) list += " (" + std::string(a.models) + ')';
  }
  EXPECT_THAT(page("docs/capture.md"), HasSubstr("| architectures | " + list + "; others"));
}

template <class Is>
bool has_layer(const decoder_description& d, const Is& is) {
  return std::any_of(d.layers.begin(), d.layers.end(), is);
}

TEST(supported_models, capture_md_names_the_families_with_a_feature) {
  struct documented {
    const char* words;
    bool (*is_there)(const decoder_description&);
  };
  using description = const decoder_description&;
  std::vector<decoder_description> models;
  for (const auto& fixture : forward_fixtures()) models.push_back(fixture.description());
  const std::string text = page("docs/capture.md");
  for (const auto& [words, is_there] : std::vector<documented>{
           {"a scale of scores that is not 1/sqrt(head size)", [](description d) { return d.score_scale.has_value(); }},
           {"soft cap of scores", [](description d) { return d.score_cap > 0; }},
           {"sinks: a logit per head that takes part in its softmax and belongs to no token",
            [](description d) { return d.sinks; }},
           {"norm of queries and keys before the rotary embedding",
            [](description d) { return d.qk == qk_norm::each_head || d.qk == qk_norm::all_heads; }},
           {"norm of queries and keys after it (Llama 4: in layers that rotate, without weights)",
            [](description d) {
              return d.qk == qk_norm::each_head_after_rotation || d.qk == qk_norm::each_rotated_head;
            }},
           {"queries that grow with position (Llama 4: in layers without rotary embedding)",
            [](description d) { return d.growth.has_value(); }},
           {"layers of a gated delta net, a state space or a convolution in place of attention",
            [](description d) { return d.delta.has_value(); }},
           {"gates on the attention's result", [](description d) { return d.gated_output; }},
           {"attention within chunks of a document, in layers that rotate",
            [](description d) { return has_layer(d, [](const auto& l) { return l.chunk.has_value(); }); }},
           {"layers without rotary embedding",
            [](description d) {
              return has_layer(d, [](const auto& l) { return !l.rope && !l.delta && !l.skipped; });
            }},
           {"a rotary embedding of its own in windowed layers", [](description d) { return d.local_rope.has_value(); }},
           {"heads of another size, or another number of key heads, in windowed layers",
            [](description d) { return has_layer(d, [](const auto& l) { return l.heads.has_value(); }); }},
           {"latent attention: heads of a part without rotary embedding and one with it, side by side",
            [](description d) { return d.latent.has_value(); }},
           {"attention to the keys that an indexer chooses", [](description d) { return d.indexer.has_value(); }}}) {
    std::vector<std::string_view> names;
    for (const decoder_family& family : decoder_families())
      if (std::any_of(models.begin(), models.end(), [&](description d) {
            const auto types = model_types(family);
            return std::find(types.begin(), types.end(), d.model_type) != types.end() && is_there(d);
          }))
        names.push_back(family.model_type);
    EXPECT_THAT(text, HasSubstr("\n| " + std::string(words) + " | " + quoted(names) + " | "));
  }
}

}  // namespace
}  // namespace qkgeom
