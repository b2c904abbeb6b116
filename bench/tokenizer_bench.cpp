// SPDX-License-Identifier: MIT
// Bytes of text per CPU second for each scheme of tokenizer (tests/data/tokenizers and the bundled model's): the
// held-out books, and the slowest inputs, lines of one character or of one endless word. tokenizer_bench --write FOLDER
// writes the first megabyte of each, for baselines/tokenizers_library.py.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "capture/job/documents.hpp"
#include "capture/text/tokenizer.hpp"

namespace {

using namespace qkgeom;

const std::filesystem::path source = QKGEOM_SOURCE_DIR;
constexpr std::size_t line_bytes = 10'000'000, compared_bytes = 1'000'000;

/// The texts by name: the books, and lines of one character.
const std::map<std::string, std::vector<std::string>>& texts() {
  static const auto all = [] {
    std::map<std::string, std::vector<std::string>> t{{"letters", {std::string(line_bytes, 'a')}},
                                                      {"capitals", {std::string(line_bytes, 'A')}},
                                                      {"spaces", {std::string(line_bytes, ' ')}}};
    std::string word;
    while (word.size() < line_bytes) word += "inthebeginninggodcreatedtheheavenandtheearth";
    t["one-word"] = {std::move(word)};
    document_list({.jsonl = source / "examples/data/kjv-smollm3/heldout.jsonl"})
        .for_each([&](index_t, const document& d) { t["books"].push_back(d.text); });
    return t;
  }();
  return all;
}

/// The files tokenizer.json, by name.
std::map<std::string, std::filesystem::path> schemes() {
  std::map<std::string, std::filesystem::path> list{{"bundled", source / "examples/data/kjv-smollm3/tokenizer.json"}};
  for (const auto& entry : std::filesystem::directory_iterator(source / "tests/data/tokenizers"))
    if (const auto name = entry.path().stem().string(); name != "ids" && name != "texts" && name != "long-line")
      list.emplace(name, entry.path());
  return list;
}

/// CPU seconds of this process: time of other programs does not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void encode(benchmark::State& state, const std::filesystem::path& file, const std::vector<std::string>& documents) {
  const auto tokens = tokenizer::load(file);
  const auto ids_of = [&](std::string_view text) {
    return static_cast<double>(tokens.encode(text, index_t{1} << 40).size());
  };
  double best = 0, bytes = 0, ids = 0, compared = 0;
  for (const auto& d : documents) {
    bytes += static_cast<double>(d.size());
    compared += ids_of(std::string_view(d).substr(0, compared_bytes));
  }
  for (auto _ : state) {
    const double start = cpu_seconds();
    ids = 0;
    for (const auto& d : documents) ids += ids_of(d);
    best = std::max(best, bytes / (cpu_seconds() - start));
  }
  state.counters["bytes_per_s"] = best;
  state.counters["bytes"] = bytes;
  state.counters["ids"] = ids;
  state.counters["compared_ids"] = compared;
}

/// The rate of moving the bytes.
void copy(benchmark::State& state) {
  const std::string& from = texts().at("letters")[0];
  std::string to(from.size(), ' ');
  double best = 0;
  for (auto _ : state) {
    const double start = cpu_seconds();
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    best = std::max(best, static_cast<double>(from.size()) / (cpu_seconds() - start));
  }
  state.counters["bytes_per_s"] = best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write") {
    for (const auto& [name, documents] : texts())
      for (std::size_t i = 0; i < documents.size(); ++i)
        std::ofstream(std::filesystem::path(argv[2]) / (name + "-" + std::to_string(i) + ".txt"), std::ios::binary)
            << documents[i].substr(0, compared_bytes);
    return 0;
  }
  benchmark::RegisterBenchmark("memcpy", copy);
  for (const auto& [scheme, file] : schemes())
    for (const auto& [name, documents] : texts())
      benchmark::RegisterBenchmark((scheme + "/" + name).c_str(), encode, file, documents)
          ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
