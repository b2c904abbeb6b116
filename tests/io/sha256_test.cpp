// SPDX-License-Identifier: MIT
#include "qkgeom/io/sha256.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom {
namespace {

TEST(Sha256, AgreesWithTheStandardsTestVectors) {
  EXPECT_EQ(sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256().add("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256().add("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomno").add("pnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  sha256 million;
  for (int i = 0; i < 1000; ++i) million.add(std::string(1000, 'a'));
  EXPECT_EQ(million.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  const random_stream stream{.seed = 1};
  std::vector<std::byte> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(stream.below(i, 256));
  const auto whole = sha256().add(bytes).hex();
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    sha256 pieces;
    std::span<const std::byte> rest = bytes;
    for (std::uint64_t i = 0; !rest.empty(); ++i) {
      const auto n = std::min<std::size_t>(rest.size(), stream.below(1000 * trial + i, 200));
      pieces.add(rest.first(n));
      rest = rest.subspan(n);
    }
    EXPECT_EQ(pieces.hex(), whole);
  }
}

#if defined(__x86_64__)
TEST(Sha256, InstructionsOfTheCpuGiveTheSameState) {
  if (!detail::cpu_has_sha()) GTEST_SKIP() << "this CPU has no instructions for SHA-256";
  const random_stream stream{.seed = 2};
  detail::sha256_state portable{1, 2, 3, 4, 5, 6, 7, 8}, fast = portable;
  std::vector<std::byte> bytes(64 * 50 + 1);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(stream.below(i, 256));
  detail::add_blocks_portable(portable, bytes.data() + 1, 50);
  detail::add_blocks_sha(fast, bytes.data() + 1, 50);
  EXPECT_EQ(fast, portable);
}
#endif

}  // namespace
}  // namespace qkgeom
