// SPDX-License-Identifier: MIT
// cuDNN's plans for the attention of the forward pass, for GPUs that are only described to it.
#include <cudnn.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "capture/forward/device/cudnn_attention.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

/// From the data sheets of A100, H200 and B200.
described_device device_of(int sm_version) {
  const bool first = sm_version == 80, last = sm_version == 100;
  const int count = first ? 108 : last ? 148 : 132;
  const auto n = [](long long x) { return std::to_string(x); };
  return {
      R"({"deviceName":"","cudaDeviceId":0,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"driverVer":13000,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"warpSize":32,"regsPerBlock":65536,)"
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,"maxSharedMemoryPerBlockOptin":)" +
          n(first ? 166912 : 232448) + R"(,"deviceVer":)" + n(10 * sm_version) + R"(,"multiProcessorCount":)" +
          n(count) + R"(,"totalGlobalMem":)" + n(first ? 42'000'000'000 : 140'000'000'000) +
          R"(,"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":)" + n(first ? 41943040 : 62914560) +
          "}",
      sm_version, count};
}

attention_call<bf16> call_of(index_t heads, index_t key_heads, index_t dim, index_t rows, index_t first,
                             index_t window = index_t{1} << 30) {
  return {nullptr, nullptr, nullptr, nullptr, rows, first, heads, key_heads, dim, first + rows + 1000, window, 0.1};
}

/// Calls a function of the emulated driver, if it is loaded.
template <class Result>
Result from_driver(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto ask = driver ? reinterpret_cast<Result (*)()>(dlsym(driver, name)) : nullptr;
  return ask ? ask() : Result();
}
int programs() { return from_driver<int>("qkgeom_programs"); }
std::string kernel() {
  const char* const name = from_driver<const char*>("qkgeom_kernel");
  return name ? name : "";
}

class cudnn_plans : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < 90800) GTEST_SKIP() << "devices can be described to cuDNN 9.8 and later";
    attention_.emplace(device_of(GetParam()));
    from_driver<void>("qkgeom_count_anew");  // a program may have the address of another test's
  }
  std::optional<index_t> bytes_of(const attention_call<bf16>& call) { return attention_->working_bytes(call); }
  index_t plans() const { return attention_->plans(); }

 private:
  std::optional<cudnn_attention> attention_;
};

TEST_P(cudnn_plans, are_fused_kernels_of_the_gpu_for_all_models) {
  // Query heads, key heads, head dimension: Qwen3-0.6B, Llama-3.1-8B and Ministral-3-14B, SmolLM3, GLM-4-9B,
  // Llama-3.2-1B, Gemma-3-4B, and small ones as in the fixtures.
  const index_t shapes[][3] = {{16, 8, 128}, {32, 8, 128}, {16, 4, 128}, {32, 2, 128},
                               {32, 8, 64},  {8, 4, 256},  {4, 2, 16},   {6, 1, 32}};
  for (const auto& [heads, key_heads, dim] : shapes)
    for (const index_t rows : {2, 777, 4096})
      for (const index_t window : {index_t{1} << 30, index_t{512}}) {
        SCOPED_TRACE(testing::Message() << heads << ' ' << key_heads << ' ' << dim << ' ' << rows << ' ' << window);
        const auto bytes = bytes_of(call_of(heads, key_heads, dim, rows, 126976, window));
        ASSERT_TRUE(bytes);
        // Scores of one query would take 16 MB; partial sums of blocks that share a query's keys take less.
        EXPECT_LE(*bytes, 1 << 21) << "scores are kept, so the kernel is not fused";
        // For a few queries, newer GPUs use an older one's kernel.
        const std::string made_for = rows > 2 ? "sm" + std::to_string(GetParam()) : "sm";
        EXPECT_THAT(kernel(), testing::ContainsRegex(made_for + "[0-9]*_flash_fprop"));
      }
}

/// Numbers of keys are arguments, and few numbers of rows are parts of all others.
TEST_P(cudnn_plans, are_few) {
  const auto make = [this](index_t rows, index_t first, index_t window) {
    auto call = call_of(32, 8, 128, rows, first, window);
    call.capacity = 131072;
    ASSERT_TRUE(bytes_of(call));
  };
  for (const index_t first : {0, 5, 4096, 126976}) make(4096, first, 131072);
  EXPECT_EQ(plans(), 1);
  for (const index_t first : {0, 5, 4096, 126976}) make(4096, first, 512);
  EXPECT_EQ(plans(), 2) << "with a window and without";
  // 2; 64; 128 twice; 256; 256 and 128; 4096, which there is.
  for (const index_t rows : {2, 3, 64, 127, 128, 255, 256, 300, 4096}) make(rows, 1000, 131072);
  EXPECT_EQ(plans(), 6);
  EXPECT_EQ(programs(), 6);
}

/// A part of a document may begin anywhere in a head, and a plan must not read beyond the last one.
TEST_P(cudnn_plans, are_for_the_keys_there_are) {
  auto call = call_of(32, 8, 128, 64, 0);
  ASSERT_TRUE(bytes_of(call));
  call.key_rows = 100;
  ASSERT_TRUE(bytes_of(call));
  EXPECT_EQ(plans(), 2);
}

TEST_P(cudnn_plans, are_all_that_a_described_device_has) {
  cudnn_attention attention(device_of(GetParam()));
  EXPECT_QKGEOM_ERROR("an attention of one query", attention.working_bytes(call_of(32, 8, 128, 1, 64)));
  EXPECT_QKGEOM_ERROR("the description of a device", cudnn_attention(described_device{"{}", GetParam(), 132}));
}

TEST_P(cudnn_plans, are_not_asked_for_once_a_call_has_failed) {
  cudnn_attention attention(device_of(GetParam()));
  const auto call = call_of(32, 8, 128, 64, 0), other = call_of(32, 8, 128, 65, 0);
  ASSERT_TRUE(attention.working_bytes(call));
  EXPECT_FALSE(attention(call, nullptr));
  EXPECT_FALSE(attention.working_bytes(call));
  EXPECT_FALSE(attention.working_bytes(other));
  EXPECT_THAT(attention.why_not(other), testing::HasSubstr("only described"));
}

TEST_P(cudnn_plans, are_refused_in_one_line) {
  described_device too_old = device_of(70);
  too_old.sm_version = GetParam();  // for the frontend, which would refuse it before cuDNN does
  cudnn_attention attention(too_old);
  const auto call = call_of(32, 8, 128, 64, 0);
  EXPECT_FALSE(attention.working_bytes(call));
  EXPECT_THAT(attention.why_not(call), testing::MatchesRegex("[^\n]+"));
}

INSTANTIATE_TEST_SUITE_P(sm, cudnn_plans, testing::Values(80, 90, 100));

}  // namespace
}  // namespace qkgeom
