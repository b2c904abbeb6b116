// SPDX-License-Identifier: MIT
// Captures that are made in parts, and by several processes: what they hold together is what one process makes.
#include <barrier>
#include <mutex>
#include <thread>

#include "capture/job/cut.hpp"
#include "capture/job/process_group.hpp"
#include "capture/on_cpu.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_merge.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "tests/capture/capture_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// Threads in place of processes: one `process_group` for each.
class threads_as_processes {
 public:
  explicit threads_as_processes(int size) : size_(size), texts_(size), barrier_(size), sent_(size) {}

  /// What one process sent: texts by `gather`, and reports of progress.
  struct messages {
    index_t texts = 0, progress = 0;
  };

  class member final : public process_group {
   public:
    member(threads_as_processes& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    using process_group::wait;
    void wait(const std::function<void(index_t)>&) override { all_.barrier_.arrive_and_wait(); }
    index_t passed(index_t units) override {
      const std::lock_guard lock(all_.mutex_);
      ++all_.sent_[rank_].progress;
      return units;
    }
    std::vector<std::string> gather(const std::string& text) override {
      ++all_.sent_[rank_].texts;
      all_.texts_[rank_] = text;
      all_.barrier_.arrive_and_wait();
      auto texts = all_.texts_;
      all_.barrier_.arrive_and_wait();
      return texts;
    }

   protected:
    index_t next() override {
      const std::lock_guard lock(all_.mutex_);
      all_.taken_by_.push_back(rank_);
      return all_.next_++;
    }

   private:
    threads_as_processes& all_;
    int rank_;
  };

  /// Calls f(group) on each thread. Returns what they threw.
  std::vector<std::string> run(const std::function<void(process_group&)>& f) {
    std::vector<std::string> errors(size_);
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r)
      threads.emplace_back([&, r] {
        member group(*this, r);
        try {
          f(group);
        } catch (const std::exception& e) {
          errors[r] = e.what();
        }
      });
    for (auto& t : threads) t.join();
    return errors;
  }
  const std::vector<int>& taken_by() const { return taken_by_; }
  const std::vector<messages>& sent() const { return sent_; }

 private:
  int size_;
  std::vector<std::string> texts_;
  std::barrier<> barrier_;
  std::mutex mutex_{};
  index_t next_ = 0;
  std::vector<int> taken_by_{};
  std::vector<messages> sent_;
};

const auto no_show = [](index_t) {};

TEST(process_group, deals_each_number_once_and_again_in_a_second_deal) {
  for (const int n : {1, 2, 3, 7}) {
    threads_as_processes processes(n);
    std::mutex mutex;
    std::vector<std::vector<index_t>> dealt(3);
    const auto errors = processes.run([&](process_group& group) {
      for (std::size_t d = 0; d < dealt.size(); ++d) {
        index_t last = -1;
        group.deal(
            static_cast<index_t>(4 * d),
            [&](index_t i) {
              EXPECT_GT(i, last);
              last = i;
              const std::lock_guard lock(mutex);
              dealt[d].push_back(i);
            },
            no_show);
      }
    });
    EXPECT_THAT(errors, Each(""));
    for (std::size_t d = 0; d < dealt.size(); ++d) {
      std::vector<index_t> all(4 * d);
      std::iota(all.begin(), all.end(), index_t{0});
      std::sort(dealt[d].begin(), dealt[d].end());
      EXPECT_EQ(dealt[d], all);
    }
  }
}

TEST(process_group, what_one_throws_at_the_beginning_all_throw) {
  threads_as_processes processes(3);
  const auto of_one =
      processes.run([](process_group& group) { group.begin([&] { require(group.rank() != 1, "no disk"); }); });
  EXPECT_THAT(of_one, Each("rank 1: no disk"));
  EXPECT_THAT(processes.run([](process_group& group) { group.begin([] { fail("no capture"); }); }), Each("no capture"));
  EXPECT_THAT(processes.run([](process_group& group) { group.agree(group.rank() == 2 ? "b" : "a", "model"); }),
              Each("rank 2 has another model than rank 0"));
}

