// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <pthread.h>
#include <chrono>
#include <mutex>
#include <optional>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::python {

/// Thrown where a Python exception is set and the call has to end; `run` turns it into that exception.
struct interrupted {};

/// Looks for KeyboardInterrupt. Calls arrive without the GIL.
inline void check_signals() {
  const nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw interrupted{};
}

/// Returns a function that looks for KeyboardInterrupt ten times a second, however often it is called.
inline auto watch_signals() {
  return [last = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::milliseconds(100)) return;
    last = now;
    check_signals();
  };
}

/// The context of all calls: one call at a time runs on it.
struct shared_context {
  std::mutex mutex;
  int threads = 0;  ///< 0: `usable_cores()`
  std::optional<cpu_context> context;

  /// Makes the context, if there is none, and lets Ctrl-C end its loops.
  cpu_context& made() {
    if (context) return *context;
    context.emplace(cpu_options{.threads = threads});
    context->pool().watch(watch_signals());
    return *context;
  }
};
/// Returns the context of this process. A forked child has one of its own: its parent's mutex may be held for ever.
inline shared_context& the_context() {
  static auto* shared = new shared_context;  // lives until the process ends: its threads do
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { shared = new shared_context{.threads = shared->threads}; });
  require(registered == 0, "pthread_atfork failed");
  return *shared;
}

/// Marks a thread that calls a function of the caller's, which must not call back, while this object lives.
struct calling_back {
  calling_back() { now() = true; }
  calling_back(const calling_back&) = delete;
  calling_back& operator=(const calling_back&) = delete;
  ~calling_back() { now() = false; }
  static bool& now() {
    thread_local bool value = false;
    return value;
  }
};

/// Calls f() without the GIL and while no other call runs. Throws what f throws, the Python exception behind
/// `interrupted`, and `error` within a `calling_back`.
template <class F>
auto run_alone(F&& f) {
  require(!calling_back::now(), "a function that qkgeom calls (pairs, progress) must not call qkgeom's analyses");
  try {
    const nanobind::gil_scoped_release released;
    const std::lock_guard one_call(the_context().mutex);
    return f();
  } catch (const interrupted&) {
    if (PyErr_Occurred() == nullptr) throw;  // the caller holds the exception
    throw nanobind::python_error();
  }
}

/// Calls f(cpu_context&) as `run_alone` does.
template <class F>
auto run(F&& f) {
  return run_alone([&] { return f(the_context().made()); });
}

}  // namespace qkgeom::python
