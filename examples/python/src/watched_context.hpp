// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"

namespace qkgeom::python {

/// Thrown where a Python exception is set and the call has to end; `run` turns it into that exception.
struct interrupted {};

/// cpu_context that looks for KeyboardInterrupt before each primitive. Calls arrive without the GIL.
class watched_context : public cpu_context {
 public:
  using cpu_context::cpu_context;

  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T>& x,
                                    const vector_view<const std::int32_t>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    check();
    return cpu_context::moments(side, x, position, bucket, buckets, per_bucket);
  }
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request) {
    check();
    return cpu_context::gaussian_pairs(k, groups, problems, request);
  }
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T>& q, const tensor_view<const T>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    check();
    return cpu_context::empirical_pairs(q, k, groups, problems, precision);
  }

 private:
  static void check() {
    const nanobind::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw interrupted{};
  }
};

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

/// Calls f(watched_context&) without the GIL. Throws what f throws, and the Python exception behind `interrupted`.
template <class F>
auto run(F&& f) {
  try {
    const nanobind::gil_scoped_release released;
    auto& shared = the_context();
    const std::lock_guard one_call(shared.mutex);
    if (!shared.context) shared.context.emplace(cpu_options{.threads = shared.threads});
    return f(*shared.context);
  } catch (const interrupted&) {
    if (PyErr_Occurred() == nullptr) throw;  // the caller holds the exception
    throw nanobind::python_error();
  }
}

}  // namespace qkgeom::python
