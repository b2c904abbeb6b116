// SPDX-License-Identifier: MIT
#include "examples/common/processes.hpp"

namespace qkgeom::examples {

void run_in_processes(const std::string&, const std::function<void(process_group&)>& body) { body(this_process()); }

}  // namespace qkgeom::examples
