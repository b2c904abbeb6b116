// SPDX-License-Identifier: MIT
#include "capture/model/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/io/safetensors.hpp"
#include "tests/common/refusal.hpp"
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
    const auto bytes = dtype == "F32" ? std::as_bytes(std::span(scales)) : std::as_bytes(std::span(rounded));
    write_safetensors(folder / "model.safetensors",
                      {{"w.weight", "F8_E4M3", {rows, columns}, std::as_bytes(std::span(codes)), {}},
                       {"w.weight_scale_inv", dtype, std::move(shape), bytes, {}}});
    return checkpoint(folder.path());
  }
};

TEST(checkpoint, fp8_in_blocks_is_value_times_scale) {
  const scaled_matrix m;
  const test::scratch_folder folder;
  for (const bool to_bf16 : {false, true}) {
    const checkpoint weights = m.written(folder, "F32", {2, 3});
    EXPECT_TRUE(weights.has_fp8());
    constexpr index_t first = 120, count = 20;  // over the edge of a block
    std::vector<float> found(count * m.columns);
    weights.read("w.weight", {m.rows, m.columns}, first, count, to_bf16, found.data());
    for (index_t r = 0; r < count; ++r)
      for (index_t c = 0; c < m.columns; ++c) {
        const float exact = m.value(first + r, c);
        ASSERT_EQ(found[r * m.columns + c], to_bf16 ? static_cast<float>(bf16::round(exact)) : exact) << r << ' ' << c;
      }
  }
}

TEST(checkpoint, names_of_tensors_are_one_line_in_errors) {
  const test::scratch_folder folder;
  const float value = NAN;
  write_safetensors(folder / "model.safetensors",
                    {{"a\nb", "F32", {1}, std::as_bytes(std::span<const float>(&value, 1)), {}}});
  const checkpoint weights(folder.path());
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