TEST(process_group, alone_it_passes_everything_through) {
  process_group alone;
  EXPECT_QKGEOM_ERROR("as it is", alone.begin([] { fail("as it is"); }));
  EXPECT_THAT(alone.gather("a"), ElementsAre("a"));
  EXPECT_EQ(alone.passed(3), 3);
  std::vector<index_t> dealt;
  for (int i = 0; i < 2; ++i)
    alone.deal(
        2, [&](index_t k) { dealt.push_back(k); }, no_show);
  EXPECT_THAT(dealt, ElementsAre(0, 1, 0, 1));
}

TEST(tasks, of_parts_are_all_tasks_once_with_like_numbers_of_tokens) {
  const std::vector<index_t> tokens{5, 1, 1, 1, 8, 0, 0, 2, 2, 4};
  for (index_t of = 1; of <= 10; ++of) {
    std::size_t next = 0;
    for (index_t part = 1; part <= of; ++part) {
      const auto [first, end] = tasks_of_part(tokens, part, of);
      EXPECT_EQ(first, next);
      EXPECT_LT(first, end) << part << " of " << of;
      next = end;
    }
    EXPECT_EQ(next, tokens.size());
  }
  EXPECT_EQ(tasks_of_part(tokens, 1, 3), std::pair(std::size_t{0}, std::size_t{4}));   // 8 tokens
  EXPECT_EQ(tasks_of_part(tokens, 2, 3), std::pair(std::size_t{4}, std::size_t{7}));   // 8
  EXPECT_EQ(tasks_of_part(tokens, 3, 3), std::pair(std::size_t{7}, std::size_t{10}));  // 8
  EXPECT_QKGEOM_ERROR("10 pieces that can be captured apart, fewer than 11 parts", tasks_of_part(tokens, 1, 11));
}

/// Seven documents of 200 tokens at most, in a block of moments each.
class part : public test::capture_test {
 protected:
  part() {
    test::write_books(folder / "d.jsonl", 6);
    write("d.jsonl", test::get(folder / "d.jsonl") + "\n{\"text\": \"\"}\n{\"text\": \"In the beginning\"}\n");
    options.inputs.jsonl = folder / "d.jsonl";
    options.selection.max_length = 200;
    options.selection.head_list = {{0, 1}, {0, 2}, {1, 4}};
    options.selection.sampler = {sampler_kind::uniform, 50, 10};
    options.statistics.moments = options.statistics.softmax = true;
    options.run.threads = 1;
  }
  capture_summary run_to(const std::string& out, const capture_part& of = {}, process_group* group = nullptr) {
    capture_options own = options;
    own.run.out = folder / out;
    own.run.part = of;
    cpu_context mine{{.threads = 1}};
    std::ostringstream unread;
    process_group alone;
    return run_capture(own, unread, cpu_backend(mine), group ? *group : alone);
  }
  std::vector<fs::path> paths(const std::vector<std::string>& names) const {
    std::vector<fs::path> all;
    for (const auto& n : names) all.push_back(folder / n);
    return all;
  }
  std::string unmerged(const std::vector<std::string>& names, const std::string& out = "refused") const {
    const std::string why = test::message_of([&] { merge_parts(paths(names), folder / out); });
    EXPECT_TRUE(out != "refused" || !fs::exists(folder / out)) << why;
    return why;
  }
};

TEST_F(part, all_parts_together_are_the_bytes_of_one_capture) {
  run_to("whole");
  const auto whole = test::contents_of(folder / "whole");
  for (index_t k = 1; k <= 3; ++k) EXPECT_GT(run_to("part-" + std::to_string(k), {k, 3}).documents, 0);
  const auto made = merge_parts(paths({"part-2", "part-3", "part-1"}), folder / "merged");
  EXPECT_EQ(test::contents_of(folder / "merged"), whole);
  EXPECT_EQ(made.documents, 8);
  EXPECT_EQ(made.linked + made.copied, static_cast<index_t>(whole.size()) - 1);
  EXPECT_EQ(check_capture(capture::open(folder / "part-2")).moments, 2);

  // The parts themselves are read as the whole is: numbers of documents, rows and each block of moments.
  const auto set = capture_set::open(paths({"part-3", "part-1", "part-2"}));
  const auto one = capture_set::open({folder / "whole"});
  EXPECT_EQ(set.listed_documents(), one.listed_documents());
  EXPECT_EQ(set.documents(), one.documents());
  const auto of_set = set_moments::open(set), of_one = set_moments::open(one);
  ASSERT_TRUE(of_set && of_one);
  test::expect_same_rows(set, one);
  for (const index_t layer : one.layers()) {
    const auto x = of_set->read(layer), y = of_one->read(layer);
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i].k_differences, y[i].k_differences);
  }
  const auto last = capture_set::open({folder / "part-3"});
  EXPECT_EQ(last.listed_documents().front().index, 0);
  fs::copy(folder / "part-2", folder / "copy", fs::copy_options::recursive);
  EXPECT_QKGEOM_ERROR("hold the same documents of one capture", capture_set::open(paths({"part-2", "copy"})));
}

