// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string_view>

#include "capture/text/text_stage.hpp"
#include "qkgeom/io/json.hpp"

/// Types of stages that tokenizer.json may name, each with its reader. A new type is a new line in one of the tables.
namespace qkgeom::detail {

struct stage_type {
  std::string_view name;
  void (*read)(const json_value&, text_stages*);
};

std::span<const stage_type> normalizer_types();
std::span<const stage_type> pre_tokenizer_types();

}  // namespace qkgeom::detail
