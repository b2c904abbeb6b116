// SPDX-License-Identifier: MIT
#include "all_headers.hpp"

int defined_here();

int defined_here() { return 0; }
