// SPDX-License-Identifier: MIT
#include "qkgeom/io/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace qkgeom {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(Progress, ShortWorkPrintsNothing) {
  CaptureStderr();
  {
    progress bar("work", 10, "tokens");
    for (int i = 0; i < 10; ++i) bar.add();
    bar.done();
  }
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST(Progress, LongWorkPrintsRateAndTimeLeft) {
  CaptureStderr();
  {
    progress bar("work", 1000, "tokens");
    bar.add(400);
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    std::thread other([&] { bar.add(100); });
    other.join();
    bar.add(500);
  }
  const auto text = GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("work [############............] 50 %  500/1000 tokens"));
  EXPECT_THAT(text, HasSubstr(" left\n"));
  EXPECT_THAT(text, HasSubstr("100 %  1000/1000 tokens"));
}

TEST(Progress, Lines) {
  EXPECT_EQ(progress::line("capture", 250, 1000, "tokens", 10),
            "capture [######..................] 25 %  250/1000 tokens  25 tokens/s  30 s left");
  EXPECT_EQ(progress::line("capture", 10, 7210, "heads", 10),
            "capture [........................] 0 %  10/7210 heads  1.00 heads/s  2 h 00 min left");
  EXPECT_EQ(progress::line("x", 4, 4, "heads", 62),
            "x [########################] 100 %  4/4 heads  0.06 heads/s  1 min 02 s");
  EXPECT_EQ(progress::line("x", 5, 0, "rows", 2), "x 5 rows  2.50 rows/s");
  EXPECT_EQ(progress::line("x", 0, 3, "rows", 0), "x [........................] 0 %  0/3 rows  0.00 rows/s");
}

}  // namespace
}  // namespace qkgeom
