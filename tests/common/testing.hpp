// SPDX-License-Identifier: MIT
// What tests of C++ begin with: GoogleTest, refusals, and the headers of the standard library that many of them use.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/common/refusal.hpp"
