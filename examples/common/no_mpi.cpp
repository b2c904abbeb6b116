// SPDX-License-Identifier: MIT
#include "examples/common/processes.hpp"
#include "qkgeom/processes/one_process.hpp"

namespace qkgeom::examples {

void run_in_processes(const std::string&, const std::function<void(process_group&)>& body) {
  require_one_process();
  body(this_process());
}

}  // namespace qkgeom::examples
