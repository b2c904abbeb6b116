// SPDX-License-Identifier: MIT
// The heavy bodies of the rooms report/ and study/, compiled once (see core/config.hpp).
#include "qkgeom/report/detail/columns.hpp"
#include "qkgeom/report/detail/head_statistics.hpp"
#include "qkgeom/report/detail/known_moments.hpp"
#include "qkgeom/report/detail/model_summary.hpp"
#include "qkgeom/report/detail/notes.hpp"
#include "qkgeom/report/detail/pair_csv.hpp"
#include "qkgeom/report/detail/pair_summary.hpp"
#include "qkgeom/report/detail/softmax_csv.hpp"
#include "qkgeom/study/detail/comparison.hpp"
#include "qkgeom/study/detail/trajectory.hpp"
