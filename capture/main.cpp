// SPDX-License-Identifier: MIT
// qkgeom capture: text and a checkpoint in, queries and keys of attention heads out.
#include <fmt/format.h>

#include <fstream>
#include <iostream>

#include "capture/arguments.hpp"
#include "capture/forward/products/blas.hpp"
#include "capture/job/estimate.hpp"
#include "capture/job/reference.hpp"
#include "capture/on_cpu.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/capture_check.hpp"
#include "qkgeom/io/program.hpp"

#if defined(QKGEOM_WITH_MPI)
#include "capture/job/mpi/mpi_group.hpp"
#endif

namespace {

using namespace qkgeom;

/// Returns the peak memory of this program in bytes. getrusage would count the process that started it as well.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return 1024 * kilobytes;
  return std::nan("");
}

void print(const capture_summary& s, const std::string& out) {
  if (!s.note.empty()) fmt::print("note: {}\n", s.note);
  if (s.was_complete) {
    fmt::print("{} is already complete: {} rows in {} shards, {:.1f} MB\n", out, s.rows, s.shards,
               static_cast<double>(s.bytes) / 1e6);
    return;
  }
  fmt::print(
      "{} documents, {} tokens in {:.2f} s: {:.0f} tokens/s; {} rows in {} shards, {:.1f} MB; peak memory {:.0f} MB\n",
      s.documents, s.tokens, s.seconds, static_cast<double>(s.tokens) / s.seconds, s.rows, s.shards,
      static_cast<double>(s.bytes) / 1e6, peak_memory() / 1e6);
  fmt::print("rotary embedding: {}\n", s.rope);
  if (s.loss_tokens > 0) fmt::print("loss {:.4f} nats per token over {:.0f} tokens\n", s.loss, s.loss_tokens);
  if (s.last_loss_tokens > 0)
    fmt::print("loss {:.4f} over the last fifth of the context, {:.0f} tokens\n", s.last_loss, s.last_loss_tokens);
}

capture_backend cuda_backend_for([[maybe_unused]] const capture_arguments& asked) {
#if defined(QKGEOM_CAPTURE_CUDA)
  const auto& options = asked.options;
  return cuda_backend({.resident = asked.device.resident,
                       .max_length = options.selection.max_length,
                       .batch_tokens = options.run.batch_tokens,
                       .softmax = options.statistics.softmax},
                      options.model.compute);
#else
  return {};
#endif
}

void print(const checked_capture& c, const std::string& path) {
  fmt::print("{}: {} rows", path, c.rows);
  if (c.documents > 0) fmt::print(" of {} documents", c.documents);
  fmt::print(" in {} shards", c.shards);
  if (c.moments > 0) fmt::print(" and {} files of moments", c.moments);
  fmt::print(", as the manifest says and all finite");
  fmt::print("; SHA-256 of {} of {} files compared\n", c.hashed, c.shards + c.moments);
}

/// Exit status of a --check that finds layers that disagree.
constexpr int disagrees = 1;

void print_plan(const capture_arguments& asked) {
  auto estimate = estimate_capture(asked.options, std::cerr);
  estimate.flop_per_second = measured_flop_per_second(asked.options.run.threads, asked.options.model.compute);
  print_estimate(std::cout, estimate);
  if (!asked.whole) return;
  auto whole = estimate_capture(*asked.whole, std::cerr);
  whole.flop_per_second = estimate.flop_per_second;
  print_whole(std::cout, estimate, whole);
}

/// Does what the command line asks for; returns the exit status. The processes of `group` share a capture; rank 0 does
/// everything else.
int run(const capture_arguments& asked, process_group& group) {
  const bool makes_capture = asked.verify.empty() && !asked.plan && asked.check.empty();
  if (group.rank() > 0 && !makes_capture) return 0;
  if (!asked.verify.empty()) {
    print(check_capture(capture::open(asked.verify)), asked.verify.string());
    return 0;
  }
  if (asked.plan) {
    print_plan(asked);
    return 0;
  }
  cpu_context cpu{{.threads = asked.options.run.threads}};
  auto backend = cpu_backend(cpu);
  backend.arithmetic =
      fmt::format("products in {}, kernels for {}", products_of(asked.options.model.compute), cpu_context::kernels());
  if (asked.device.cuda) {
    const auto moments = backend.moments;
    backend = cuda_backend_for(asked);
    backend.moments = moments;  // never called: the forward pass on the GPU takes moments itself
  }
  if (!asked.check.empty())
    return print_differences(std::cout, compare_with_reference(asked.options, asked.check, std::cerr, backend))
               ? 0
               : disagrees;
  if (group.size() > 1 && group.rank() == 0)
    std::cerr << "note: " << group.size()
              << " processes share the capture; if one is lost, all end, and the same command "
              << "with --resume goes on from the shards that are whole\n";
  std::ostream silent(nullptr);
  const auto summary = run_capture(asked.options, group.rank() == 0 ? std::cerr : silent, backend, group);
  if (group.rank() == 0) print(summary, asked.options.run.out.string());
  return 0;
}

int run(int argc, char** argv) {
  const auto asked = parse_arguments(argc, argv);
  if (!asked) return 0;
#if !defined(QKGEOM_CAPTURE_CUDA)
  // Replaces this program by the one with CUDA, before MPI knows this process.
  if (asked->device.cuda && !asked->plan) become_cuda_program(argv);
#endif
#if defined(QKGEOM_WITH_MPI)
  int status = 0;
  run_with_mpi("qkgeom capture", "the same command with --resume goes on from the shards that are whole",
               [&](process_group& group) { status = run(*asked, group); });
  return status;
#else
  require_no_other_process();
  return run(*asked, this_process());
#endif
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  const int failed = qkgeom::run_program("qkgeom capture", [&] {
    qkgeom::set_blas_environment(argv);
    status = run(argc, argv);
  });
  return failed != 0 ? failed : status;
}
