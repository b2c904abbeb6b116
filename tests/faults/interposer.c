// SPDX-License-Identifier: MIT
// Loaded before libc (LD_PRELOAD): read, pread, write and fsync as a busy system may answer them. Every second call is
// interrupted, the others move half of what was asked for.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

static __thread unsigned calls;

static int interrupted(void) {
  if (++calls % 2 == 0) return 0;
  errno = EINTR;
  return 1;
}
static size_t half(size_t n) { return n > 1 ? n / 2 : n; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t read(int file, void* to, size_t n) { return interrupted() ? -1 : REAL(read)(file, to, half(n)); }
ssize_t pread(int file, void* to, size_t n, off_t at) { return interrupted() ? -1 : REAL(pread)(file, to, half(n), at); }
ssize_t pread64(int file, void* to, size_t n, off64_t at) {
  return interrupted() ? -1 : REAL(pread64)(file, to, half(n), at);
}
ssize_t write(int file, const void* from, size_t n) { return interrupted() ? -1 : REAL(write)(file, from, half(n)); }
int fsync(int file) { return interrupted() ? -1 : REAL(fsync)(file); }
