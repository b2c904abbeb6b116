// SPDX-License-Identifier: MIT
// A CUDA driver (libcuda.so.1) whose one device runs nothing: cuDNN plans for a device that is described to it, and the
// programs that it loads are counted here.
#include <set>
#include <string>

namespace {

int library;
std::set<const void*>& programs() {
  static std::set<const void*> all;
  return all;
}
std::string& kernel() {
  static std::string name;
  return name;
}
constexpr int not_supported = 801;

}  // namespace

extern "C" {

int qkgeom_programs() { return static_cast<int>(programs().size()); }
void qkgeom_count_anew() { programs().clear(); }
const char* qkgeom_kernel() { return kernel().c_str(); }

int cuInit(unsigned) { return 100; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuGetErrorName(int, const char** text) { return *text = "an error of the emulated driver", 0; }
int cuGetErrorString(int, const char** text) { return *text = "an error of the emulated driver", 0; }

int cuLibraryLoadData(void** handle, const void* program, void*, void*, unsigned, void*, void*, unsigned) {
  programs().insert(program);
  return *handle = &library, 0;
}
int cuLibraryGetKernel(void** handle, void*, const char* name) {
  kernel() = name;
  return *handle = &library, 0;
}
int cuKernelGetFunction(void** function, void* handle) { return *function = handle, 0; }
int cuLibraryUnload(void*) { return 0; }

// Looked up, not called.
#define QKGEOM_NOT_CALLED(name) \
  int name() { return not_supported; }
QKGEOM_NOT_CALLED(cuCtxGetCurrent)
QKGEOM_NOT_CALLED(cuCtxGetLimit)
QKGEOM_NOT_CALLED(cuCtxPopCurrent)
QKGEOM_NOT_CALLED(cuCtxPushCurrent)
QKGEOM_NOT_CALLED(cuDeviceGet)
QKGEOM_NOT_CALLED(cuKernelGetAttribute)
QKGEOM_NOT_CALLED(cuKernelSetAttribute)
QKGEOM_NOT_CALLED(cuLaunchCooperativeKernel)
QKGEOM_NOT_CALLED(cuLaunchKernel)
QKGEOM_NOT_CALLED(cuLaunchKernelEx)
QKGEOM_NOT_CALLED(cuLibraryLoadFromFile)
QKGEOM_NOT_CALLED(cuLinkAddData)
QKGEOM_NOT_CALLED(cuLinkComplete)
QKGEOM_NOT_CALLED(cuLinkCreate)
QKGEOM_NOT_CALLED(cuLinkDestroy)
QKGEOM_NOT_CALLED(cuOccupancyMaxPotentialClusterSize)
QKGEOM_NOT_CALLED(cuStreamGetCtx)
#undef QKGEOM_NOT_CALLED
}
