// SPDX-License-Identifier: MIT
// Loaded before libc (LD_PRELOAD): the clock of the wall jumps by hours, forwards and backwards, at every look at it. The
// monotonic clock goes on, as it does when somebody sets the other.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static time_t jump(void) {
  static __thread unsigned looks;
  return ((time_t)(++looks * 7919 % 23) - 11) * 3600;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int failed = REAL(clock_gettime)(clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return failed;
}
int gettimeofday(struct timeval* now, void* zone) {
  const int failed = REAL(gettimeofday)(now, zone);
  if (!failed) now->tv_sec += jump();
  return failed;
}
time_t time(time_t* to) {
  const time_t now = REAL(time)(NULL) + jump();
  if (to) *to = now;
  return now;
}
