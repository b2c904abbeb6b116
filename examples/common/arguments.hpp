// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::examples {

/// What every program of this folder is told on its command line. Declared once, by `add_arguments`.
struct arguments {
  std::vector<std::filesystem::path> captures;  ///< folders or single files, of one model
  std::filesystem::path out;                    ///< folder, made if it is not there
  int threads = 0;                              ///< 0: one a core
  std::string device = "cpu";                   ///< or cuda, where the program has add_device_argument
  index_t bucket_size = 0;                      ///< tokens; 0: as captured
  std::vector<index_t> bucket_edges;            ///< tokens, ascending; empty: uniform buckets
  std::vector<std::string> covariance{"diagonal", "joint", "empirical"};
  std::string pairs = "all";              ///< or sampled:N
  std::string query_position = "middle";  ///< or mean
  std::string precision = "auto";         ///< or f32, f64
  std::uint64_t seed = 0;
  std::vector<index_t> documents{};  ///< of the captures, numbered as they are read; empty: all
  bool rows_only = false;            ///< moments of the rows, even where the captures hold those of every token
};

}  // namespace qkgeom::examples
