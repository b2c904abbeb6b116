// SPDX-License-Identifier: MIT
// Broken and lying GGUF files: qkgeom-capture says one sentence and ends with status 2, within a limit of memory and
// time.
#include <chrono>

#include "tests/capture/gguf/gguf_fixture.hpp"
#include "tests/capture/program_fixture.hpp"
#include "tests/common/data_files.hpp"

namespace qkgeom {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr rlim_t memory_limit = 0;  // the sanitizers take terabytes of address space
#else
constexpr rlim_t memory_limit = rlim_t{2} << 30;
#endif

namespace fs = std::filesystem;
using test::written_gguf;
using ::testing::HasSubstr;

/// The bytes of a file as a line of hostile-gguf.json changes it: [model, kind, name, value..., words].
std::string changed(written_gguf w, const json& line) {
  const std::string kind = line[1], name = line[2];
  const json& value = line[3];
  const auto edit = [&](const auto& change) {
    for (auto& t : w.tensors)
      if (t.name == name) change(t);
  };
  const auto resize = [&](written_gguf::tensor& t) {
    t.shape = value.get<std::vector<index_t>>();
    t.values.resize(static_cast<std::size_t>(test::entries_of(t.shape)));
  };
  if (kind == "key") std::erase_if(w.keys, [&](const auto& k) { return k.first == name; });
  if (kind == "key" || kind == "more") w.keys.emplace_back(name, value);
  if (kind == "tensor") resize(w.tensors.emplace_back(written_gguf::tensor{name, {}, "F32", {}}));
  if (kind == "shape") edit(resize);
  if (kind == "first") edit([&](auto& t) { t.values[0] = value.get<float>(); });
  if (kind == "rename") edit([&](auto& t) { t.name = value.get<std::string>(); });
  std::erase_if(w.tensors, [](const auto& t) { return t.name.empty(); });
  std::string bytes = w.bytes();
  if (kind == "cut") {  // `value` behind the last `name`; less than 0: before the end
    const auto n = value.get<std::ptrdiff_t>();
    const std::size_t from = n < 0 ? bytes.size() : name.empty() ? 0 : bytes.rfind(name) + name.size();
    bytes.resize(from + static_cast<std::size_t>(n));
  } else if (kind == "behind") {  // `value` bytes at the end, the last of which is line[4]
    bytes.resize(bytes.size() + value.get<std::size_t>());
    bytes.back() = line[4].get<char>();
  } else if (kind == "i64" || kind == "u32" || kind == "add") {  // a number that stands `value` behind `name`
    const std::size_t at = (name.empty() ? 0 : bytes.find(name) + name.size()) + value.get<std::size_t>();
    auto x = line[4].get<std::int64_t>();
    if (kind == "add") x += static_cast<unsigned char>(bytes[at]);
    bytes.replace(at, kind == "u32" ? 4 : 8, reinterpret_cast<const char*>(&x), kind == "u32" ? 4 : 8);
  }
  return bytes;
}

class hostile_gguf : public test::capture_program {
 protected:
  static written_gguf loaded(const std::string& name) {
    auto w = test::loaded_gguf(name);
    json tokens = json::array();
    for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(std::string(1, c));
    w.keys.emplace_back("tokenizer.ggml.model", "gpt2");
    w.keys.emplace_back("tokenizer.ggml.pre", "qwen2");
    w.keys.emplace_back("tokenizer.ggml.tokens", tokens);
    w.keys.emplace_back("tokenizer.ggml.merges", json::array());
    return w;
  }
  int run_on(const fs::path& model) const {
    test::put(folder / "text.txt", "abc");
    return run({"--model", model.string(), "--text", (folder / "text.txt").string(), "--out", (folder / "out").string(),
                "--threads", "1"},
               {.address_space = memory_limit});
  }
  void expect_refusal(const std::string& bytes, const std::string& words, const std::string& name = "m.gguf") const {
    test::put(folder / name, bytes);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(run_on(folder / name), 2) << log();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_FALSE(fs::exists(folder / "out"));
    const std::string said = sentence();
    EXPECT_NE(said, "");
    EXPECT_THAT(said, HasSubstr(words));
  }
};

TEST_F(hostile_gguf, a_whole_file_is_captured) {
  for (const std::string& padding : {std::string(), std::string(100, '\0')}) {  // llama.cpp loads such a file too
    test::put(folder / "m.gguf", loaded("qwen3").bytes() + padding);
    fs::remove_all(folder / "out");
    EXPECT_EQ(run_on(folder / "m.gguf"), 0) << log();
  }
}

TEST_F(hostile_gguf, files_that_are_cut_short_or_lie_are_refused_as_the_table_says) {
  for (const json& line : test::json_data("hostile-gguf.json")) {
    SCOPED_TRACE(line.dump());
    expect_refusal(changed(loaded(line[0]), line), line.back());
  }
  auto w = loaded("qwen3");
  w.keys.emplace_back("list", std::vector<bool>((1 << 22) + 1));
  expect_refusal(w.bytes(), "more than 4194304 values in arrays");
}

TEST_F(hostile_gguf, sets_with_a_missing_or_a_foreign_part_are_refused) {
  auto part = loaded("qwen3");
  const std::string whole = part.bytes();
  test::put(folder / "t-00002-of-00002.gguf", whole);  // both parts hold the same tensors
  for (const auto& [name, words] : {std::pair{"m-00001-of-00003.gguf", "m-00002-of-00003.gguf is missing"},
                                    {"m-00001-of-00000.gguf", "there is no part 1 of 0"},
                                    {"m-00004-of-00003.gguf", "there is no part 4 of 3"},
                                    {"t-00001-of-00002.gguf", "is in two parts"}})
    expect_refusal(whole, words, name);
  part.keys.emplace_back("split.count", 3);
  expect_refusal(part.bytes(), "the name must end with -00001-of-00003.gguf");
  part.keys.back().second = 1;
  part.keys.emplace_back("split.tensors.count", 1000);
  expect_refusal(part.bytes(), "not the 1000 of split.tensors.count");
}

}  // namespace
}  // namespace qkgeom
