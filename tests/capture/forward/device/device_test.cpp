// SPDX-License-Identifier: MIT
// The forward pass of a device, its steps run by the host, against what transformers computes and against the CPU's.
#include "capture/forward/device/forward_pass.hpp"
#include "capture/job/stores/moment_store.hpp"

#include <mutex>

#include "capture/on_cpu.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/compared_passes.hpp"
#include "tests/capture/forward/device/host_device.hpp"
#include "tests/capture/forward/measured_softmax.hpp"

namespace qkgeom {
namespace {

/// Small chunks and blocks, so that a fixture has several of them.
constexpr decoder_options small_chunks{.chunk = 48, .attention_rows = 20, .attention_keys = 64, .resident = 0};
/// With the keys of a block of PyTorch's attention on the CPU, since weights are rounded relative to the largest score
/// so far.
constexpr decoder_options as_theirs{.chunk = 48, .attention_rows = 20, .attention_keys = 512, .resident = 0};

forward_pass_factory pass(const decoder_options& options = small_chunks) {
  return test::pass_on<test::host_device>(options);
}

TEST(device, f32_agrees_with_transformers) {
  for (const auto& f : forward_fixtures()) test::expect_f32_as_transformers(f, pass());
}

TEST(device, bf16_is_as_near_to_f32_as_transformers_is_and_has_its_bits_in_layer_0) {
  for (const auto& f : forward_fixtures()) test::expect_bf16_near_transformers(f, pass(as_theirs));
}

TEST(device, every_sink_of_several_documents_gets_what_the_cpu_gives) {
  for (const auto& name : test::varied_families)
    for (const rope_stage stage : {rope_stage::post, rope_stage::pre})
      test::expect_sinks_as_on_the_cpu(name, stage, pass({.chunk = 9, .attention_rows = 5, .attention_keys = 4}));
  for (const rope_stage stage : {rope_stage::post, rope_stage::pre})
    for (const char* name : {"deepseek-v3", "deepseek-v3.2", "glm-5", "gemma4-text", "llama4-text", "qwen3.5",
                             "qwen3.5-moe", "qwen3-next"})
      test::expect_sinks_as_on_the_cpu(name, stage, pass({.chunk = 9, .attention_rows = 5}), 100);
}

TEST(device, changes_heads_as_the_cpu_does) {
  for (const auto& name : test::varied_families)
    test::expect_changed_heads_as_on_the_cpu(name, pass({.chunk = 9, .attention_rows = 5, .attention_keys = 4}), 40);
  for (const char* name : {"deepseek-v3", "glm-5", "gemma4-text", "llama4-text"})
    test::expect_changed_heads_as_on_the_cpu(name, pass({.chunk = 9, .attention_rows = 5}), 80);
}

TEST(device, measures_a_plain_softmax) {
  for (const auto& name : test::varied_families)
    test::expect_plain_softmax(name, pass({.chunk = 21, .attention_rows = 5, .attention_keys = 8}));
  for (const char* name : {"gpt-oss", "deepseek-v3"})
    test::expect_plain_softmax(name, pass({.chunk = 21, .attention_rows = 5, .attention_keys = 8}), 60);
}

TEST(device, results_do_not_depend_on_which_layers_stay_or_on_what_ran_before) {
  const auto keeps = [](index_t bytes) { return pass({.chunk = 16, .resident = bytes}); };
  for (const char* name : {"llama-dynamic", "qwen3-moe"})
    test::expect_same_bits(name, keeps(0), {keeps(60000), keeps(index_t{1} << 40)});
}

/// Memory of the host that holds NaN until it is set.
struct unset_memory : cpu_memory {
  void* allocate(std::size_t bytes) const { return std::memset(cpu_memory::allocate(bytes), 0xff, bytes); }
};

/// A device whose attention is a fused kernel as cuDNN's are: of the keys that are seen, up to the last query's.
class tile_device : public test::host_device_with<unset_memory> {
 public:
  using host_device_with::host_device_with;

