// SPDX-License-Identifier: MIT
#include "capture/job/stores/resume_state.hpp"

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
  const json document = read_json(path, 2 * max_manifest_bytes);  // it holds a manifest as a string
  const json_value v(document, path.string());
  resume_state state{.settings = v["settings"].string(), .inputs = v["inputs"].string()};
  state.weights = v.string("weights").value_or("");
  if (v.has("done")) state.done = parse_manifest(v["done"].string(), path.string() + ": done");
  if (v.has("moments"))
    for (const json_value& digest : v["moments"].entries()) state.moments.push_back(digest.string());
  return state;
}

void write_state(const std::filesystem::path& folder, const resume_state& state) {
  json j = {{"settings", state.settings}, {"inputs", state.inputs}, {"weights", state.weights}};
  if (!state.done.shards.empty()) j["done"] = manifest_text(state.done);
  if (!state.moments.empty()) j["moments"] = state.moments;
  write_text(folder / file_name, j.dump() + '\n');
}

void remove_state(const std::filesystem::path& folder) {
  std::error_code none;
  std::filesystem::remove(folder / (std::string(file_name) + ".partial"), none);
  std::filesystem::remove(folder / file_name, none);
  // Moments of an unfinished block, "moments-03.safetensors.upto-17", or a part of such a file.
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().filename().string().rfind("moments-", 0) == 0 && entry.path().extension() != ".safetensors")
      std::filesystem::remove(entry.path(), none);
}

}  // namespace qkgeom
