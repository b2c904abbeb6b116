// SPDX-License-Identifier: MIT
// The forward pass of a device, its steps run by the host, against what transformers computes and against the CPU's.
#include "capture/device_forward_pass.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "capture/analyse_documents.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/csv.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward_fixture.hpp"
#include "tests/capture/host_machine.hpp"

namespace qkgeom {
namespace {

/// Small chunks and blocks, so that a fixture has several of them.
constexpr device_decoder_options small{.chunk = 48, .attention_rows = 20, .attention_keys = 64, .resident = 0};
/// With the keys of a block of PyTorch's attention on the CPU, since weights are rounded relative to the largest score
/// so far.
constexpr device_decoder_options as_theirs{.chunk = 48, .attention_rows = 20, .attention_keys = 512, .resident = 0};

template <class T>
named_tensors run_on_host(const forward_fixture& f, const device_decoder_options& options = small,
                          rope_stage stage = rope_stage::post) {
  const safetensors_file fixture = f.open();
  const auto ids = fixture.values<std::int32_t>("ids"), positions = fixture.values<std::int32_t>("position");
  const checkpoint model(f.folder);
  thread_pool pool(2);
  test::host_machine machine(pool);
  const auto description = f.description();
  device_decoder<test::host_machine, T> d(machine, description, model, description.n_layers() - 1, pool, options);
  std::map<std::pair<std::string, index_t>, std::vector<float>> chosen;  // by tensor and head, in the order of tokens
  device_sinks<T, memory_space::host> sinks;
  index_t tokens = 0;
  sinks.rows = [&](std::size_t, index_t layer, index_t first, tensor_view<const T> q, tensor_view<const T> k) {
    tokens = first + q.rows;
    for (const auto& [side, x] : {std::pair{".q", q}, std::pair{".k", k}})
      for (index_t h = 0; h < x.heads; ++h)
        for (const std::int32_t t : positions)
          if (t >= first && t < first + x.rows)
            chosen[{"layer." + std::to_string(layer) + side, h}].insert(
                chosen[{"layer." + std::to_string(layer) + side, h}].end(), x.head(h).row(t - first),
                x.head(h).row(t - first) + x.dim);
  };
  const token_span all(ids.data(), ids.size());
  d.run({&all, 1}, stage, sinks);
  EXPECT_EQ(tokens, static_cast<index_t>(ids.size()));
  named_tensors out;
  for (const auto& [key, rows] : chosen) out[key.first].insert(out[key.first].end(), rows.begin(), rows.end());
  return out;
}

TEST(device, f32_agrees_with_transformers) {
  for (const auto& f : forward_fixtures()) {
    const safetensors_file fixture = f.open();
    const auto all = run_on_host<float>(f);
    EXPECT_EQ(2 * (all.size() + 1), fixture.tensors().size()) << f.file;
    for (const auto& [name, ours] : all) {
      const auto theirs = widened<float>(fixture, "f32." + name);
      EXPECT_LE(distance(ours, theirs), 1e-4 * norm(theirs)) << f.file << ' ' << name;
    }
  }
}

TEST(device, bf16_is_as_near_to_f32_as_transformers_is_and_has_its_bits_in_layer_0) {
  for (const auto& f : forward_fixtures()) {
    const safetensors_file fixture = f.open();
    for (const auto& [name, ours] : run_on_host<bf16>(f, as_theirs)) {
      const auto exact = widened<float>(fixture, "f32." + name), theirs = widened<bf16>(fixture, "bf16." + name);
      EXPECT_LE(distance(ours, exact), 1.5 * distance(theirs, exact)) << f.file << ' ' << name;
      // The CPU's kernels round the weights of the attention as PyTorch's do; here they are exact before they are
      // rounded. Two errors of the same size that have nothing in common are at sqrt(2).
      EXPECT_LE(distance(ours, theirs), std::sqrt(2.0) * distance(theirs, exact)) << f.file << ' ' << name;
      if (name != "layer.0.q" && name != "layer.0.k") continue;
      std::size_t same = 0;
      for (std::size_t i = 0; i < theirs.size(); ++i) same += ours[i] == theirs[i];
      EXPECT_GE(static_cast<double>(same), 0.99 * static_cast<double>(theirs.size())) << f.file << ' ' << name;
    }
  }
}

/// What each sink of a run gets, (document, layer, sink) -> values in f32; losses are layer -1.
using handed_out = std::map<std::tuple<std::size_t, index_t, std::string>, std::vector<float>>;

template <class T>
handed_out run_documents(const forward_fixture& f, const std::vector<token_span>& documents, rope_stage stage,
                         const device_decoder_options& options, bool losses = true, int visits = 1) {
  const checkpoint model(f.folder);
  thread_pool pool(2);
  test::host_machine machine(pool);
  const auto description = f.description();
  device_decoder<test::host_machine, T> d(machine, description, model, description.n_layers() - 1, pool, options);
  handed_out out;
  const auto add = [&](std::size_t i, index_t layer, const std::string& name, tensor_view<const T> x) {
    auto& to = out[{i, layer, name}];
    for (index_t t = 0; t < x.rows; ++t)
      for (index_t h = 0; h < x.heads; ++h) to.insert(to.end(), x.head(h).row(t), x.head(h).row(t) + x.dim);
  };
  device_sinks<T, memory_space::host> sinks;
  sinks.rows = [&](std::size_t i, index_t layer, index_t, tensor_view<const T> q, tensor_view<const T> k) {
    add(i, layer, "q", q);
    add(i, layer, "k", k);
  };
  sinks.attended = [&](std::size_t i, index_t layer, index_t, tensor_view<const T> q, tensor_view<const T> k) {
    add(i, layer, "attended q", q);
    add(i, layer, "attended k", k);
  };
  sinks.keys = [&](std::size_t i, index_t layer, tensor_view<const T> k) { add(i, layer, "keys", k); };
  if (losses)
    sinks.losses = [&](std::size_t i, const token_predictions& found) {
      auto& to = out[{i, -1, "loss"}];
      to = found.loss;
      to.insert(to.end(), found.right.begin(), found.right.end());
    };
  for (int v = 0; v < visits; ++v) {
    out.clear();
    d.run(documents, stage, sinks);
  }
  return out;
}

/// The same from the CPU's forward pass.
handed_out run_on_cpu(const forward_fixture& f, const std::vector<token_span>& documents, rope_stage stage) {
  const checkpoint model(f.folder);
  thread_pool pool(2);
  const auto description = f.description();
  decoder d(description, model, compute_type::f32, description.n_layers() - 1, pool);
  handed_out out;
  const auto sink = [&](const std::string& q_name, const std::string& k_name) {
    return
        [&out, q_name, k_name](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
          for (const auto& [name, x] : {std::pair{q_name, q}, std::pair{k_name, k}})
            for (index_t t = 0; t < x.rows; ++t)
              for (index_t h = 0; h < x.heads; ++h)
                out[{i, layer, name}].insert(out[{i, layer, name}].end(), x.head(h).row(t), x.head(h).row(t) + x.dim);
        };
  };
  d.run(
      documents, stage,
      batch_sinks{sink("q", "k"), sink("attended q", "attended k"), [&](std::size_t i, const token_predictions& found) {
                    auto& to = out[{i, -1, "loss"}];
                    to = found.loss;
                    to.insert(to.end(), found.right.begin(), found.right.end());
                  }});
  return out;
}

TEST(device, every_sink_of_several_documents_gets_what_the_cpu_gives) {
  for (const std::string name : {"llama-dynamic", "qwen3-moe", "gemma3", "gpt-neox", "ministral3"})
    for (const rope_stage stage : {rope_stage::post, rope_stage::pre}) {
      const forward_fixture f = family_fixture(name);
      const safetensors_file fixture = f.open();
      const auto ids = fixture.values<std::int32_t>("ids");
      const token_span all(ids.data(), ids.size());
      const std::vector<token_span> documents{all.first(7), all, {}, all.subspan(3), all.last(1)};
      const auto theirs = run_on_cpu(f, documents, stage);
      auto ours = run_documents<float>(f, documents, stage, {.chunk = 5, .attention_rows = 3, .attention_keys = 4});
      for (const auto& [key, rows] : theirs) {
        const auto& [document, layer, sink] = key;
        ASSERT_TRUE(ours.count(key)) << name << ' ' << document << ' ' << layer << ' ' << sink;
        EXPECT_LE(distance(ours[key], rows), 1e-5 * norm(rows))
            << name << ' ' << document << ' ' << layer << ' ' << sink;
        if (sink == "attended k") {
          EXPECT_EQ((ours[{document, layer, "keys"}]), ours[key]) << name;
        }
      }
      EXPECT_EQ(ours.size(), theirs.size() + 4 * static_cast<std::size_t>(f.description().n_layers())) << name;
    }
}

TEST(device, results_do_not_depend_on_which_layers_stay_or_on_what_ran_before) {
  for (const std::string name : {"llama-dynamic", "qwen3-moe"}) {
    const forward_fixture f = family_fixture(name);
    const safetensors_file fixture = f.open();
    const auto ids = fixture.values<std::int32_t>("ids");
    const token_span all(ids.data(), ids.size());
    const std::vector<token_span> documents{all.first(9), all};
    const auto stream = run_documents<bf16>(f, documents, rope_stage::post, {.chunk = 16});
    for (const index_t resident : {index_t{60000}, index_t{1} << 40})
      for (const int visits : {1, 3})
        EXPECT_TRUE(stream == run_documents<bf16>(f, documents, rope_stage::post, {.chunk = 16, .resident = resident},
                                                  true, visits))
            << name << ' ' << resident;
  }
}

/// A host machine and a forward pass on it, with moments taken where the rows lie.
template <class T>
class host_pass : public forward_pass {
 public:
  host_pass(const decoder_description& d, const checkpoint& weights, index_t last_layer, thread_pool& pool)
      : machine_(pool), pass_(machine_, d, weights, last_layer, pool, small) {}
  void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) override {
    if (forbids_rows) {
      EXPECT_FALSE(sinks.rows || sinks.attended) << "whole layers leave the machine, but nothing needs that";
    }
    pass_.run(documents, stage, sinks);
  }
  void check_output() const override { pass_.check_output(); }
  bool takes_moments(moment_store& store) override {
    pass_.bring_moments(store, [this](const char* side, const tensor_view<const T>& x,
                                      const vector_view<const std::int32_t>& position) {
      return cpu_.moments(side, x, position, std::vector<std::int32_t>(static_cast<std::size_t>(x.rows), -1), 0,
                          scatter_kind::full);
    });
    return true;
  }
  using analyses_type = analyse_documents<cpu_context, T>;
  void analyse(analyses_type& found) { pass_.analyse(found); }

