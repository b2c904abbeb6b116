// SPDX-License-Identifier: MIT
#include "qkgeom/io/file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace qkgeom {

namespace {

using detail::descriptor;

/// A write past the file size limit raises SIGXFSZ, which by default ends the process. During its life the guard blocks
/// the signal in this thread, then discards it, so that the write fails with EFBIG.
class file_size_signal_guard {
 public:
  file_size_signal_guard() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~file_size_signal_guard() {
    if (sigismember(&before_, SIGXFSZ) == 1) return;
    const int saved = errno;
    const timespec now{};
    while (sigtimedwait(&set_, nullptr, &now) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  file_size_signal_guard(const file_size_signal_guard&) = delete;
  file_size_signal_guard& operator=(const file_size_signal_guard&) = delete;

 private:
  sigset_t set_{};
  sigset_t before_{};
};

/// A file opened for reading. Opening never waits: a folder, a device or a named pipe throws `error`. `shell_pipes`
/// accepts unnamed pipes, which a shell makes for /dev/stdin and <(...).
struct readable_file {
  readable_file(const std::filesystem::path& path, bool shell_pipes)
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd.get() < 0) fail("cannot open ", path.string(), ": ", std::strerror(errno));
    if (::fstat(fd.get(), &info) != 0) fail("cannot read ", path.string(), ": ", std::strerror(errno));
    if (S_ISREG(info.st_mode)) return;
    constexpr auto pipe_file_system = 0x50495045;  // PIPEFS_MAGIC: its pipes have no name
    struct statfs system {};
    const bool from_shell = shell_pipes && ::fstatfs(fd.get(), &system) == 0 && system.f_type == pipe_file_system;
    require(from_shell && ::fcntl(fd.get(), F_SETFL, O_RDONLY) == 0, "cannot read ", path.string(),
            ": it is not a file but ", S_ISDIR(info.st_mode) ? "a folder" : "a pipe or a device");
  }

  descriptor fd;
  struct stat info {};
};

/// Reads a pipe to its end, into a file in memory.
descriptor in_memory(const descriptor& pipe, const std::filesystem::path& path) {
  descriptor memory(::memfd_create("qkgeom", MFD_CLOEXEC));
  ssize_t n = memory.get() < 0 ? -1 : 0;
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  while (memory.get() >= 0 && ((n = ::read(pipe.get(), buffer.data(), buffer.size())) > 0 || (n < 0 && errno == EINTR)))
    for (ssize_t done = 0; done < n;) {
      const ssize_t more = ::write(memory.get(), buffer.data() + done, n - done);
      if (more < 0) fail("cannot keep ", path.string(), " in memory: ", std::strerror(errno));
      done += more;
    }
  if (n < 0) fail("cannot read ", path.string(), ": ", std::strerror(errno));
  return memory;
}

}  // namespace

