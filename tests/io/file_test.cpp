// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/resource.h>

#include <csignal>

#include "qkgeom/core/random.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/sha256.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using AtomicFile = test::in_scratch_folder;

TEST_F(AtomicFile, AppearsAtCommitAndNotBefore) {
  put(folder / "a.txt", "old");
  atomic_file file(folder / "a.txt");
  file.write("new ");
  file.write(std::string(1 << 20, 'x'));
  EXPECT_EQ(get(folder / "a.txt"), "old");
  file.commit();
  EXPECT_EQ(get(folder / "a.txt"), "new " + std::string(1 << 20, 'x'));
  EXPECT_THAT(folder.names(), ElementsAre("a.txt"));
  EXPECT_QKGEOM_ERROR("already complete", file.write("more"));
  EXPECT_QKGEOM_ERROR("already complete", file.commit());
}

TEST_F(AtomicFile, OverwritesTheRemainsOfAKilledRun) {
  put(folder / "a.txt.partial", "something longer than what is written now");
  write_text(folder / "a.txt", "now");
  EXPECT_EQ(get(folder / "a.txt"), "now");
  EXPECT_THAT(folder.names(), ElementsAre("a.txt"));
}

TEST_F(AtomicFile, KeepsASecondWriterOut) {
  atomic_file first(folder / "a.txt");
  EXPECT_QKGEOM_ERROR("another program is writing it", atomic_file(folder / "a.txt"));
  first.write("first");
  first.commit();
  EXPECT_EQ(get(folder / "a.txt"), "first");
}

TEST_F(AtomicFile, WritesThroughALink) {
  put(folder / "real.txt", "old");
  std::filesystem::create_symlink("real.txt", folder / "link.txt");
  write_text(folder / "link.txt", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.txt"));
  EXPECT_EQ(get(folder / "real.txt"), "new");
}

TEST_F(AtomicFile, RefusesAFolderAndAMissingFolder) {
  EXPECT_QKGEOM_ERROR("it is a folder", atomic_file(folder.path()));
  EXPECT_QKGEOM_ERROR("cannot open", atomic_file(folder / "no/such/a.txt"));
}

TEST_F(AtomicFile, ADeviceThatIsFullIsAnError) {
  EXPECT_QKGEOM_ERROR("cannot write /dev/full: No space left on device", write_text("/dev/full", "x"));
}

// A full disk, by the limit on the size of files. In a process of its own, which keeps the limit and whose SIGXFSZ has
// the default action, death.
TEST_F(AtomicFile, AFullDiskIsAnErrorAndLeavesNothing) {
  const auto run = [&] {
    const rlimit limit{1 << 16, 1 << 16};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
    std::signal(SIGXFSZ, SIG_DFL);
    try {
      write_text(folder / "a.txt", std::string(1 << 20, 'x'));
    } catch (const error& e) {
      return std::string(e.what()).find("File too large") != std::string::npos ? 0 : 4;
    }
    return 5;
  };
  EXPECT_EXIT(_exit(run()), testing::ExitedWithCode(0), "");
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(ReadText, ReadsAndRefuses) {
  const test::scratch_folder folder;
  put(folder / "a.txt", "abc");
  put(folder / "empty", "");
  EXPECT_EQ(read_text(folder / "a.txt", 3), "abc");
  EXPECT_EQ(read_text(folder / "empty", 0), "");
  EXPECT_QKGEOM_ERROR("larger than the 2 bytes", read_text(folder / "a.txt", 2));
  EXPECT_QKGEOM_ERROR("a pipe or a device", read_text("/dev/zero", 1000));
  EXPECT_QKGEOM_ERROR("not a file but a folder", read_text(folder.path(), 10));
  EXPECT_QKGEOM_ERROR("No such file", read_text(folder / "none", 10));
}

/// The end of a pipe that gives this text.
detail::descriptor piped(std::string_view text) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  const detail::descriptor to(ends[1]);
  EXPECT_EQ(write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return detail::descriptor(ends[0]);
}

// A reader that opened a named pipe as a file would wait for a writer for ever.
TEST(ReadText, RefusesANamedPipeAndReadsAPipeOfTheShell) {
  const test::scratch_folder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_QKGEOM_ERROR("pipe: it is not a file but a pipe or a device", read_text(folder / "pipe", 10));
  EXPECT_QKGEOM_ERROR("a pipe or a device", mapped_file(folder / "pipe"));
  const auto first = piped("abc"), second = piped("text");
  const auto path = [](const detail::descriptor& of) { return "/dev/fd/" + std::to_string(of.get()); };
  EXPECT_QKGEOM_ERROR("a pipe or a device", mapped_file(path(first)));
  EXPECT_EQ(read_text(path(first), 3), "abc");
  const mapped_file file(path(second), true);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()), "text");
}

