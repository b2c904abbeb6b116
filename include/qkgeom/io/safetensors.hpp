// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/io/safetensors_file.hpp"
#include "qkgeom/io/safetensors_write.hpp"
