// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "capture/job/job.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::test {

/// The bundled model: its checkpoints' folders, its tokenizer, twelve held-out books.
inline const std::filesystem::path bundled = std::filesystem::path(QKGEOM_EXAMPLE_DATA) / "kjv-smollm3";

/// Writes held-out books as JSON lines: those of these numbers, which begin again after the last book.
inline void write_books(const std::filesystem::path& path, const std::vector<int>& numbers) {
  std::ifstream in(bundled / "heldout.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string text;
  for (const int n : numbers) text += lines.at(static_cast<std::size_t>(n) % lines.size()) + '\n';
  put(path, text);
}
/// The first `count` of them.
inline void write_books(const std::filesystem::path& path, int count) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(i);
  write_books(path, numbers);
}

/// The bytes of every file of a folder by name.
inline std::map<std::string, std::string> contents_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& e : std::filesystem::directory_iterator(folder)) files[e.path().filename().string()] = get(e.path());
  return files;
}

/// A capture of a checkpoint of the bundled model into a folder of its own, as `options` say.
class capture_test : public ::testing::Test {
 protected:
  capture_test() {
    options.model = bundled / "stage1-step-1000";
    options.out = folder / "out";
    options.threads = 2;
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
  /// The sentence with which it is refused.
  std::string refusal() {
    return message_of([&] { run(); });
  }

  scratch_folder folder;
  capture_options options;
  std::ostringstream notes;  ///< of the last run
};

}  // namespace qkgeom::test