  bool forbids_rows = false;

 private:
  test::host_machine machine_;
  cpu_context cpu_{{.threads = 2}};
  device_forward_pass<test::host_machine, T> pass_;
};

class device_capture : public test::capture_test {
 protected:
  device_capture() {
    test::write_books(folder / "books.jsonl", 3);
    options.documents.jsonl = folder / "books.jsonl";
    options.plan.max_length = 150;
    options.plan.sampler = {.bucket_size = 32, .rate = 16};
    options.moments = options.loss = true;
    options.plan.head_list = {{1, 0}, {1, 5}, {3, 2}};
  }
  void of(const std::string& name, const forward_pass_factory& forward,
          const document_analyses_factory& analyses = {}) {
    options.out = folder / name;
    const auto moments = [&](const char* side, const tensor_view<const float>& x,
                             const vector_view<const std::int32_t>& position) {
      return cpu.moments(side, x, position, std::vector<std::int32_t>(static_cast<std::size_t>(x.rows), -1), 0,
                         scatter_kind::full);
    };
    run_capture(options, notes, {.moments = moments, .analyses = analyses, .forward = forward});
  }

  cpu_context cpu{{.threads = 2}};
};

TEST_F(device_capture, has_the_files_of_one_on_the_cpu) {
  of("cpu", {});
  of("device",
     [](const decoder_description& d, const checkpoint& weights, compute_type, index_t last, thread_pool& pool) {
       auto pass = std::make_unique<host_pass<float>>(d, weights, last, pool);
       pass->forbids_rows = true;
       return pass;
     });
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cpu")) {
    const auto name = entry.path().filename();
    if (name.extension() != ".safetensors") {
      EXPECT_EQ(test::get(folder / "cpu" / name), test::get(folder / "device" / name)) << name;
      continue;
    }
    const safetensors_file a((folder / "cpu" / name).string()), b((folder / "device" / name).string());
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    for (const auto& t : a.tensors()) {
      ++compared;
      const auto values = [&](const safetensors_file& file) {
        std::vector<float> v;
        const auto take = [&](const auto& all) { v.assign(all.begin(), all.end()); };
        if (t.dtype == "F32") take(file.values<float>(t.name));
        if (t.dtype == "F64") take(file.values<double>(t.name));
        if (t.dtype == "I32") take(file.values<std::int32_t>(t.name));
        if (t.dtype == "I64") take(file.values<std::int64_t>(t.name));
        return v;
      };
      const auto x = values(a), y = values(b);
      EXPECT_LE(distance(x, y), t.dtype[0] == 'I' ? 0 : 1e-4 * norm(x)) << name << ' ' << t.name;
    }
  }
  EXPECT_GT(compared, 30u);
}

