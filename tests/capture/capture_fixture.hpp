// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "capture/job/run_capture.hpp"
#include "qkgeom/io/sha256.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::test {

/// The bundled model: checkpoints, tokenizer, twelve held-out books.
inline const std::filesystem::path bundled = std::filesystem::path(QKGEOM_EXAMPLE_DATA) / "kjv-smollm3";

/// Writes held-out books as JSON lines; numbers beyond the last book begin again at the first.
inline void write_books(const std::filesystem::path& path, const std::vector<int>& numbers) {
  std::ifstream in(bundled / "heldout.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string text;
  for (const int n : numbers) text += lines.at(n % static_cast<int>(lines.size())) + '\n';
  put(path, text);
}
/// Writes the first `count` books.
inline void write_books(const std::filesystem::path& path, int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  write_books(path, numbers);
}

/// The bytes of a file. A test that fails prints their SHA-256.
struct file_bytes : std::string {
  friend void PrintTo(const file_bytes& bytes, std::ostream* out) { *out << sha256().add(bytes).hex(); }
};

/// Bytes of a folder's files by name.
inline std::map<std::string, file_bytes> contents_of(const std::filesystem::path& folder) {
  std::map<std::string, file_bytes> files;
  for (const auto& e : std::filesystem::directory_iterator(folder))
    files[e.path().filename().string()] = {get(e.path())};
  return files;
}

/// Captures a checkpoint of the bundled model into a folder of its own.
class capture_test : public ::testing::Test {
 protected:
  capture_test() {
    options.model.path = bundled / "stage1-step-1000";
    options.run.out = folder / "out";
    options.run.threads = 2;
  }
  /// Writes a file of the scratch folder.
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    put(folder / name, text);
    return folder / name;
  }
  capture_summary run(const capture_backend& backend = {}) {
    notes.str("");
    return run_capture(options, notes, backend);
  }
  /// The error message of a run.
  std::string refusal() {
    return message_of([&] { run(); });
  }

  scratch_folder folder;
  capture_options options;
  std::ostringstream notes;  ///< of the last run
};

}  // namespace qkgeom::test
