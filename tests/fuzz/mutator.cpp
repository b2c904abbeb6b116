// SPDX-License-Identifier: MIT
// mutator CORPUS SECONDS [SEED]: calls a reader with damaged copies of the files of the folder CORPUS, the same
// sequence for the same seed, until the time is over. An input that ends the program lies in ./crash-input afterwards.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "qkgeom/core/random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);  // tests/fuzz/input.hpp

namespace {

/// Draws below a bound, one after another.
class dice {
 public:
  explicit dice(std::uint64_t seed) : stream_{.seed = seed, .use = qkgeom::draw::head} {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(stream_.below(next_++, n)); }

 private:
  qkgeom::random_stream stream_;
  std::uint64_t next_ = 0;
};

/// A damaged copy: cut short, made longer, bytes changed or removed, pieces copied elsewhere, numbers made extreme.
/// Half of the places lie within the first `head` bytes, where lengths and names are.
std::string damaged(std::string bytes, std::size_t head, dice& die) {
  const auto place = [&] { return die.below(die.below(2) ? std::min(head, bytes.size()) : bytes.size()); };
  const std::size_t changes = 1 + die.below(3);
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = place();
    switch (die.below(7)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.append(1 + die.below(64), static_cast<char>(die.below(256)));
        break;
      case 2:
        bytes[at] = static_cast<char>(die.below(256));
        break;
      case 3:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << die.below(8)));
        break;
      case 4:
        bytes.erase(at, 1 + die.below(16));
        break;
      case 5:
        bytes.insert(place(), bytes.substr(at, 1 + die.below(80)));
        break;
      default: {
        static const char* const values[] = {
            "0", "-1", "9223372036854775807", "18446744073709551615", "1e999", "null", "[]", "\"\""};
        std::size_t start = at;
        while (start < bytes.size() && !std::isdigit(static_cast<unsigned char>(bytes[start]))) ++start;
        std::size_t end = start;
        while (end < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[end]))) ++end;
        bytes.replace(start, end - start, values[die.below(std::size(values))]);
      }
    }
  }
  return bytes;
}

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
  dice die(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  for (const auto& file : corpus) {
    current = file;
    read_current();
  }
  long inputs = 0;
  for (; std::chrono::steady_clock::now() < end; ++inputs) {
    const std::string& file = corpus[die.below(corpus.size())];
    current = damaged(file, 512, die);
    read_current();
  }
  std::printf("%ld inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
