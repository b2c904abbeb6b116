// SPDX-License-Identifier: MIT
// The emulated device shows missing waits and accesses that a device would refuse.
#include "tests/emulated_cuda/device.hpp"
#include "capture/forward/device/cuda_device.cuh"
#include "qkgeom/backend/cuda/resources.cuh"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;
using namespace qkgeom::cuda_kernels;

bool late() { return emulated::chosen_schedule() == emulated::schedule::late; }

TEST(emulated_device, copies_are_late_unless_somebody_waits) {
  const owned_stream stream = make_stream();
  const device_memory memory(stream.get());
  const buffer<double, device_memory> x(memory, std::vector<double>{1, 2, 3});
  std::vector<double> here(3, -1);
  check(cudaMemcpyAsync(here.data(), x.data(), 3 * sizeof(double), cudaMemcpyDeviceToHost, stream.get()), "a copy");
  if (late()) {
    EXPECT_EQ(here, (std::vector<double>{-1, -1, -1}));
  }
  check(cudaStreamSynchronize(stream.get()), "waiting");
  EXPECT_EQ(here, (std::vector<double>{1, 2, 3}));
}

TEST(emulated_device, page_locked_memory_is_read_when_the_stream_gets_there) {
  const owned_stream stream = make_stream();
  const device_memory memory(stream.get());
  const pinned_memory pinned;
  const buffer<double, pinned_memory> from(pinned, 1);
  const buffer<double, device_memory> x(memory, 1), y(memory, 1);
  std::vector<double> pageable{1};
  from.data()[0] = 1;
  memory.from_host(x.data(), from.data(), sizeof(double));
  memory.from_host(y.data(), pageable.data(), sizeof(double));
  from.data()[0] = pageable[0] = 2;
  EXPECT_EQ(x.host()[0], late() ? 2 : 1);
  EXPECT_EQ(y.host()[0], 1);
}

TEST(emulated_device, a_stream_goes_as_far_as_the_event_that_another_waits_for) {
  const owned_stream one = make_stream(), other = make_stream();
  const device_memory memory(one.get());
  const buffer<double, device_memory> x(memory, 2);
  const owned_event event = make_event();
  memory.from_host(x.data(), std::vector<double>{5}.data(), sizeof(double));
  check(cudaEventRecord(event.get(), one.get()), "cudaEventRecord");
  memory.from_host(x.data() + 1, std::vector<double>{6}.data(), sizeof(double));
  check(cudaStreamWaitEvent(other.get(), event.get()), "cudaStreamWaitEvent");
  const device_memory there(other.get());
  double got[2];
  there.to_host(got, x.data(), sizeof got);
  EXPECT_EQ(got[0], 5);
  if (late()) {
    EXPECT_TRUE(std::isnan(got[1]));
  }
}

TEST(emulated_device, what_is_freed_holds_nothing) {
  const device_memory memory(nullptr);
  double* freed = nullptr;
  {
    const buffer<double, device_memory> x(memory, std::vector<double>{1});
    freed = x.data();
  }
  check(cudaDeviceSynchronize(), "waiting");
  double got = 0;
  EXPECT_THROW(memory.to_host(&got, freed, sizeof got), error);
}

std::size_t free_bytes() {
  check(cudaDeviceSynchronize(), "waiting");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

TEST(emulated_device, what_one_stream_frees_another_gets_and_a_trimmed_pool_gives_back) {
  const owned_stream one = make_stream(), other = make_stream();
  const device_memory here(one.get()), there(other.get());
  const std::size_t before = free_bytes();
  { const buffer<double, device_memory> x(here, 1000); }
  const std::size_t kept = free_bytes();
  EXPECT_LT(kept, before);
  {
    const buffer<double, device_memory> x(there, 1000);
    EXPECT_EQ(free_bytes(), kept);
  }
  here.pool().trim();
  EXPECT_EQ(free_bytes(), before);
}

TEST(emulated_device, copies_and_products_must_fit_what_is_there) {
  const device_memory memory(nullptr);
  const buffer<double, device_memory> x(memory, 4);
  double here[8] = {};
  EXPECT_THROW(memory.from_host(x.data(), here, sizeof here), error);
  EXPECT_THROW(memory.from_host(here, x.data(), 8), error);
  EXPECT_THROW(memory.to_host(x.data(), here, 8), error);
  const handles use(nullptr);
  const double one = 1, zero = 0;
  const auto gemm = [&](int m, int lda) {
    return cublasDgemmStridedBatched(use.blas(), CUBLAS_OP_N, CUBLAS_OP_N, m, 2, 2, &one, x.data(), lda, 0, x.data(), 2,
                                     0, &zero, x.data(), 2, 0, 1);
  };
  EXPECT_EQ(gemm(2, 2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(gemm(2, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THROW(gemm(2, 3), error);
}

TEST(emulated_device, where_cudnn_fails_products_take_its_place_and_it_is_said_once) {
  cuda_device device(0);
  const buffer<bf16, cuda_device::memory_type> rows(device.memory(), std::vector<bf16>(2 * 16));
  const attention_call<bf16> call{nullptr, rows.data(), rows.data(), nullptr, 2, 0, 1, 1, 16, 2, 2, 1.0};
  testing::internal::CaptureStderr();
  EXPECT_FALSE(device.attend(call));
  EXPECT_FALSE(device.attend(call));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "qkgeom: cuDNN does not compute this attention, which goes through cuBLAS, slower: this device is "
            "emulated\n");
}

TEST(emulated_device, the_host_cannot_touch_its_memory) {
  if (!late()) GTEST_SKIP() << "streams that work at once leave it open";
  const device_memory memory(nullptr);
  const buffer<double, device_memory> x(memory, std::vector<double>{1});
  EXPECT_DEATH(
      {
        const volatile double read = *x.data();
        (void)read;
      },
      "");
  EXPECT_EQ(x.host()[0], 1);
}

}  // namespace
