// SPDX-License-Identifier: MIT
#include "capture/model/description.hpp"
#include "qkgeom/io/json.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) { read_description(parse_json(in.text(), "config.json")); }