  template <class T>
  bool attend(const attention_call<T>& c) {
    if (c.cap != 0 || c.sinks) return false;  // nor does cuDNN take it
    const attended_keys keys(c);
    const index_t group = c.heads / c.key_heads;
    for (index_t h = 0; h < c.heads; ++h)
      for (index_t r = 0; r < c.rows; ++r) {
        const auto at = static_cast<std::size_t>((r * c.heads + h) * c.dim);
        const auto key = [&](const T* side, index_t i) {
          return side + ((h / group) * c.capacity + keys.begin + i) * c.dim;
        };
        std::vector<double> weight(keys.count);
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        const index_t last = keys.count - c.rows + r, first = std::max<index_t>(0, last - keys.window + 1);
        for (index_t i = first; i <= last; ++i) {
          double score = 0;
          for (index_t j = 0; j < c.dim; ++j)
            score += static_cast<double>(c.q[at + static_cast<std::size_t>(j)]) * static_cast<double>(key(c.k, i)[j]);
          top = std::max(top, weight[i] = c.scale * score);
        }
        for (index_t i = first; i <= last; ++i) {
          auto& w = weight[i];
          sum += w = std::exp(w - top);
        }
        for (index_t j = 0; j < c.dim; ++j) {
          double x = 0;  // keys that are not seen count 0 times their value
          for (index_t i = 0; i < keys.count; ++i) x += weight[i] / sum * static_cast<double>(key(c.v, i)[j]);
          c.out[at + static_cast<std::size_t>(j)] = device_kernels::to_element<T>(static_cast<float>(x));
        }
      }
    return true;
  }
};

TEST(device, fused_attention_gives_what_the_cpu_gives) {
  for (const auto& name : test::varied_families)
    for (const index_t chunk : {9, 4096})
      test::expect_sinks_as_on_the_cpu(name, rope_stage::post, test::pass_on<tile_device>({.chunk = chunk}), 21);
}

/// Memory of the host that counts what is held of it.
class counted_memory : public cpu_memory {
 public:
  void* allocate(std::size_t bytes) const {
    void* const p = cpu_memory::allocate(bytes);
    const std::lock_guard lock(mutex_);
    held_ += size_[p] = bytes;
    most_ = std::max(most_, held_);
    return p;
  }
  void release(void* p) const {
    const std::lock_guard lock(mutex_);
    held_ -= size_.extract(p).mapped();
    cpu_memory::release(p);
  }
  std::size_t most() const { return most_; }

 private:
  mutable std::mutex mutex_;
  mutable std::map<void*, std::size_t> size_;
  mutable std::size_t held_ = 0, most_ = 0;
};

// `--resident auto` plans with these.
TEST(device, holds_as_many_bytes_as_it_says) {
  using device_type = test::host_device_with<counted_memory>;
  const auto check = [](const std::string& name, const decoder_options& options) {
    const forward_fixture f = family_fixture(name);
    const auto ids = f.ids();
    const checkpoint model(f.folder);
    thread_pool pool(2);
    device_type device(pool);
    const auto d = f.description();
    using decoder_type = decoder<device_type, bf16>;
    decoder_type made(device, d, model, d.n_layers() - 1, pool, options);
    device_sinks<bf16, memory_space::host> sinks;
    sinks.losses = [](std::size_t, const token_predictions&) {};
    made.run(std::vector<token_span>{ids}, rope_stage::post, sinks);
    const auto stated = static_cast<double>(decoder_type::working_bytes(d, static_cast<index_t>(ids.size()), options));
    const auto held = static_cast<double>(device.memory().most());
    EXPECT_LE(held, stated) << name;
    EXPECT_GE(held, 0.8 * stated) << name;
    index_t weights = 0;
    for (index_t l = 0; l < d.n_layers(); ++l) weights += decoder_type::layer_bytes(d, l);
    if (options.resident > 0) {
      EXPECT_EQ(device.weight_memory().most(), static_cast<std::size_t>(weights)) << name;
    } else {
      EXPECT_LT(device.weight_memory().most(), static_cast<std::size_t>(weights)) << name;
    }
  };
  auto names = test::varied_families;
  names.push_back("glm-5");
  for (const auto& name : names)
    for (const index_t resident : {index_t{0}, index_t{1} << 40})
      check(name, {.chunk = 32, .attention_rows = 16, .attention_keys = 24, .resident = resident});
}

TEST(device, softmax_holds_as_many_bytes_as_it_says) {
  thread_pool pool(1);
  test::host_device_with<counted_memory> device(pool);
  const test::noisy_document d;
  softmax_request what{.heads = {0, 1, 2, 4, 5}, .bins = distance_bins(d.tokens), .sinks = {1, 2, 3, 4, 5}};
  for (std::int32_t t = 0; t < d.tokens; ++t) what.positions.push_back(t);
  test::measured_in_chunks<float>(device, d, what, d.tokens);
  const auto stated = sampled_softmax<test::host_device, float>::working_bytes(5, d.dim, d.tokens, what.bins, 1);
  const auto held = static_cast<index_t>(device.memory().most());
  EXPECT_LE(held, stated);
  EXPECT_GE(held, stated * 4 / 5);
}

/// C = op(A) B + (adds) C as BLAS defines it, column-major.
void multiply_as_blas(const column_major_product& p, index_t batch, bool adds, const float* a, const float* b,
                      float* c) {
  using stride = Eigen::OuterStride<>;
  using matrix = Eigen::Map<const Eigen::MatrixXf, 0, stride>;
  for (index_t i = 0; i < batch; ++i) {
    const matrix plain(a + i * p.stride_a, p.m, p.k, stride(p.lda)), across(plain.data(), p.k, p.m, stride(p.lda)),
        right(b + i * p.stride_b, p.k, p.n, stride(p.ldb));
    Eigen::Map<Eigen::MatrixXf, 0, stride> to(c + i * p.stride_c, p.m, p.n, stride(p.ldc));
    if (!adds) to.setZero();
    to += p.transposes_a ? Eigen::MatrixXf(across.transpose() * right) : Eigen::MatrixXf(plain * right);
  }
}

TEST(device, products_for_blas_are_the_transposed_ones) {
  thread_pool pool(1);
  test::host_device device(pool);
  const random_stream draws{.seed = 9};
  std::vector<float> a(400), b(400), start(600);
  for (std::size_t i = 0; i < 600; ++i) start[i] = static_cast<float>(draws.uniform(i) - 0.5);
  for (std::size_t i = 0; i < 400; ++i) a[i] = start[i] * 3, b[i] = start[599 - i];
  // Rows of several heads interleaved, one matrix for all of a batch, padding between rows.
  for (const bool plain : {false, true})
    for (const bool adds : {false, true})
      for (const product_shape& shape : {product_shape{3, 5, 4, {8, 4}, {plain ? 7 : 6, 40}, {9, 40}, 2, plain, adds},
                                         product_shape{5, 2, 7, {7, 0}, {plain ? 2 : 7, 0}, {2, 10}, 3, plain, adds},
                                         product_shape{4, 4, 4, {4, 16}, {4, 16}, {4, 16}, 4, plain, adds}}) {
        auto ours = start, theirs = start;
        device.multiply(shape, a.data(), b.data(), ours.data());
        multiply_as_blas(column_major_product(shape), shape.batch, adds, b.data(), a.data(), theirs.data());
        EXPECT_LE(distance(ours, theirs), 1e-5 * norm(theirs)) << plain << adds << shape.rows;
        EXPECT_GT(distance(ours, start), 0.1);
      }
}

/// A pass that takes moments where the rows lie, so that no rows leave it.
class capturing_pass : public test::host_pass<test::host_device, float> {
 public:
  capturing_pass(const decoder_description& d, const checkpoint& weights, index_t last_layer, thread_pool& pool)
      : host_pass(test::host_device(pool), d, weights, last_layer, pool, small_chunks) {}
  void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) override {
    EXPECT_FALSE(sinks.rows) << "whole layers leave the device, but nothing needs that";
    host_pass::run(documents, stage, sinks);
  }
  bool takes_moments(moment_store& store) override {
    bring_moments(store, cpu_backend(cpu_).moments);
    return true;
  }

