// SPDX-License-Identifier: MIT
// Keys as a key-value cache gives them back: the bits of the Python package `gguf` where it writes the type, and what
// no rounding may do.
#include "qkgeom/core/cache_types.hpp"

#include <bit>

#include "qkgeom/io/safetensors.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

std::vector<float> rounded(cache_type t, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  round_as_cached(t, x.data(), static_cast<index_t>(x.size()), y.data());
  return y;
}

/// Tensors of the committed fixture.
std::vector<float> fixture(const std::string& name) {
  const safetensors_file file(std::filesystem::path(QKGEOM_TEST_DATA) / "cache-types.safetensors");
  const auto values = file.values<float>(name);
  return {values.begin(), values.end()};
}

TEST(cache_types, give_back_what_the_reference_gives_back) {
  const auto keys = fixture("keys");
  int types = 0;
  for (const auto& t : cache_types) {
    if (t.type == cache_type::f32 || t.type == cache_type::iq4_nl || is_rotated(t.type)) continue;
    const auto want = fixture(std::string(t.name) + ".values");
    auto found = rounded(t.type, keys);
    ASSERT_EQ(found.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(found[i], want[i]) << t.name << ' ' << i;
    found = keys;
    round_as_cached(t.type, found.data(), static_cast<index_t>(found.size()), found.data());
    EXPECT_EQ(found, want) << t.name << " in place";
    ++types;
  }
  EXPECT_EQ(types, 7);
  EXPECT_EQ(rounded(cache_type::f32, keys), keys);
}

TEST(cache_types, iq4_nl_keeps_its_levels_and_beats_the_even_grid_on_gaussian_blocks) {
  const float levels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<float> on_levels;
  for (int i = 0; i < 32; ++i) on_levels.push_back(0.25f * levels[i % 16]);
  EXPECT_EQ(rounded(cache_type::iq4_nl, on_levels), on_levels);
  for (float& x : on_levels) x = -x;
  EXPECT_EQ(rounded(cache_type::iq4_nl, on_levels), on_levels);
  EXPECT_EQ(rounded(cache_type::iq4_nl, std::vector<float>(32, 0.0f)), std::vector<float>(32, 0.0f));
  auto keys = fixture("keys");
  keys.erase(keys.begin(), keys.begin() + 32 * 8);  // the blocks that were made odd
  const auto square_error = [&](cache_type t) {
    const auto y = rounded(t, keys);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += (y[i] - keys[i]) * (y[i] - keys[i]);
    return sum;
  };
  EXPECT_LT(square_error(cache_type::iq4_nl), 0.9 * square_error(cache_type::q4_0));
}

// The grid of a block is kept, and no value moves farther than its type's step allows.
TEST(cache_types, move_values_by_half_a_step_at_most_and_grids_not_at_all) {
  std::vector<float> grid;
  for (int i = 0; i < 32; ++i) grid.push_back(0.5f * static_cast<float>(i % 15 - 7));
  grid[3] = -4;  // q4_0's largest level
  EXPECT_EQ(rounded(cache_type::q4_0, grid), grid);
  const auto keys = fixture("keys");
  const auto y = rounded(cache_type::q8_0, keys);
  for (std::size_t b = 0; b < keys.size(); b += 32) {
    float most = 0;
    for (std::size_t i = b; i < b + 32; ++i) most = std::max(most, std::abs(keys[i]));
    if (most < 1e-3f) continue;  // its scale is no normal half
    for (std::size_t i = b; i < b + 32; ++i) EXPECT_LE(std::abs(y[i] - keys[i]), most / 127 * 0.57f) << i;
  }
}

/// A key with an outlier loses less once a Hadamard matrix has spread it; scores are those of rotated queries.
TEST(cache_types, rotated_types_round_what_a_hadamard_matrix_gives) {
  constexpr index_t dim = 192, size = 64;
  std::vector<float> key(dim), query(dim);
  for (std::size_t i = 0; i < dim; ++i) {
    key[i] = std::sin(static_cast<float>(7 * i)) + (i == 5 ? 30.0f : 0.0f);
    query[i] = std::cos(static_cast<float>(11 * i));
  }
  // Sylvester's matrix: entry (i, j) is -1 if i and j have an odd number of ones in common.
  const auto rotated_of = [&](const std::vector<float>& x) {
    std::vector<float> y(dim);
    for (index_t b = 0; b < dim; b += size)
      for (index_t i = 0; i < size; ++i) {
        double sum = 0;
        for (index_t j = 0; j < size; ++j)
          sum += (std::popcount(static_cast<std::uint64_t>(i & j)) % 2 ? -1.0 : 1.0) * static_cast<double>(x[b + j]);
        y[b + i] = static_cast<float>(sum / 8);
      }
    return y;
  };
  const auto product = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  const auto error = [&](cache_type t) {
    double sum = 0;
    const auto y = rounded(t, key);
    for (std::size_t i = 0; i < dim; ++i) sum += std::pow(static_cast<double>(y[i] - key[i]), 2);
    return sum;
  };
  for (const auto& [plain, turned] : {std::pair{cache_type::q8_0, cache_type::q8_0_rotated},
                                      {cache_type::q5_1, cache_type::q5_1_rotated},
                                      {cache_type::q5_0, cache_type::q5_0_rotated},
                                      {cache_type::q4_1, cache_type::q4_1_rotated},
                                      {cache_type::q4_0, cache_type::q4_0_rotated},
                                      {cache_type::iq4_nl, cache_type::iq4_nl_rotated}}) {
    const double stored = product(rotated_of(query), rounded(plain, rotated_of(key)));
    EXPECT_NEAR(product(query, rounded(turned, key)), stored, 2e-4 * std::abs(stored)) << name_of(turned);
    EXPECT_LT(error(turned), 0.7 * error(plain)) << name_of(turned);
  }
}

TEST(cache_types, have_names_and_refuse_others) {
  for (const auto& t : cache_types) {
    EXPECT_EQ(parse_cache_type(t.name), t.type);
    EXPECT_EQ(name_of(t.type), t.name);
    EXPECT_EQ(bits_of(t.type), t.bits);
  }
  EXPECT_QKGEOM_ERROR("no type \"q3_k\"; the types are f32, f16, bf16, q8_0", parse_cache_type("q3_k"));
  EXPECT_NO_THROW(require_blocks(cache_type::f16, 20));
  EXPECT_NO_THROW(require_blocks(cache_type::q4_0, 96));
  EXPECT_QKGEOM_ERROR("keys of 80 values cannot be stored as q4_0", require_blocks(cache_type::q4_0, 80));
  EXPECT_NO_THROW(require_blocks(cache_type::q4_0_rotated, 192));
  for (const index_t dim : {96, 512})
    EXPECT_QKGEOM_ERROR("a power of 2 from 64 to 256 must divide them", require_blocks(cache_type::q4_0_rotated, dim));
}

}  // namespace
