// SPDX-License-Identifier: MIT
#include "capture/resume_state.hpp"

#include "qkgeom/io/capture_manifest_text.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

constexpr const char* file_name = "progress.json";

}  // namespace

std::optional<resume_state> read_state(const std::filesystem::path& folder) {
  const auto path = folder / file_name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  const json document = read_json(path);
  const json_value v(document, path.string());
  resume_state state;
  state.settings = v["settings"].string();
  state.inputs = v["inputs"].string();
  for (const auto& entry : v["shards"].entries()) {
    resume_state::shard shard{detail::read_shard(entry), {}};
    for (const auto& e : entry["documents"].entries()) shard.examples.push_back(detail::read_example(e));
    state.shards.push_back(std::move(shard));
  }
  return state;
}

void write_state(const std::filesystem::path& folder, const resume_state& state) {
  detail::ordered j = {{"settings", state.settings}, {"inputs", state.inputs}, {"shards", detail::ordered::array()}};
  for (const auto& shard : state.shards) {
    j["shards"].push_back(detail::to_ordered(shard.info));
    j["shards"].back()["documents"] = detail::to_ordered_list(shard.examples);
  }
  write_text(folder / file_name, j.dump() + '\n');
}

void remove_state(const std::filesystem::path& folder) {
  std::error_code none;
  std::filesystem::remove(folder / (std::string(file_name) + ".partial"), none);
  std::filesystem::remove(folder / file_name, none);
}

}  // namespace qkgeom
