// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include "qkgeom/io/csv.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// A folder of its own for one test, removed with it.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "qkgeom-io-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a scratch folder");
    path_ = name;
  }
  ~scratch_folder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      list.push_back(entry.path().filename().string());
    return list;
  }

 private:
  std::filesystem::path path_;
};

/// Fixture: a test in a scratch folder.
struct in_scratch_folder : testing::Test {
  const scratch_folder folder;
};

inline void put(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);  // some file systems wait for the disk when a file is emptied and written again
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string get(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The table as its CSV file says it.
inline csv_table written(const table& t) {
  const scratch_folder folder;
  write_csv(folder / "table.csv", t);
  return read_csv(folder / "table.csv");
}

/// The bytes of a safetensors file with this header and data, true or not.
inline std::string raw_safetensors(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

}  // namespace qkgeom::test
