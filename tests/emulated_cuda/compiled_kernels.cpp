// SPDX-License-Identifier: MIT
#include "tests/emulated_cuda/compiled_kernels.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string_view>

#include "qkgeom/core/error.hpp"
#include "tests/emulated_cuda/device.hpp"

namespace qkgeom::emulated {
namespace {

/// A name as all compilers write it: without spaces, unnamed namespaces as `nameless`.
std::string plain(const std::string& name) {
  static const std::regex spaces(" "), nameless(R"(_GLOBAL__N__\w+|\(anonymousnamespace\))");
  return std::regex_replace(std::regex_replace(name, spaces, ""), nameless, "nameless");
}

}  // namespace

compiled_kernels* compiled_kernels::the() {
  static const std::unique_ptr<compiled_kernels> all = []() -> std::unique_ptr<compiled_kernels> {
    const char* const said = std::getenv("QKGEOM_EMULATED_KERNELS");
    if (said == nullptr) return nullptr;
    require(std::string_view(said) == "compiled", "QKGEOM_EMULATED_KERNELS is compiled or not set, not ", said);
#if defined(QKGEOM_PTX)
    return std::unique_ptr<compiled_kernels>(new compiled_kernels(QKGEOM_PTX));
#else
    fail("QKGEOM_EMULATED_KERNELS: where this was built there was no nvcc");
#endif
  }();
  return all.get();
}

compiled_kernels::compiled_kernels(const std::string& files) {
  std::istringstream names(files);
  for (std::string name; std::getline(names, name, ':');) {
    std::ifstream file(name);
    require(file.good(), name, ", PTX of kernels, cannot be read");
    modules_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  for (const auto& module : modules_)
    for (auto& found : ptx::find_kernels(module)) texts_.emplace(plain(found.name), found);
}

void compiled_kernels::launch(const std::string& function, const std::type_info& argument, std::size_t bytes,
                              ptx::grid how) {
  const std::string type = ptx::readable(argument.name()),
                    name = plain("void " + function + "<" + type + ">(" + type + ")");
  auto found = read_.find(name);
  if (found == read_.end()) {
    const auto text = texts_.find(name);
    require(text != texts_.end(), "nvcc's PTX does not have ", name);
    found = read_.emplace(name, ptx::read_kernel(text->second)).first;
  }
  require(found->second.parameter_bytes == bytes, name, " takes ", found->second.parameter_bytes, " bytes, not ",
          bytes);
  how.last_block_first = true;
  ptx::run(found->second, how, [](const void* p) { return device::the().allocation_of(p); });
}

}  // namespace qkgeom::emulated
