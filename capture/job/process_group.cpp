// SPDX-License-Identifier: MIT
#include "capture/job/process_group.hpp"

#include <algorithm>
#include <exception>

namespace qkgeom {

void process_group::begin(const std::function<void()>& f) {
  if (size() == 1) return f();
  std::string failure;
  try {
    f();
  } catch (const std::exception& e) {
    failure = e.what();
    if (failure.empty()) failure = "unknown error";
  }
  const auto failures = gather(failure);
  const auto first = std::find_if(failures.begin(), failures.end(), [](const auto& text) { return !text.empty(); });
  if (first == failures.end()) return;
  const bool all_alike =
      std::all_of(failures.begin(), failures.end(), [&](const auto& text) { return text == *first; });
  if (all_alike) throw group_error(*first);
  throw group_error("rank " + std::to_string(first - failures.begin()) + ": " + *first);
}

void process_group::agree(const std::string& text, const std::string& what) {
  const auto texts = gather(text);
  for (std::size_t r = 1; r < texts.size(); ++r)
    if (texts[r] != texts[0]) throw group_error("rank " + std::to_string(r) + " has another " + what + " than rank 0");
}

}  // namespace qkgeom
