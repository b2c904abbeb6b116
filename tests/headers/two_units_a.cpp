// SPDX-License-Identifier: MIT
#include "all_headers.hpp"

int other_unit();

int main() { return other_unit(); }
