// SPDX-License-Identifier: MIT
// mutator CORPUS SECONDS [SEED]: calls a reader with damaged copies of the files of the folder CORPUS, the same
// sequence for the same seed, until the time is over. An input that ends the program lies in ./crash-input afterwards.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/damage.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);  // tests/fuzz/input.hpp

namespace {

std::string current;  // the input that the reader has now

void keep_input(int signal) {
  const int file = ::open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0 && ::write(file, current.data(), current.size()) >= 0) ::close(file);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

std::vector<std::string> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

void read_current() { LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size()); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: %s CORPUS SECONDS [SEED]\n", argv[0]), 2;
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(signal, keep_input);
  const auto corpus = files_of(argv[1]);
  if (corpus.empty()) return std::fprintf(stderr, "%s holds no file\n", argv[1]), 2;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[2]));
  qkgeom::fuzz::dice die(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  for (const auto& file : corpus) {
    current = file;
    read_current();
  }
  long inputs = 0;
  for (; std::chrono::steady_clock::now() < end; ++inputs) {
    const std::string& file = corpus[die.below(corpus.size())];
    current = qkgeom::fuzz::damaged(file, 512, die);
    read_current();
  }
  std::printf("%ld inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
