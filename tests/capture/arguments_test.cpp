// SPDX-License-Identifier: MIT
#include "capture/arguments.hpp"

#include <sstream>

#include "tests/common/data_files.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

/// Splits a command line at its blanks and parses it.
template <class Parse>
auto parsed_by(const Parse& parse, const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return *parse(static_cast<int>(argv.size()), argv.data());
}
capture_options parsed(const std::string& line) { return parsed_by(parse_arguments, "qkgeom-capture " + line).options; }

TEST(arguments, override_the_settings_of_a_protocol) {
  auto a = parsed("--protocol smollm3-stage1-step-40000 --model m --text t --out o");
  EXPECT_EQ(a.selection.max_length, 4096);
  EXPECT_EQ(a.selection.sampler.bucket_size, 256);
  EXPECT_EQ(a.selection.head_list.size(), 300u);
  EXPECT_EQ(a.model.compute, compute_type::bf16);
  EXPECT_EQ(a.model.revision, "stage1-step-40000");
  EXPECT_EQ(a.model.family, "SmolLM3");
  a = parsed(
      "--max-length 64 --protocol=smollm3-stage1-step-40000 --model m --text t --out o --dtype f32 --heads 5 --rate 2 "
      "--family mine --skip-first 4 --same-positions --sampler log2 --prepend-bos --rope-theta 5e4 --rope-scaling "
      "none");
  EXPECT_EQ(a.selection.max_length, 64);
  EXPECT_EQ(a.model.compute, compute_type::f32);
  EXPECT_TRUE(a.selection.head_list.empty());
  EXPECT_EQ(a.selection.heads, 5);
  EXPECT_EQ(a.selection.sampler.rate, 2);
  EXPECT_EQ(a.selection.sampler.skip_first, 4);
  EXPECT_EQ(a.selection.sampler.kind, sampler_kind::log2);
  EXPECT_TRUE(a.selection.same_positions);
  EXPECT_EQ(a.inputs.bos, bos_rule::prepend);
  EXPECT_EQ(a.model.rope_theta, 5e4);
  EXPECT_EQ(a.model.rope_scaling, "none");
  EXPECT_EQ(a.model.family, "mine");
  EXPECT_EQ(parsed("--study qwen3-8b --model m --text t --out o").selection.max_length, 131072);  // its former name
  EXPECT_EQ(parsed("--model m --text t --out o --threads 0").run.threads, 0);
  EXPECT_EQ(parsed("--model m --text t --out o --seed 18446744073709551615").selection.seed, ~std::uint64_t{0});
}

TEST(arguments, that_cannot_run_are_refused) {
  test::expect_refusals("arguments", [](const json& line) { parsed(line.get<std::string>()); });
}

TEST(arguments, name_heads_in_a_word_or_a_file) {
  const std::vector<head_id> expected{{3, 12}, {31, 2}};
  EXPECT_EQ(parsed("--model m --text t --out o --heads 31.2").selection.head_list, (std::vector<head_id>{{31, 2}}));
  EXPECT_EQ(parsed("--model m --text t --out o --heads 31.2,3.12").selection.head_list, expected);
  const test::scratch_folder folder;
  test::put(folder / "3.1", "31.2 3.12");
  EXPECT_EQ(parsed("--model m --text t --out o --heads " + (folder / "3.1").string()).selection.head_list, expected);
}

TEST(arguments, of_an_evaluation_take_a_protocol_without_its_heads) {
  const auto protocol = parsed("--protocol qwen3-8b --model m --text t --out o");
  ASSERT_FALSE(protocol.model.rope_scaling.empty());
  const auto o = parsed_by(parse_evaluation, "qkgeom-evaluate --protocol qwen3-8b --model m --out o").options.capture;
  EXPECT_EQ(o.model.rope_scaling, protocol.model.rope_scaling);
  EXPECT_EQ(o.selection.max_length, protocol.selection.max_length);
  EXPECT_EQ(o.model.compute, protocol.model.compute);
  EXPECT_TRUE(o.selection.head_list.empty() && !o.selection.heads && o.selection.layers.empty());
  EXPECT_TRUE(o.selection.include_windowed);
  EXPECT_THROW(parsed_by(parse_evaluation, "qkgeom-evaluate --protocol none-such --model m --out o"), error);
}

}  // namespace
}  // namespace qkgeom
