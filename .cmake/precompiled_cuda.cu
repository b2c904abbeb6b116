// SPDX-License-Identifier: MIT
// The pair kernels, compiled once for the CUDA programs and tests of this project (see core/config.hpp).
#include "qkgeom/backend/detail/cuda/programs.cuh"

namespace qkgeom::cuda_kernels {

template void launch_program(const tile::observed_tiles&, index_t, cudaStream_t);
template void launch_program(const tile::sum_program&, index_t, cudaStream_t);
template void launch_program(const tile::scale_program<tile::stored_keys>&, index_t, cudaStream_t);
template void launch_program(const tile::scale_program<tile::scaled_keys>&, index_t, cudaStream_t);
template void launch_program(const tile::split_program<tile::stored_keys>&, index_t, cudaStream_t);
template void launch_program(const tile::split_program<tile::scaled_keys>&, index_t, cudaStream_t);
template void launch_program(const tile::pair_tiles<true, false>&, index_t, cudaStream_t);
template void launch_program(const tile::pair_tiles<true, true>&, index_t, cudaStream_t);
template void launch_program(const tile::pair_tiles<false, false>&, index_t, cudaStream_t);
template void launch_program(const tile::pair_tiles<false, true>&, index_t, cudaStream_t);
template void launch_program(const tile_terms&, index_t, cudaStream_t);
template void launch_program(const tile_term_cells&, index_t, cudaStream_t);
template void launch_program(const tile::pair_tiles<true, false, tile_prefix>&, index_t, cudaStream_t);
template void launch_program(const tile::pair_tiles<true, true, tile_prefix>&, index_t, cudaStream_t);
template void launch_program(const tile::largest_weight<tile_prefix>&, index_t, cudaStream_t);

}  // namespace qkgeom::cuda_kernels
