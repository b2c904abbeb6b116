// SPDX-License-Identifier: MIT
#include "capture/job/stores/resume_state.hpp"

#include <algorithm>

#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "progress.json";

resume_state read_file(const fs::path& path) {
  const json document = read_json(path, 2 * max_manifest_bytes);  // it holds a manifest as a string
  const json_value v(document, path.string());
  resume_state state{.settings = v["settings"].string(), .inputs = v["inputs"].string()};
  state.weights = v.string("weights").value_or("");
  state.weight_files = v.string("weight_files").value_or("");
  if (v.has("done")) state.done = parse_manifest(v["done"].string(), path.string() + ": done");
  if (v.has("moments"))
    for (const json_value& digest : v["moments"].entries()) state.moments.push_back(digest.string());
  return state;
}

/// Lists files of a folder whose names begin with `prefix`, sorted by name.
std::vector<fs::path> files_named(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::optional<resume_state> read_state(const fs::path& folder) {
  if (!fs::exists(folder / file_name)) return std::nullopt;
  return read_file(folder / file_name);
}

std::vector<resume_state> read_states(const fs::path& folder) {
  std::vector<resume_state> states;
  if (auto first = read_state(folder)) states.push_back(std::move(*first));
  for (const auto& path : files_named(folder, "progress-"))
    if (path.extension() == ".json") states.push_back(read_file(path));
  return states;
}

void write_state(const fs::path& folder, const resume_state& state, int rank) {
  json j = {{"settings", state.settings},
            {"inputs", state.inputs},
            {"weights", state.weights},
            {"weight_files", state.weight_files}};
  if (!state.done.shards.empty()) j["done"] = manifest_text(state.done);
  if (!state.moments.empty()) j["moments"] = state.moments;
  write_text(folder / (rank == 0 ? file_name : "progress-" + std::to_string(rank) + ".json"), j.dump() + '\n');
}

void remove_other_states(const fs::path& folder) {
  std::error_code none;
  for (const auto& path : files_named(folder, "progress-")) fs::remove(path, none);
}

void remove_state(const fs::path& folder) {
  std::error_code none;
  remove_other_states(folder);
  fs::remove(folder / (std::string(file_name) + ".partial"), none);
  fs::remove(folder / file_name, none);
  // Removes moments of unfinished blocks, "moments-03.safetensors.upto-17", and partial files of moments.
  for (const auto& path : files_named(folder, "moments-"))
    if (path.extension() != ".safetensors") fs::remove(path, none);
}

}  // namespace qkgeom
