// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/io/capture_statistics.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) {
  const auto c = capture::open(in.path());
  for (const index_t layer : c.layers()) {
    const auto rows = c.read_layer(layer);
    check_finite(rows);
    rows.visit([]<class T>(layer_view<T> v) { check_shapes(v); });
    read_softmax(c, layer);
  }
  read_losses(c);
  for (const moments_file& block : open_moments(c))
    for (const index_t layer : c.layers()) block.read(layer);
}
