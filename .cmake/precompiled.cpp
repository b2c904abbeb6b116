// SPDX-License-Identifier: MIT
// The heavy bodies of the library, compiled once for the programs and tests of this project (see core/config.hpp).
#include "qkgeom/backend/detail/cpu/kernel_bodies.hpp"
#include "qkgeom/linalg/detail/symmetric.hpp"
