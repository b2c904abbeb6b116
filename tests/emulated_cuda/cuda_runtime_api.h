// SPDX-License-Identifier: MIT
#pragma once

#include "tests/emulated_cuda/cuda_runtime.h"
