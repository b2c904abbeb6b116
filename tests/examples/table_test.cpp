// SPDX-License-Identifier: MIT
#include "examples/common/table.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {
namespace {

TEST(Numbers, HaveNoNegativeZeroAndAMarkForNone) {
  EXPECT_EQ(fixed(-0.001), "0.00");
  EXPECT_EQ(fixed(-0.006), "-0.01");
  EXPECT_EQ(fixed(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(signed_fixed(0.5), "+0.50");
  EXPECT_EQ(signed_fixed(-0.5, 1), "-0.5");
  EXPECT_EQ(signed_fixed(0.0), "0.00");
  EXPECT_EQ(signed_fixed(std::numeric_limits<double>::infinity()), "-");
}

TEST(Numbers, KeepTheirSignificantDigits) {
  EXPECT_EQ(significant(0), "0");
  EXPECT_EQ(significant(0.00012345), "0.000123");
  EXPECT_EQ(significant(-4.5678), "-4.57");
  EXPECT_EQ(significant(78912), "78912");
  EXPECT_EQ(significant(1.5e-9), "1.50e-09");
  EXPECT_EQ(percent(0.426), "43 %");
  EXPECT_EQ(grouped(1234567), "1 234 567");
  EXPECT_EQ(grouped(-123456), "-123 456");
  EXPECT_EQ(grouped(999), "999");
}

TEST(Table, AlignsByWhatIsSeenNotByBytes) {
  table t({{"name", table::align::left}, {"value"}});
  t.row({"α", "1.5"});
  t.rule();
  t.row({"plain", "-10.25"});
  EXPECT_EQ(t.str(),
            "  name    value\n"
            "  ─────────────\n"
            "  α         1.5\n"
            "  ─────────────\n"
            "  plain  -10.25\n");
}

TEST(Table, FillsShortRowsAndRefusesLongOnes) {
  table t({{"a", table::align::left}, {"b"}});
  t.row({"x"});
  EXPECT_EQ(t.str(), "  a  b\n  ────\n  x\n");
  EXPECT_THROW(t.row({"1", "2", "3"}), error);
}

}  // namespace
}  // namespace qkgeom::examples
