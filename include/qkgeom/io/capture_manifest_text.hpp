// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// The manifest as JSON, fields in the order of the format; the same manifest gives the same text. `indent`: spaces per
/// level; -1: one line. Throws `error` if a string is not UTF-8.
QKGEOM_INLINE std::string manifest_text(const capture_manifest& m, int indent = -1);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/capture_manifest_writing.hpp"
#endif
