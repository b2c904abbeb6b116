// SPDX-License-Identifier: MIT
// Thousands of damaged files, the same in every run: each is read, or refused with a qkgeom::error. Any other exception
// fails the test, a crash or an overrun stops it (the sanitizer builds see the latter).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qkgeom/io/capture_statistics.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/npy.hpp"
#include "tests/fuzz/damage.hpp"
#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using fuzz::damaged, fuzz::dice;
using test::get, test::put;

/// Reads `rounds` damaged copies; returns how many were refused.
template <class Read>
int refused_of(int rounds, const std::string& good, std::size_t head, std::uint64_t seed,
               const std::filesystem::path& path, Read read) {
  dice die(seed);
  int refused = 0;
  for (int i = 0; i < rounds; ++i) {
    put(path, damaged(good, head, die));
    try {
      read();
    } catch (const error& e) {
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      EXPECT_LT(std::string(e.what()).size(), 1000u) << e.what();
      ++refused;
    } catch (const std::exception& e) {
      ADD_FAILURE() << "round " << i << ": " << e.what();
    }
  }
  return refused;
}

/// Reads all of a capture, every element of it.
void read_all(const std::filesystem::path& path) {
  const auto c = capture::open(path);
  for (const index_t layer : c.layers()) {
    const auto l = c.read_layer(layer);
    check_finite(l);
    l.visit([]<class T>(layer_view<T> v) { check_shapes(v); });
    read_softmax(c, layer);
  }
  read_losses(c);
}

/// Like `write_capture_file`, but a length after the header that fits any header, so that damage goes deeper than it.
std::string with_true_length(std::string bytes) {
  const auto end = bytes.find("}}", bytes.find("layer.2.k.token"));
  if (bytes.size() < 8 || end == std::string::npos) return bytes;
  const std::uint64_t length = end + 2 - 8;
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

using Fuzz = test::in_scratch_folder;

TEST_F(Fuzz, SingleFileCaptures) {
  const test::sample_statistics statistics;
  write_capture_file(folder / "good", statistics.manifest(), test::sample_rows<bf16>().layers(), statistics.tensors);
  const auto good = get(folder / "good");
  std::uint64_t header = 0;
  std::memcpy(&header, good.data(), 8);
  const auto path = folder / "bad";
  const int refused = refused_of(4000, good, header, 1, path, [&] { read_all(path); });
  EXPECT_GT(refused, 2000);
  const int deeper = refused_of(2000, good, header, 2, path, [&] {
    put(path, with_true_length(get(path)));
    read_all(path);
  });
  EXPECT_GT(deeper, 500);
}

TEST_F(Fuzz, ManifestsOfFolders) {
  test::write_sample_folder(folder / "c", true);
  const auto path = folder / "c" / "manifest.json";
  const auto good = get(path);
  EXPECT_GT(refused_of(3000, good, good.size(), 3, path, [&] { read_all(folder / "c"); }), 1500);
}

TEST_F(Fuzz, NumpyFiles) {
  save_npy(folder / "good", xt::xarray<double>{{1, 2, 3}, {4, 5, 6}});
  const auto path = folder / "bad";
  EXPECT_GT(refused_of(3000, get(folder / "good"), 128, 4, path, [&] { load_npy<double>(path); }), 1500);
}

TEST_F(Fuzz, CsvFiles) {
  const std::string good = "layer,name,value\n1,\"a,\"\"b\"\"\",0.5\n2,\"c\nd\",\n3,e,1e-3\n";
  const auto path = folder / "bad";
  EXPECT_GT(refused_of(3000, good, good.size(), 5, path, [&] { read_csv(path).numbers("value"); }), 1000);
}

}  // namespace
}  // namespace qkgeom
