// SPDX-License-Identifier: MIT
// The heavy bodies of room io/, compiled once (see core/config.hpp).
#include "qkgeom/io/detail/capture_manifest_reading.hpp"
#include "qkgeom/io/detail/capture_manifest_writing.hpp"
#include "qkgeom/io/detail/json_bodies.hpp"
#include "qkgeom/io/detail/safetensors_header_reader.hpp"
#include "qkgeom/io/detail/safetensors_writing.hpp"
#include "qkgeom/io/detail/sha256.hpp"
