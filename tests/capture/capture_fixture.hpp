// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "capture/job/run_capture.hpp"
#include "capture/on_cpu.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/json.hpp"
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

/// Copies a checkpoint and the tokenizer of the bundled model to a folder whose files may be changed.
inline void copy_model(const std::filesystem::path& to, const std::string& checkpoint = "stage1-step-1000") {
  std::filesystem::remove_all(to);
  std::filesystem::create_directories(to);
  for (const auto& e : std::filesystem::directory_iterator(bundled / checkpoint)) std::filesystem::copy(e.path(), to);
  std::filesystem::copy(bundled / "tokenizer.json", to);
  for (const auto& e : std::filesystem::directory_iterator(to))
    std::filesystem::permissions(e.path(), std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
}
/// Changes the config.json of a model.
template <class Change>
void change_config(const std::filesystem::path& model, const Change& change) {
  json config = read_json(model / "config.json");
  change(config);
  put(model / "config.json", config.dump());
}

/// A tokenizer whose tokens are the letters: a is 3, z is 28.
inline json letter_tokenizer() {
  json vocabulary;
  for (int i = 0; i < 26; ++i) vocabulary[std::string(1, static_cast<char>('a' + i))] = i + 3;
  return {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
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

inline void expect_same_rows(const capture_set& a, const capture_set& b) {
  ASSERT_EQ(a.layers(), b.layers());
  for (const index_t layer : b.layers()) {
    const auto x = a.read_layer(layer), y = b.read_layer(layer);
    for (const auto& [of, is] : {std::pair{&x.q, &y.q}, {&x.k, &y.k}}) {
      ASSERT_EQ(of->bytes(), is->bytes());
      EXPECT_EQ(std::memcmp(of->data, is->data, is->bytes()), 0) << layer;
      EXPECT_TRUE(std::ranges::equal(of->position, is->position)) << layer;
      EXPECT_TRUE(std::ranges::equal(of->document, is->document)) << layer;
      EXPECT_TRUE(std::ranges::equal(of->token, is->token)) << layer;
    }
  }
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
  capture_summary run(const capture_backend& with) {
    notes.str("");
    return run_capture(options, notes, with);
  }
  capture_summary run() { return run(backend); }
  /// Runs into a folder of that name and opens the capture.
  capture captured(const std::string& name = "out") {
    options.run.out = folder / name;
    run();
    return capture::open(options.run.out);
  }
  /// The error message of a run.
  std::string refusal() {
    return message_of([&] { run(); });
  }

  scratch_folder folder;
  capture_options options;
  cpu_context cpu{{.threads = 2}};
  const capture_backend backend = cpu_backend(cpu);
  std::ostringstream notes;  ///< of the last run
};

}  // namespace qkgeom::test
