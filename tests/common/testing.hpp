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

#include "qkgeom/core/error.hpp"

namespace qkgeom::test {

/// The sentence of the qkgeom::error that `f` throws; a test failure if it throws none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no qkgeom::error was thrown";
  return {};
}

}  // namespace qkgeom::test

/// The block throws a qkgeom::error whose sentence holds `text`.
#define EXPECT_QKGEOM_ERROR(text, ...) \
  EXPECT_THAT(::qkgeom::test::message_of([&] { __VA_ARGS__; }), ::testing::HasSubstr(text))
