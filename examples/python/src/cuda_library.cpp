// SPDX-License-Identifier: MIT
#include <dlfcn.h>

#include <string>

#include "arguments.hpp"
#include "watched_context.hpp"

namespace qkgeom::python {

cuda_calls& cuda_library(const char* argument) {
  static cuda_calls* calls = nullptr;  // read and set with the GIL held
  if (calls) return *calls;
  Dl_info here{};
  require(dladdr(reinterpret_cast<const void*>(&cuda_library), &here) != 0, "this module has no file");
  const std::string module = here.dli_fname, file = module.substr(0, module.rfind('/') + 1) + "_qkgeom_cuda.so";
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const why = library ? nullptr : dlerror();
  require(library, argument, " lies on a CUDA device, and this build of qkgeom has no CUDA (", why ? why : file,
          "): pass ", argument, ".cpu()");
  const auto make = reinterpret_cast<decltype(&qkgeom_cuda_calls)>(dlsym(library, "qkgeom_cuda_calls"));
  require(make, file, " is another build's: it has no qkgeom_cuda_calls");
  return *(calls = make(check_signals));
}

cuda_place place_of(const any_array& x) {
  const int device = x.device_id();
  const auto modules = nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
  if (!modules.contains("torch")) return {device, 0};
  return {device,
          nb::cast<std::uintptr_t>(modules["torch"].attr("cuda").attr("current_stream")(device).attr("cuda_stream"))};
}

void copy_to_host(const any_array& x, void* to, std::size_t bytes, const char* argument) {
  auto& cuda = cuda_library(argument);
  const auto place = place_of(x);
  run_alone([&] { cuda.copy_to_host(place, to, x.data(), bytes); });
}

}  // namespace qkgeom::python
