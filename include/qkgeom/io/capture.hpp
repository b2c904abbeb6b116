// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/capture_manifest_text.hpp"
#include "qkgeom/io/capture_reader.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/capture_writer.hpp"
#include "qkgeom/io/captured_layer.hpp"