 private:
  cpu_context cpu_{{.threads = 2}};
};

class device_capture : public test::capture_test {
 protected:
  device_capture() {
    test::write_books(folder / "books.jsonl", 3);
    options.inputs.jsonl = folder / "books.jsonl";
    options.selection.max_length = 150;
    options.selection.sampler = {.bucket_size = 32, .rate = 16};
    options.statistics.moments = options.statistics.softmax = options.statistics.loss = true;
    options.selection.head_list = {{1, 0}, {1, 5}, {3, 2}};
  }
};

TEST_F(device_capture, has_the_files_of_one_on_the_cpu) {
  captured("cpu");
  auto on_device = backend;
  on_device.forward = [](const decoder_description& d, const checkpoint& weights, compute_type, index_t last,
                         thread_pool& pool) { return std::make_unique<capturing_pass>(d, weights, last, pool); };
  options.run.out = folder / "device";
  run(on_device);
  std::size_t compared = 0;
  const auto without_hashes = [](const std::filesystem::path& manifest) {
    auto m = read_json(manifest);
    for (auto& shard : m["shards"]) shard.erase("sha256");  // the last bits of rows and moments differ
    m.erase("moments_sha256");
    return m;
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cpu")) {
    const auto name = entry.path().filename();
    if (name.extension() != ".safetensors") {
      EXPECT_EQ(without_hashes(folder / "cpu" / name), without_hashes(folder / "device" / name)) << name;
      continue;
    }
    const safetensors_file a((folder / "cpu" / name).string()), b((folder / "device" / name).string());
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    for (const auto& t : a.tensors()) {
      ++compared;
      const auto values = [&](const safetensors_file& file) {
        return t.dtype == "F32"   ? widened<float>(file, t.name)
               : t.dtype == "F64" ? widened<double>(file, t.name)
               : t.dtype == "I32" ? widened<std::int32_t>(file, t.name)
                                  : widened<std::int64_t>(file, t.name);
      };
      const auto x = values(a), y = values(b);
      EXPECT_LE(distance(x, y), t.dtype[0] == 'I' ? 0 : 1e-4 * norm(x)) << name << ' ' << t.name;
    }
  }
  EXPECT_GT(compared, 30u);
}

}  // namespace
}  // namespace qkgeom
