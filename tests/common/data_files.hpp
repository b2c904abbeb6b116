// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>

#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// A file of tests/data/golden, or long-f64.safetensors, which the build makes of long-f32.
inline std::string golden(const std::string& file) {
  return (file == "long-f64.safetensors" ? QKGEOM_MADE_DATA "/" : QKGEOM_TEST_DATA "/golden/") + file;
}

/// A capture of tests/data/golden, and the file there with another program's answers for it.
struct golden_case {
  std::string capture, answers;
};
inline const auto golden_cases =
    testing::Values(golden_case{"long-f64", "long-f32"}, golden_case{"long-f32", "long-f32"},
                    golden_case{"long-bf16", "long-bf16"}, golden_case{"short-bf16", "short-bf16"});
inline std::string name_of_case(const testing::TestParamInfo<golden_case>& c) {
  std::string name = c.param.capture;
  name[name.find('-')] = '_';
  return name;
}

/// Answers of SciPy or another program: a JSON file of tests/data, which a make_*.py there made.
inline const nlohmann::json& json_data(const std::string& file) {
  static std::map<std::string, nlohmann::json> read;
  if (!read.contains(file)) read[file] = nlohmann::json::parse(std::ifstream(QKGEOM_TEST_DATA "/" + file));
  return read[file];
}

/// Expects that `read` refuses what stands first in each line of this table of refusals.json, with the words beside it.
template <class Read>
void expect_refusals(const char* table, const Read& read) {
  for (const auto& line : json_data("refusals.json").at(table))
    EXPECT_THAT(message_of([&] { read(line[0]); }), testing::HasSubstr(line[1].get<std::string>())) << line;
}

/// The folder of a family's tiny checkpoint, whose weights the build makes.
inline std::string family_folder(const std::string& name) { return QKGEOM_MADE_DATA "/families/" + name; }

}  // namespace qkgeom::test
