// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/io/csv_read.hpp"
#include "qkgeom/io/csv_write.hpp"