// The same forward pass: its queries chunk by chunk and its keys where they lie, and whole layers handed out.
TEST_F(device_capture, analyses_where_rows_lie_are_those_of_rows_handed_out) {
  options.moments = options.loss = false;
  options.plan.compute = compute_type::bf16;
  options.plan.sampler = {.kind = sampler_kind::all, .bucket_size = 32};
  options.analyse = document_analysis_options{.covariances = {"joint"}, .heatmap = true};
  host_pass<bf16>::analyses_type* made = nullptr;
  const auto forward = [&](bool where_they_lie) {
    return [&, where_they_lie](const decoder_description& d, const checkpoint& weights, compute_type, index_t last,
                               thread_pool& pool) {
      auto pass = std::make_unique<host_pass<bf16>>(d, weights, last, pool);
      if (where_they_lie) pass->analyse(*made);
      pass->forbids_rows = where_they_lie;
      return pass;
    };
  };
  of("lie", forward(true), [&](const capture_manifest& plan, const document_analysis_options& choice) {
    auto analyses = std::make_unique<host_pass<bf16>::analyses_type>(cpu, plan, choice);
    made = analyses.get();
    return analyses;
  });
  of("handed out", forward(false), [&](const capture_manifest& plan, const document_analysis_options& choice) {
    return std::make_unique<analyse_documents<cpu_context>>(cpu, plan, choice);
  });
  std::size_t numbers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "lie")) {
    const auto name = entry.path().filename();
    if (name.extension() != ".csv") continue;
    const auto ours = read_csv(entry.path()), theirs = read_csv(folder / "handed out" / name);
    ASSERT_EQ(ours.columns(), theirs.columns());
    for (const std::string& column : ours.columns())
      for (std::size_t r = 0; r < ours.rows(); ++r) {
        const std::string &a = ours.column(column)[r], &b = theirs.column(column)[r];
        if (a == b) continue;
        const double x = std::stod(a), y = std::stod(b);
        EXPECT_NEAR(x, y, 1e-7 * std::fmax(1, std::abs(y))) << name << ' ' << column << ' ' << r;
        ++numbers;
      }
  }
  EXPECT_GT(numbers, 100u) << "chunks add up otherwise";
}

}  // namespace
}  // namespace qkgeom