TEST_F(AtomicFile, RefusesANamedPipeInPlaceOfThePartialFile) {
  ASSERT_EQ(mkfifo((folder / "a.txt.partial").c_str(), 0600), 0);
  EXPECT_QKGEOM_ERROR("a.txt.partial is a pipe or a device; remove it", atomic_file(folder / "a.txt"));
  const detail::descriptor reader(open((folder / "a.txt.partial").c_str(), O_RDONLY | O_NONBLOCK));
  EXPECT_QKGEOM_ERROR("a.txt.partial is a pipe or a device; remove it", atomic_file(folder / "a.txt"));
  EXPECT_THAT(folder.names(), ElementsAre("a.txt.partial"));
}

TEST_F(AtomicFile, RefusesAHardLinkInPlaceOfThePartialFile) {
  put(folder / "other.txt", "kept");
  std::filesystem::create_hard_link(folder / "other.txt", folder / "a.txt.partial");
  EXPECT_QKGEOM_ERROR("a.txt.partial is another file too (a hard link); remove it", atomic_file(folder / "a.txt"));
  EXPECT_EQ(get(folder / "other.txt"), "kept");
}

TEST(Printable, HidesControlsAndCutsBetweenCharacters) {
  using namespace std::string_literals;
  EXPECT_EQ(printable("a\0b\x1b[2J\n\x7f"s), "a?b?[2J??");
  EXPECT_EQ(printable("\xc2\x9b\xc2\x80|\xc2\xa0\xc3\xa4"), "??|\xc2\xa0\xc3\xa4") << "C1 controls";
  EXPECT_EQ(printable("\xff|\xe2\x82|\xed\xa0\x80"), "?|?|???") << "ill-formed";
  EXPECT_EQ(printable("\u202e|\u2066|\u200f|\u061c|\u2028|\u2013|\u2070"), "?|?|?|?|?|\u2013|\u2070")
      << "direction of text";
  EXPECT_EQ(terminal_text("a\nb\x1b[31m\r\u202e"), "a\nb?[31m??");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("abcd", 3), "abc...");
  EXPECT_EQ(printable("ab\xe2\x82\xac", 4), "ab...");
  EXPECT_EQ(printable("ab\xe2\x82\xac", 5), "ab\xe2\x82\xac");
}

TEST(MappedFile, MapsAndRefuses) {
  const test::scratch_folder folder;
  put(folder / "a", "abc");
  put(folder / "empty", "");
  mapped_file a(folder / "a");
  const mapped_file b = std::move(a);
  EXPECT_EQ(b.bytes().size(), 3u);
  EXPECT_EQ(static_cast<char>(b.bytes()[2]), 'c');
  EXPECT_TRUE(mapped_file(folder / "empty").bytes().empty());
  EXPECT_QKGEOM_ERROR("a folder", mapped_file(folder.path()));
  EXPECT_QKGEOM_ERROR("a pipe or a device", mapped_file("/dev/null"));
  EXPECT_QKGEOM_ERROR("No such file", mapped_file(folder / "none"));
}

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
