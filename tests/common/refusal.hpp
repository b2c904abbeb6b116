// SPDX-License-Identifier: MIT
#pragma once

#include <gmock/gmock.h>

#include <string>

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
