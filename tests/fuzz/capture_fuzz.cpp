// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/io/capture_statistics.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  const fuzz::input_file file(data, size);
  return fuzz::refuse_or_read([&] {
    const auto c = capture::open(file.path());
    for (const index_t layer : c.layers()) {
      const auto rows = c.read_layer(layer);
      check_finite(rows);
      rows.visit([]<class T>(layer_view<T> v) { check_shapes(v); });
      read_softmax(c, layer);
    }
    read_losses(c);
    for (const moments_file& block : open_moments(c))
      for (const index_t layer : c.layers()) block.read(layer);
  });
}
