// SPDX-License-Identifier: MIT
// Linking fails if a header defines a function or a variable that is not inline.
#include "all_headers.hpp"

int other_unit();

int other_unit() { return 0; }
