// SPDX-License-Identifier: MIT
#include <filesystem>

#include "capture/job/stores/resume_state.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) {
  // read_state takes a folder: its progress.json is a link to the input's file.
  const auto file = in.path();
  static const std::filesystem::path folder = [&] {
    std::string name = (std::filesystem::temp_directory_path() / "qkgeom-fuzz-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    std::filesystem::create_symlink(file, name + "/progress.json");
    return std::filesystem::path(name);
  }();
  read_state(folder);
}
