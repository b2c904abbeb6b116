// SPDX-License-Identifier: MIT
// Launches of the kernels' PTX, made by nvcc, in place of kernels compiled for the host.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "tests/emulated_cuda/ptx/interpreter.hpp"

namespace qkgeom::emulated {

class compiled_kernels {
 public:
  /// Null unless QKGEOM_EMULATED_KERNELS is "compiled".
  static compiled_kernels* the();

  /// Launches function<Argument>(argument).
  template <class Argument>
  void launch(const std::string& function, const Argument& argument, index_t blocks, int threads,
              std::size_t dynamic_shared_bytes) {
    launch(
        function, typeid(Argument), sizeof argument,
        {.blocks = blocks, .threads = threads, .dynamic_shared_bytes = dynamic_shared_bytes, .parameters = &argument});
  }

 private:
  /// `files`: names with colons between them.
  explicit compiled_kernels(const std::string& files);
  void launch(const std::string& function, const std::type_info& argument, std::size_t bytes, ptx::grid how);

  std::vector<std::string> modules_;
  std::map<std::string, ptx::kernel_text> texts_;  // by plain names, see compiled_kernels.cpp
  std::map<std::string, ptx::kernel> read_;
};

}  // namespace qkgeom::emulated