atomic_file::atomic_file(const std::filesystem::path& path) : target_(resolve(path)) {
  struct stat info {};
  if (::stat(target_.c_str(), &info) == 0) {
    require(!S_ISDIR(info.st_mode), "cannot write ", target_.string(), ": it is a folder");
    direct_ = !S_ISREG(info.st_mode);
  }
  partial_ = direct_ ? target_ : std::filesystem::path(target_.string() + ".partial");
  if (direct_)
    file_ = descriptor(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
  else
    open_partial();
  if (file_.get() < 0) fail_with("cannot open", errno);
  buffer_.reserve(buffer_size);
}

atomic_file::~atomic_file() {
  if (!direct_ && !committed_ && file_.get() >= 0) ::unlink(partial_.c_str());
}

void atomic_file::write(std::span<const std::byte> bytes) {
  require(!committed_, "cannot write ", target_.string(), ": it is already complete");
  written_ += bytes.size();
  if (digest_) digest_->add(bytes);
  if (buffer_.size() + bytes.size() > buffer_size) flush();
  if (bytes.size() >= buffer_size)
    write_through(bytes);
  else
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void atomic_file::commit() {
  require(!committed_, "cannot write ", target_.string(), ": it is already complete");
  flush();
  if (!direct_) {
    while (::fsync(file_.get()) != 0)
      if (errno != EINTR) fail_with("cannot write", errno);
    if (::rename(partial_.c_str(), target_.c_str()) != 0) fail_with("cannot rename to", errno);
  }
  committed_ = true;
  if (!file_.close()) fail_with("cannot close", errno);
  if (!direct_) sync_folder();
}

std::filesystem::path atomic_file::resolve(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::is_symlink(path, none)) return path;
  auto real = std::filesystem::canonical(path, none);
  return none ? path : real;
}

void atomic_file::open_partial() {
  for (;;) {
    // O_NONBLOCK: opening a named pipe without a reader would wait forever; such a pipe is refused.
    constexpr int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    file_ = descriptor(::open(partial_.c_str(), flags, 0666));
    if (file_.get() < 0 && errno != ENXIO) return;
    struct stat opened {};
    if (file_.get() < 0 || (::fstat(file_.get(), &opened) == 0 && !S_ISREG(opened.st_mode))) {
      file_ = descriptor();  // not ours to remove
      fail("cannot write ", target_.string(), ": ", partial_.string(), " is a pipe or a device; remove it");
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      file_ = descriptor();  // not ours to remove
      fail("cannot write ", target_.string(), ": another program is writing it (", partial_.string(), " is locked)");
    }
    struct stat ours {
    }, named{};
    // Another writer may have renamed or removed the file before the lock: then it is not ours.
    if (::fstat(file_.get(), &ours) == 0 && ::lstat(partial_.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
        ours.st_dev == named.st_dev)
      break;
  }
  struct stat ours {};
  if (::fstat(file_.get(), &ours) == 0 && ours.st_nlink > 1) {
    file_ = descriptor();  // not ours to remove
    fail("cannot write ", target_.string(), ": ", partial_.string(), " is another file too (a hard link); remove it");
  }
  if (::ftruncate(file_.get(), 0) != 0) fail_with("cannot empty", errno);
}

void atomic_file::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void atomic_file::write_through(std::span<const std::byte> bytes) {
  const file_size_signal_guard guard;
  while (!bytes.empty()) {
    const auto n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_with("cannot write", n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(n);
  }
}

void atomic_file::sync_folder() const {
  const auto folder = target_.parent_path();
  const descriptor fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) ::fsync(fd.get());
}

void atomic_file::fail_with(const char* what, int code) const {
  fail(what, ' ', target_.string(), ": ", std::strerror(code));
}

void require_no_pointer(std::string_view start, const std::string& file) {
  require(!start.starts_with("version https://git-lfs.github.com/"), file,
          " is a pointer of git-lfs and not the file itself: git lfs pull fetches it");
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  atomic_file file(path);
  file.write(text);
  file.commit();
}

std::string read_text(const std::filesystem::path& path, std::size_t max_bytes) {
  const readable_file file(path, true);
  const descriptor& fd = file.fd;
  const struct stat& info = file.info;
  const auto too_large = [&] { fail(path.string(), " is larger than the ", max_bytes, " bytes allowed for it"); };
  if (S_ISREG(info.st_mode) && static_cast<std::size_t>(info.st_size) > max_bytes) too_large();
  std::string text;
  for (;;) {
    const std::size_t used = text.size();
    const std::size_t guess = used == 0 && S_ISREG(info.st_mode) ? info.st_size + 1 : used + 65536;
    text.resize(guess);
    const auto n = ::read(fd.get(), text.data() + used, text.size() - used);
    if (n < 0 && errno != EINTR) fail("cannot read ", path.string(), ": ", std::strerror(errno));
    text.resize(used + (n < 0 ? 0 : n));
    if (text.size() > max_bytes) too_large();
    if (n == 0) return text;
  }
}

mapped_file::mapped_file(std::filesystem::path path, bool shell_pipes) : path_(std::move(path)) {
  readable_file file(path_, shell_pipes);
  if (!S_ISREG(file.info.st_mode)) file.fd = in_memory(file.fd, path_);
  require(::fstat(file.fd.get(), &file.info) == 0, "cannot read ", path_.string(), ": ", std::strerror(errno));
  size_ = file.info.st_size;
  if (size_ == 0) return;
  void* const memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (memory == MAP_FAILED) fail("cannot map ", path_.string(), ": ", std::strerror(errno));
  data_ = static_cast<const std::byte*>(memory);
}

mapped_file::~mapped_file() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void mapped_file::forget(std::span<const std::byte> some) const {
  if (some.empty()) return;
  constexpr std::size_t reach = std::size_t{64} << 10;
  const std::size_t offset = some.data() - data_;
  const std::size_t begin = offset / reach * reach;
  const std::size_t end = std::min(size_, (offset + some.size() + reach - 1) / reach * reach);
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace qkgeom