TEST_F(part, what_does_not_belong_together_is_refused_with_a_sentence) {
  run_to("whole");
  run_to("a", {1, 2});
  run_to("b", {2, 2});
  EXPECT_THAT(unmerged({"a"}), HasSubstr("part 2 of 2 is missing"));
  EXPECT_THAT(unmerged({"b"}), HasSubstr("part 1 of 2 is missing"));
  EXPECT_THAT(unmerged({"a", "whole"}), HasSubstr("whole is a whole capture and no part of one"));
  EXPECT_THAT(unmerged({"a", "b"}, "whole"), HasSubstr("holds files already"));
  fs::copy(folder / "a", folder / "a2", fs::copy_options::recursive);
  EXPECT_THAT(unmerged({"a", "b", "a2"}), HasSubstr("are both part 1 of 2"));
  const auto shard = folder / "a2" / "shard-00000.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_THAT(unmerged({"a2", "b"}), HasSubstr("shard-00000.safetensors"));
  fs::copy(folder / "b", folder / "b2", fs::copy_options::recursive);
  auto lacking = read_json(folder / "b2" / "manifest.json");
  lacking["shards"].erase(lacking["shards"].size() - 1);
  test::put(folder / "b2" / "manifest.json", lacking.dump());
  EXPECT_THAT(unmerged({"a", "b2"}), HasSubstr("its shards do not hold the documents that its manifest lists"));
  const auto other = [&](const std::string& why, auto&& change) {
    const capture_options before = options;
    change();
    fs::remove_all(folder / "c");
    run_to("c", {2, 2});
    EXPECT_THAT(unmerged({"a", "c"}), HasSubstr("c: its " + why + " not that of "));
    options = before;
  };
  other("seed is", [&] { options.selection.seed = 1; });
  other("draw of tokens is", [&] { options.selection.sampler.rate = 5; });
  other("choice of layers and heads is", [&] { options.selection.head_list.pop_back(); });
  other("list of documents or tokenizer is", [&] { options.inputs.count = 7; });
  other("model is", [&] { options.model.name = "other"; });
  other("softmax is", [&] { options.statistics.softmax = false; });
  other("softmax is", [&] { options.statistics.softmax_queries = 5; });
  // A part is resumed as itself alone.
  options.run.resume = true;
  EXPECT_TRUE(run_to("b", {2, 2}).was_complete);
  EXPECT_QKGEOM_ERROR("holds a capture of other documents", run_to("b", {1, 2}));
  EXPECT_QKGEOM_ERROR("fewer than 9 parts", run_to("x", {1, 9}));
}

TEST_F(part, any_number_of_processes_writes_the_bytes_of_one_and_sends_no_more_per_document) {
  const auto one = run_to("whole");
  const index_t layers = capture::open(folder / "whole").manifest().layers.back().layer + 1;
  for (const int n : {2, 3, 7}) {
    threads_as_processes processes(n);
    std::vector<capture_summary> summaries(n);
    const std::string out = "by-" + std::to_string(n);
    const auto errors = processes.run([&](process_group& group) { summaries[group.rank()] = run_to(out, {}, &group); });
    EXPECT_THAT(errors, Each(""));
    EXPECT_EQ(test::contents_of(folder / out), test::contents_of(folder / "whole"));
    EXPECT_EQ(summaries[0].tokens, one.tokens);
    EXPECT_EQ(summaries[0].documents, one.documents);
    EXPECT_EQ(processes.taken_by().size(), 7u + n) << "each task once, and one too many on each process";
    index_t progress = 0;
    for (const auto& sent : processes.sent()) {
      progress += sent.progress;
      EXPECT_EQ(sent.texts, 4) << "three agreements before, and what was written";
    }
    EXPECT_EQ(progress, (one.documents - 1) * layers) << "once per document and layer; one document is empty";
  }
}

}  // namespace
}  // namespace qkgeom
