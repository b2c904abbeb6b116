// SPDX-License-Identifier: MIT
#include "capture/model/checkpoint.hpp"

#include "qkgeom/io/safetensors.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

/// A matrix in E4M3, whose blocks of 128 x 128 are cut at both edges, and its scales.
struct scaled_matrix {
  static constexpr index_t rows = 200, columns = 300;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales{0.5f, 3.0f, 0.011f, 1.5f, -2.0f, 0.25f};

  scaled_matrix() {
    for (index_t i = 0; i < rows * columns; ++i) {
      const auto code = static_cast<std::uint8_t>((i * 37 + i / columns) % 256);
      codes.push_back((code & 127) == 127 ? 0 : code);  // any value there is, but NaN
    }
  }
  float value(index_t r, index_t c) const {
    const int code = codes[r * columns + c], exponent = code >> 3 & 15, fraction = code & 7;
    const double size = exponent > 0 ? (1 + fraction / 8.0) * std::pow(2.0, exponent - 7) : fraction / 512.0;
    return static_cast<float>(code & 128 ? -size : size) * scales[r / 128 * 3 + c / 128];
  }
  checkpoint written(const test::scratch_folder& folder, const std::string& dtype, std::vector<index_t> shape) const {
    std::vector<bf16> rounded;
    for (const float s : scales) rounded.push_back(bf16::round(s));
    const std::size_t n = shape.empty() ? 1 : scales.size();
    const auto bytes =
        dtype == "F32" ? std::as_bytes(std::span(scales).first(n)) : std::as_bytes(std::span(rounded).first(n));
    write_safetensors(folder / "model.safetensors",
                      {{"w.weight", "F8_E4M3", {rows, columns}, std::as_bytes(std::span(codes)), {}},
                       {"w.weight_scale_inv", dtype, std::move(shape), bytes, {}}});
    return checkpoint(folder.path());
  }
};

TEST(checkpoint, fp8_is_value_times_scale) {
  scaled_matrix m;
  const test::scratch_folder folder;
  constexpr index_t first = 120, count = 20;  // over the edge of a block
  for (const bool blocks : {true, false}) {
    if (!blocks) std::ranges::fill(m.scales, static_cast<float>(bf16::round(0.0173f)));  // as Ministral 3 has it
    const checkpoint weights = blocks ? m.written(folder, "F32", {2, 3}) : m.written(folder, "BF16", {});
    EXPECT_TRUE(weights.has_fp8());
    std::vector<float> exact(count * m.columns), rounded(exact.size());
    std::vector<bf16> in_bf16(exact.size());
    weights.read("w.weight", {m.rows, m.columns}, first, count, false, exact.data());
    weights.read("w.weight", {m.rows, m.columns}, first, count, true, rounded.data());
    weights.read_bf16("w.weight", {m.rows, m.columns}, first, count, in_bf16.data());
    for (index_t i = 0; i < count * m.columns; ++i) {
      const float value = m.value(first + i / m.columns, i % m.columns);
      ASSERT_EQ(exact[i], value) << i;
      ASSERT_EQ(rounded[i], static_cast<float>(bf16::round(value))) << i;
      ASSERT_EQ(in_bf16[i].bits, bf16::round(value).bits) << i;
    }
  }
}

TEST(checkpoint, names_of_tensors_are_one_line_in_errors) {
  const test::scratch_folder folder;
  const float value = NAN;
  write_safetensors(folder / "model.safetensors",
                    {{"a\nb", "F32", {1}, std::as_bytes(std::span<const float>(&value, 1)), {}}});
  const checkpoint weights(folder.path());
  EXPECT_FALSE(weights.has_fp8());
  float out = 0;
  EXPECT_QKGEOM_ERROR("tensor a?b holds NaN", weights.read("a\nb", {1}, 0, 1, false, &out));
  EXPECT_QKGEOM_ERROR("has no tensor b?a", weights.check("b\na", {1}));
}

TEST(checkpoint, fp8_with_other_scales_is_refused) {
  const scaled_matrix m;
  const test::scratch_folder folder;
  for (const auto& shape : std::vector<std::vector<index_t>>{{3, 2}, {6}, {1, 6}, {2, 3, 1}})
    EXPECT_QKGEOM_ERROR("must be one number, or one per block of 128 x 128, (2, 3), BF16 or F32, not F32",
                        m.written(folder, "F32", shape).check("w.weight", {m.rows, m.columns}));
  scaled_matrix broken;
  broken.scales[4] = INFINITY;
  std::vector<float> row(m.columns);
  EXPECT_QKGEOM_ERROR(
      "tensor w.weight holds",
      broken.written(folder, "F32", {2, 3}).read("w.weight", {m.rows, m.columns}, 150, 1, false, row.data()));
}

}  // namespace
}  // namespace qkgeom
