// SPDX-License-Identifier: MIT
// The heavy bodies of the room study/, compiled once (see core/config.hpp).
#include "qkgeom/study/detail/comparison.hpp"
#include "qkgeom/study/detail/trajectory.hpp"
