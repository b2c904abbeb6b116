// SPDX-License-Identifier: MIT
#include <filesystem>

#include "capture/job/stores/resume_state.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  // read_state takes a folder: its progress.json is a link to the input.
  static const std::filesystem::path folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "qkgeom-fuzz-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    std::filesystem::create_symlink(fuzz::input_file::path(), name + "/progress.json");
    return std::filesystem::path(name);
  }();
  const fuzz::input_file file(data, size);
  return fuzz::refuse_or_read([&] { read_state(folder); });
}
