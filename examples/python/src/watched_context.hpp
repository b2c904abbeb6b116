// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <optional>

#include "on_cuda.hpp"
#include "qkgeom/backend/cpu_context.hpp"

namespace qkgeom::python {

/// Thrown where a Python exception is set and the call has to end; `run` turns it into that exception.
struct interrupted {};

/// Looks for KeyboardInterrupt. Calls arrive without the GIL.
inline void check_signals() {
  const nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw interrupted{};
}
using watched_context = watched<cpu_context>;

/// The context of all calls: one call at a time runs on it.
struct shared_context {
  std::mutex mutex;
  int threads = 0;  ///< 0: one per core
  std::optional<watched_context> context;
};
inline shared_context& the_context() {
  static auto* const shared = new shared_context;  // lives until the process ends: its threads do
  return *shared;
}

/// Calls f() without the GIL and while no other call runs. Throws what f throws, and the Python exception behind
/// `interrupted`.
template <class F>
auto run_alone(F&& f) {
  try {
    const nanobind::gil_scoped_release released;
    const std::lock_guard one_call(the_context().mutex);
    return f();
  } catch (const interrupted&) {
    if (PyErr_Occurred() == nullptr) throw;  // the caller holds the exception
    throw nanobind::python_error();
  }
}

/// Calls f(watched_context&) as `run_alone` does.
template <class F>
auto run(F&& f) {
  return run_alone([&] {
    auto& shared = the_context();
    if (!shared.context) shared.context.emplace(check_signals, cpu_options{.threads = shared.threads});
    return f(*shared.context);
  });
}

}  // namespace qkgeom::python
