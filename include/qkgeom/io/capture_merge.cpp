// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_merge.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom {

namespace {

/// Returns the fields that the manifests of all parts must share.
capture_manifest common_to_parts(capture_manifest m) {
  m.documents.reset();
  m.shards.clear();
  m.extra.erase(part_field);
  m.extra.erase(moments_hashes_field);
  if (m.extra.contains("moments")) {
    m.extra["moments"].erase("blocks");
    m.extra["moments"].erase(first_block_field);
  }
  return m;
}

/// Throws `error` naming the first difference between two parts.
void check_alike(const capture& first, const capture& other) {
  const auto a = common_to_parts(first.manifest()), b = common_to_parts(other.manifest());
  const auto same = [&](bool equal, const std::string& what) {
    require(equal, other.path().string(), ": its ", what, " not ", "that of ", first.path().string(),
            ": they are not parts of one capture");
  };
  same(a.model == b.model, "model is");
  same(a.seed == b.seed, "seed is");
  same(a.bucket == b.bucket && a.rate == b.rate, "draw of tokens is");
  same(a.layers == b.layers, "choice of layers and heads is");
  same(a.context_length == b.context_length, "context length is");
  same(a.extra.value(inputs_field, "") == b.extra.value(inputs_field, ""), "list of documents or tokenizer is");
  for (const auto* m : {&a, &b})
    for (const auto& [name, value] : m->extra.items())
      same(a.extra.contains(name) && b.extra.contains(name) && a.extra[name] == b.extra[name], name + " is");
  same(manifest_text(a) == manifest_text(b), "manifest is");
}

/// Links or copies files into a folder, and removes them again unless `keep` is called.
class gathered_files {
 public:
  explicit gathered_files(std::filesystem::path folder) : folder_(std::move(folder)) {}
  gathered_files(const gathered_files&) = delete;
  gathered_files& operator=(const gathered_files&) = delete;
  ~gathered_files() {
    std::error_code none;
    for (const auto& path : made_) std::filesystem::remove(path, none);
  }
  /// Links or copies a file; `digest`: its SHA-256, empty: unknown.
  void add(const std::filesystem::path& from, const std::string& digest) {
    const auto to = folder_ / from.filename();
    std::error_code failed;
    require(std::filesystem::is_regular_file(from), from.string(), ": the file is missing");
    std::filesystem::create_hard_link(std::filesystem::canonical(from), to, failed);
    require(failed != std::errc::file_exists, to.string(), ": another part has this file too");
    made_.push_back(to);
    if (!failed) {
      ++linked;
      return;
    }
    sha256 read;
    atomic_file copy(to);
    copy.digest_into(read);
    copy.write(mapped_file(from).bytes());
    copy.commit();
    require(digest.empty() || read.hex() == digest, from.string(),
            ": its bytes do not have the SHA-256 of the manifest");
    ++copied;
  }
  void keep() { made_.clear(); }

  index_t linked = 0, copied = 0;

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_{};
};

/// Opens the parts and puts them in order. Throws `error` unless they are all the parts of one capture.
std::vector<capture> open_parts(const std::vector<std::filesystem::path>& paths) {
  require(!paths.empty(), "at least one part must be named");
  std::vector<std::pair<index_t, capture>> numbered;
  index_t of = 0;
  for (const auto& path : paths) {
    auto c = capture::open(path);
    const auto part = part_of(c.manifest(), (path / "manifest.json").string());
    require(part.has_value(), path.string(), " is a whole capture and no part of one, as qkgeom capture --part makes; ",
            "programs read several captures as one where they are named together");
    if (!numbered.empty()) check_alike(numbered[0].second, c);
    of = numbered.empty() ? part->of : of;
    require(part->of == of, path.string(), " is part ", part->number, " of ", part->of, ", ", paths[0].string(),
            " one of ", of);
    numbered.emplace_back(part->number, std::move(c));
  }
  std::stable_sort(numbered.begin(), numbered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<capture> parts;
  for (auto& [number, c] : numbered) {
    const auto next = static_cast<index_t>(parts.size()) + 1;
    require(number >= next, c.path().string(), " and ", parts.empty() ? "" : parts.back().path().string(),
            " are both part ", number, " of ", of);
    require(number == next, "part ", next, " of ", of, " is missing");
    parts.push_back(std::move(c));
  }
  require(static_cast<index_t>(parts.size()) == of, "part ", parts.size() + 1, " of ", of, " is missing");
  return parts;
}

}  // namespace

merged_capture merge_parts(const std::vector<std::filesystem::path>& paths, const std::filesystem::path& out) {
  const auto parts = open_parts(paths);
  capture_manifest whole = parts[0].manifest();
  whole.extra.erase(part_field);
  whole.documents->clear();
  whole.shards.clear();
  json digests = json::array();
  index_t blocks = 0;
  std::error_code none;
  require(!std::filesystem::exists(out) || std::filesystem::is_empty(out, none), out.string(),
          " holds files already; the capture is made in a folder of its own");
  const made_folder folder(out);
  gathered_files files(out);
  merged_capture made{.parts = static_cast<index_t>(parts.size())};
  for (const auto& part : parts) {
    const auto& m = part.manifest();
    for (const captured_document& d : *m.documents) {
      require(d.index == static_cast<index_t>(whole.documents->size()), part.path().string(), ": document ", d.index,
              " does not follow those of the part before, ", whole.documents->size(), " in number");
      whole.documents->push_back(d);
    }
    std::vector<index_t> listed, in_shards;
    for (const captured_document& d : *m.documents) listed.push_back(d.index);
    for (const captured_shard& s : m.shards) in_shards.insert(in_shards.end(), s.documents.begin(), s.documents.end());
    require(in_shards == listed, part.path().string(),
            ": its shards do not hold the documents that its manifest lists");
    for (index_t s = 0; s < part.n_shards(); ++s) {
      part.file(s);  // checks that its manifest and rows are those that the part lists
      files.add(part.path() / m.shards[s].file, m.shards[s].sha256);
      made.rows += m.shards[s].rows;
      whole.shards.push_back(m.shards[s]);
    }
    const auto moments = open_moments(part);
    const json known = m.extra.value(moments_hashes_field, json::array());
    require(known.is_array() && (known.empty() || known.size() == moments.size()), part.path().string(), ": ",
            moments_hashes_field, " must list ", moments.size(), " files");
    const index_t first = first_moment_block(m, part.path().string());
    require(moments.empty() || first == blocks, part.path().string(), ": its moments begin with block ", first,
            ", those of the parts before end with ", blocks);
    for (std::size_t b = 0; b < moments.size(); ++b, ++blocks) {
      const auto digest = known.empty() ? json("") : known[b];
      require(digest.is_string(), part.path().string(), ": ", moments_hashes_field, " must list strings");
      files.add(part.path() / moments_name(blocks), digest.get<std::string>());
      if (!known.empty()) digests.push_back(digest);
    }
  }
  if (blocks > 0) {
    whole.extra["moments"].erase(first_block_field);
    whole.extra["moments"]["blocks"] = blocks;
    whole.extra.erase(moments_hashes_field);
    if (static_cast<index_t>(digests.size()) == blocks) whole.extra[moments_hashes_field] = digests;
  }
  write_text(out / "manifest.json", manifest_text(whole, 1) + '\n');
  files.keep();
  made.documents = static_cast<index_t>(whole.documents->size());
  made.shards = static_cast<index_t>(whole.shards.size());
  made.linked = files.linked;
  made.copied = files.copied;
  return made;
}

}  // namespace qkgeom
