// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::examples {

/// A value that `write_torch` pickles: what Python's bool, int, float, str, list, dict and torch.Tensor (f32, one
/// dimension) hold.
struct torch_value {
  using list = std::vector<torch_value>;
  using dict = std::vector<std::pair<std::string, torch_value>>;
  std::variant<bool, index_t, double, std::string, std::vector<float>, list, dict> held;
};

/// Writes `value` as torch.save does: a zip of stored entries with a pickle of protocol 2 and the tensors' storage.
/// torch.load reads it, with weights_only too. Throws `error` if the tensors take 4 GB or more.
void write_torch(const std::filesystem::path& path, const torch_value& value);

}  // namespace qkgeom::examples
