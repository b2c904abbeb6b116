// SPDX-License-Identifier: MIT
// The smallest outside program: keys and queries of one head, and how they lie in buckets of positions.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/head.hpp"

int main() {
  const qkgeom::bucket_edges buckets = qkgeom::uniform_buckets{512}.edges(2048);
  std::printf("%td buckets\n", buckets.count());
  return buckets.count() == 4 ? 0 : 1;
}
