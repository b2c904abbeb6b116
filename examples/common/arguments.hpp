// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::examples {

/// Options that several programs share; the functions of cli.hpp declare them.
struct arguments {
  std::vector<std::filesystem::path> captures;  ///< folders or single files, of one model
  std::filesystem::path out;                    ///< folder of the results, created if missing
  bool figures = false;                         ///< whether the program draws
  int threads = 0;                              ///< 0: `usable_cores()`
  std::string device = "cpu";                   ///< or cuda
  index_t bucket_size = 0;                      ///< tokens; 0: as captured
  std::vector<index_t> bucket_edges;            ///< tokens, ascending; empty: uniform buckets
  std::vector<std::string> covariance{"diagonal", "joint", "empirical"};
  std::string pairs = "all";              ///< or per_document, prefix_uniform, sampled:N
  std::string query_position = "middle";  ///< or mean
  std::string precision = "auto";         ///< or f32, f64
  std::uint64_t seed = 0;
  std::vector<std::string> heads{};  ///< LAYER.HEAD to analyse; with `layers` empty too: all
  std::vector<index_t> layers{};     ///< layers to analyse
  std::vector<index_t> documents{};  ///< indices in the order of the captures; empty: all
  std::string head_part{};   ///< of each head these coordinates alone, by the name that captures give; empty: all
  index_t max_position = 0;  ///< the context ends there, tokens; 0: where it was captured to
  bool rows_only = false;    ///< moments from the captured rows even if the capture holds moments of every token
};

}  // namespace qkgeom::examples
