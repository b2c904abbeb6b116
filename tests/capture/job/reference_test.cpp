// SPDX-License-Identifier: MIT
// --check finds a right reference right, and names the cause where one is wrong in a known way.
#include "capture/job/reference.hpp"

#include "qkgeom/io/safetensors.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/forward_fixture.hpp"

namespace {

using namespace qkgeom;
using testing::HasSubstr;

/// Changes a row of one side of the reference: (token, d, row).
using change_of_row = std::function<void(index_t, index_t, float*)>;

/// What is found against a reference of the bundled model's own rows, of which `change` makes something else.
std::vector<layer_difference> differences(const change_of_row& change, bool heads_backwards = false) {
  const test::scratch_folder folder;
  capture_options options;
  options.model.path = test::bundled / "stage1-step-1000";
  options.run.threads = 1;
  const auto description = read_description(read_json(options.model.path / "config.json"));
  std::vector<std::int32_t> ids, positions(24);
  std::iota(positions.begin(), positions.end(), 0);
  for (const std::int32_t i : positions) ids.push_back(40 + 7 * i % 90);
  auto rows = rows_of(options.model.path, description, ids, positions, compute_type::f32);
  for (auto& [name, x] : rows) {
    if (name[6] < '2') continue;  // layer.N.q
    const index_t d = description.head_dim, n = static_cast<index_t>(x.size()) / d;
    for (index_t i = 0; i < n; ++i) change(i % 24, d, x.data() + i * d);
    for (index_t i = 0; heads_backwards && i < n / 2; ++i)
      std::swap_ranges(x.begin() + i * d, x.begin() + (i + 1) * d,
                       x.begin() + ((n / 24 - 1 - i / 24) * 24 + i % 24) * d);
  }
  write_reference(folder / "reference.safetensors", description, ids, rows);
  std::ostringstream notes;
  return compare_with_reference(options, folder / "reference.safetensors", notes);
}

std::string printed(const std::vector<layer_difference>& layers) {
  std::ostringstream out;
  print_differences(out, layers);
  return out.str();
}

TEST(reference, the_same_rows_agree) {
  const auto layers = differences([](index_t, index_t, float*) {});
  ASSERT_EQ(layers.size(), 8u);
  for (const auto& l : layers) EXPECT_LT(std::max(l.q, l.k), 1e-6);
  EXPECT_THAT(printed(layers), HasSubstr("All layers agree"));
}

TEST(reference, wrong_rows_are_named_with_their_cause) {
  const auto says = [](const change_of_row& change, const char* words) {
    const auto text = printed(differences(change));
    EXPECT_THAT(text, HasSubstr("Layer 2 is the first that disagrees"));
    EXPECT_THAT(text, HasSubstr(words));
  };
  says(
      [](index_t, index_t d, float* x) {
        const std::vector<float> was(x, x + d);
        for (index_t j = 0; j < d / 2; ++j) {
          x[2 * j] = was[j];
          x[2 * j + 1] = was[j + d / 2];
        }
      },
      "the channels are in another order");
  says([](index_t, index_t d, float* x) { std::for_each(x, x + d, [](float& v) { v *= 0.25f; }); },
       "the reference is 0.25 times as large: a scale");
  says([](index_t t, index_t d,
          float* x) { std::for_each(x, x + d, [t](float& v) { v *= 1 + 0.2f * static_cast<float>(t); }); },
       "rows differ in length alone");
  says(
      [](index_t t, index_t d, float* x) {
        for (index_t j = 0; j < d / 2; ++j) {
          const float a = x[j], b = x[j + d / 2], angle = 0.4f * static_cast<float>(t);
          x[j] = std::cos(angle) * a - std::sin(angle) * b;
          x[j + d / 2] = std::sin(angle) * a + std::cos(angle) * b;
        }
      },
      "the first token agrees and later ones do not: the rotary embedding");
  says(
      [](index_t t, index_t d, float* x) {
        std::reverse(x, x + d / 2);
        for (index_t j = 0; j < d && t > 0; ++j) x[j] += static_cast<float>((5 * j + t) % 7);
      },
      "the rows of the projection stand in another order");
  says(
      [](index_t t, index_t d, float* x) {
        for (index_t j = 0; j < d; ++j) x[j] += static_cast<float>((3 * j + t) % 7);
      },
      "its pattern shows no cause");
  const auto nothing = [](index_t, index_t, float*) {};
  EXPECT_THAT(printed(differences(nothing, true)), HasSubstr("the heads are in another order"));
  EXPECT_QKGEOM_ERROR(".2 holds values that are not finite",
                      differences([](index_t, index_t, float* x) { x[0] = std::nanf(""); }));
}

TEST(reference, files_that_are_no_reference_of_the_model_are_refused) {
  const test::scratch_folder folder;
  capture_options options;
  options.model.path = test::bundled / "stage1-step-1000";
  options.run.threads = 1;
  std::ostringstream notes;
  const std::vector<float> values(8 * 3 * 32, 1);
  const auto compare = [&](const std::vector<std::int64_t>& ids, const std::string& name,
                           const std::vector<index_t>& shape) {
    const auto bytes =
        static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), index_t{4}, std::multiplies{}));
    write_safetensors(folder / "r.safetensors",
                      {{"ids", "I64", {static_cast<index_t>(ids.size())}, std::as_bytes(std::span(ids))},
                       {name, "F32", shape, std::as_bytes(std::span(values)).first(bytes)},
                       {"k.0", "F32", {2, 3, 32}, std::as_bytes(std::span(values)).first(2 * 3 * 32 * 4)}});
    return compare_with_reference(options, folder / "r.safetensors", notes);
  };
  EXPECT_EQ(compare({1, 2, 3}, "q.0", {8, 3, 32}).size(), 1u);
  struct wrong {
    std::vector<std::int64_t> ids;
    const char* name;
    std::vector<index_t> shape;
    const char* words;
  };
  for (const auto& [ids, name, shape, words] :
       {wrong{{}, "q.0", {8, 3, 32}, "ids is empty"},
        {{1, 2, 1024}, "q.0", {8, 3, 32}, "ids holds 1024, outside the model's vocabulary of 1024"},
        {{1, 2, -1}, "q.0", {8, 3, 32}, "ids holds -1"},
        {{1, 2}, "q.0", {8, 3, 32}, "q.0 has 8 heads, 3 tokens and head size 32, but the model gives 8, 2 and 32"},
        {{1, 2, 3}, "q.0", {4, 3, 32}, "q.0 has 4 heads"},
        {{1, 2, 3}, "q.0", {8, 96}, "q.0 must be (heads, tokens, head size) in F32"},
        {{1, 2, 3}, "q.8", {8, 3, 32}, "holds no q.L and k.L of a layer"}})
    EXPECT_QKGEOM_ERROR(words, compare(ids, name, shape));
}

}  // namespace
