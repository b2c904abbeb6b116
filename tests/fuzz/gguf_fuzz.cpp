// SPDX-License-Identifier: MIT
#include "capture/gguf/gguf_model.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/text/tokenizer.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qkgeom;
  const fuzz::input_file file(data, size);
  return fuzz::refuse_or_read([&] {
    const gguf_model model(file.path());
    const checkpoint weights(file.path());
    for (const auto& t : model.tensors()) {
      if (t.tensor.shape.size() > 2) continue;
      const index_t width = t.tensor.shape.size() > 1 ? t.tensor.shape[1] : 1;
      std::vector<float> row(static_cast<std::size_t>(width));
      weights.read(t.name, t.tensor.shape, t.tensor.shape[0] - 1, 1, false, row.data());
    }
    tokenizer(model.tokenizer(), nlohmann::json()).encode("some text 12", 20);
  });
}
