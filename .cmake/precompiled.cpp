// SPDX-License-Identifier: MIT
// The heavy bodies of the library, compiled once for the programs and tests of this project (see core/config.hpp).
#include "qkgeom/backend/detail/cpu/kernel_bodies.hpp"
#include "qkgeom/core/detail/thread_pool.hpp"
#include "qkgeom/core/detail/utf8.hpp"
#include "qkgeom/linalg/detail/symmetric.hpp"
#include "qkgeom/model/detail/query_model_of.hpp"
#include "qkgeom/plasticity/detail/merge.hpp"
#include "qkgeom/plasticity/detail/pair_terms.hpp"
#include "qkgeom/plasticity/detail/profile_of.hpp"
#include "qkgeom/stats/detail/coarser.hpp"
#include "qkgeom/stats/detail/interval.hpp"
