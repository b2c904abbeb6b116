// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/cuda/team.cuh"
#include "qkgeom/backend/detail/tiles/observed.hpp"
#include "qkgeom/backend/detail/tiles/operands.hpp"
#include "qkgeom/backend/detail/tiles/pairs.hpp"

/// The programs of a CUDA device. They take long to compile: with QKGEOM_PRECOMPILED they are compiled once, in
/// .cmake/precompiled_cuda.cu, except those of a caller's own weight.
namespace qkgeom::cuda_kernels {

using tile_prefix = backend::given_weight<prefix_weight>;
using tile_terms = tile::pair_tiles<true, false, backend::no_weight, true>;
using tile_term_cells = tile::pair_tiles<true, true, backend::no_weight, true>;

#if defined(QKGEOM_PRECOMPILED)
extern template void launch_program(const tile::observed_tiles&, index_t, cudaStream_t);
extern template void launch_program(const tile::sum_program&, index_t, cudaStream_t);
extern template void launch_program(const tile::scale_program<tile::stored_keys>&, index_t, cudaStream_t);
extern template void launch_program(const tile::scale_program<tile::scaled_keys>&, index_t, cudaStream_t);
extern template void launch_program(const tile::split_program<tile::stored_keys>&, index_t, cudaStream_t);
extern template void launch_program(const tile::split_program<tile::scaled_keys>&, index_t, cudaStream_t);
extern template void launch_program(const tile::pair_tiles<true, false>&, index_t, cudaStream_t);
extern template void launch_program(const tile::pair_tiles<true, true>&, index_t, cudaStream_t);
extern template void launch_program(const tile::pair_tiles<false, false>&, index_t, cudaStream_t);
extern template void launch_program(const tile::pair_tiles<false, true>&, index_t, cudaStream_t);
extern template void launch_program(const tile_terms&, index_t, cudaStream_t);
extern template void launch_program(const tile_term_cells&, index_t, cudaStream_t);
extern template void launch_program(const tile::pair_tiles<true, false, tile_prefix>&, index_t, cudaStream_t);
extern template void launch_program(const tile::pair_tiles<true, true, tile_prefix>&, index_t, cudaStream_t);
extern template void launch_program(const tile::largest_weight<tile_prefix>&, index_t, cudaStream_t);
#endif

}  // namespace qkgeom::cuda_kernels
