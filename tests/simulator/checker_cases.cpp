// The checker without Python, as a front end of any kind drives it: raw addresses, accesses of any width, stamps near
// their end, many blocks. tests/simulator/test_checker_core.py builds and runs it. Prints the case that fails.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../../trifold/engine/core/checker.h"

namespace {

using namespace trifold::engine;

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("not so: %s\n", what);
}

// A launch that this file schedules by hand.
struct Trial {
  Launch launch;
  std::unique_ptr<Checker> checker;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::unique_ptr<Cluster>> clusters;  // of a block each
  alignas(64) char bytes[256] = {};
  Buffer memory{Space::global, reinterpret_cast<uintptr_t>(bytes), sizeof bytes, 8, true};

  Trial(uint32_t grid, uint32_t block) {
    launch.grid = {grid, 1, 1};
    launch.block = {block, 1, 1};
    launch.checks = check_all;
    checker = std::make_unique<Checker>(launch);
    for (uint32_t id = 0; id < grid; ++id) begin(*blocks.emplace_back(std::make_unique<Block>()), id);
  }

  void begin(Block& block, uint32_t id) {
    const auto threads = static_cast<uint32_t>(launch.block.size());
    block.id = id;
    block.index = {id, 0, 0};
    block.live = threads;
    block.cluster = clusters.emplace_back(std::make_unique<Cluster>()).get();
    block.cluster->blocks = {&block};
    block.launch = &launch;
    block.threads.resize(threads);
    block.warps.resize((threads + warp_size - 1) / warp_size);
    for (uint32_t index = 0; index < threads; ++index) {
      Warp& warp = block.warps[index / warp_size];
      Thread& thread = block.threads[index];
      thread.id = id * threads + index;
      thread.index = index;
      thread.lane = static_cast<uint8_t>(index % warp_size);
      thread.warp = &warp;
      thread.block = &block;
      warp.block = &block;
      if (thread.lane == 0) warp.lanes = &thread;
      warp.exists |= uint32_t{1} << thread.lane;
      warp.live = warp.exists;
    }
    checker->begin_block(block);
  }

  Thread& thread(uint32_t block, uint32_t index) { return blocks[block]->threads[index]; }
  uintptr_t at(size_t offset) const { return reinterpret_cast<uintptr_t>(bytes) + offset; }
  bool read(Thread& who, size_t offset, size_t n) { return checker->read(memory, at(offset), n, who, 1); }
  bool write(Thread& who, size_t offset, size_t n) { return checker->write(memory, at(offset), n, who, 2); }
  bool add(Thread& who, size_t offset, size_t n) {
    const AtomicAccess access{.site = 3};
    if (!checker->decide_reads(who, at(offset), n)) return false;
    if (!checker->check_atomic(memory, at(offset), n, who, access)) return false;
    bytes[offset] += 1;
    checker->note_atomic(memory, at(offset), n, who, access, true);
    return true;
  }
  // Of the byte that the n bytes begin with; the others are 0.
  bool compare_and_swap(Thread& who, size_t offset, size_t n, char expected, char value) {
    const AtomicAccess access{.site = 4, .compares = true};
    if (!checker->decide_reads(who, at(offset), n, static_cast<uint64_t>(expected))) return false;
    if (!checker->check_atomic(memory, at(offset), n, who, access)) return false;
    const bool equal = bytes[offset] == expected;
    if (equal) bytes[offset] = value;
    checker->note_atomic(memory, at(offset), n, who, access, equal);
    return true;
  }
  // A write of these bytes, decided after it has happened.
  WrittenBits put(Thread& who, size_t offset, std::string_view text) {
    if (checker->write(memory, at(offset), text.size(), who, 2)) {
      text.copy(bytes + offset, text.size());
      return WrittenBits::same_again;
    }
    if (!checker->violation.among_writes) return WrittenBits::other;
    const std::string before(bytes + offset, text.size());
    text.copy(bytes + offset, text.size());
    return checker->compare_write(memory, at(offset), text.size(), before.data(), who, 2);
  }
};

void accesses_of_any_width() {
  Trial trial(1, 4);
  expect(trial.write(trial.thread(0, 0), 0, 8), "a word is written");
  expect(trial.write(trial.thread(0, 1), 8, 3), "three bytes of the next word");
  expect(trial.write(trial.thread(0, 2), 11, 5), "the five bytes after them");
  expect(!trial.read(trial.thread(0, 3), 7, 1), "the first word's last byte is another thread's");
  expect(trial.checker->violation.address == trial.at(7), "the byte is named");
  expect(trial.checker->violation.other_thread == 0, "its writer is named");
  expect(trial.checker->violation.other_site == 2, "its writer's line is named");
  expect(!trial.write(trial.thread(0, 1), 10, 2), "a write over both threads' bytes");
  expect(trial.checker->violation.address == trial.at(11), "the byte that is not its own");
  expect(trial.read(trial.thread(0, 0), 16, 64), "64 bytes at once");
}

void stamps_start_again() {
  Trial trial(2, 2);
  Block& block = *trial.blocks[0];
  expect(trial.write(trial.thread(0, 0), 0, 4), "before");
  trial.launch.now = std::numeric_limits<Stamp>::max();
  trial.checker->block_barrier(block);
  expect(trial.launch.now < 100, "stamps count from the start");
  expect(trial.read(trial.thread(1, 0), 0, 4), "what was before is forgotten, not reported");
  expect(trial.write(trial.thread(0, 0), 4, 4), "after");
  expect(!trial.read(trial.thread(0, 1), 4, 4), "what comes after is checked");
  trial.checker->block_barrier(block);
  expect(trial.read(trial.thread(0, 1), 4, 4), "and ordered");
}

void memory_keeps_that_it_was_written_when_stamps_start_again() {
  Trial trial(1, 1);
  Buffer fresh(Space::shared, trial.at(0), 16, 4, false);
  expect(trial.checker->write(fresh, trial.at(0), 4, trial.thread(0, 0), 1), "written");
  trial.launch.now = std::numeric_limits<Stamp>::max();
  trial.checker->fence(trial.thread(0, 0), Scope::device);
  expect(trial.checker->read(fresh, trial.at(0), 4, trial.thread(0, 0), 1), "still written");
  expect(!trial.checker->read(fresh, trial.at(4), 4, trial.thread(0, 0), 1), "still not written");
}

void writes_of_the_same_bits() {
  constexpr WrittenBits other = WrittenBits::other, same = WrittenBits::same, again = WrittenBits::same_again;
  Trial trial(2, 64);
  Thread &a = trial.thread(0, 0), &b = trial.thread(0, 1), &c = trial.thread(0, 32), &far = trial.thread(1, 0);
  expect(trial.put(a, 0, "12345678") == again, "one writes alone");
  expect(trial.put(b, 2, "34") == same, "a part of it, by a narrower write");
  expect(trial.checker->violation.other_thread == a.id, "the other thread of the race is known");
  expect(trial.put(b, 4, "56") == again, "the same two lines");
  expect(trial.put(c, 6, "7x") == other, "one byte of two is another one");
  expect(trial.checker->violation.address == trial.at(6), "the cell with that byte is named");
  expect(trial.put(a, 16, "ab") == again && trial.put(far, 14, "yzab") == again, "beside it anything is right");

  expect(trial.put(a, 32, "1") == again && trial.put(far, 32, "1") == again && trial.put(b, 32, "1") == again, "all");
  trial.checker->block_barrier(*trial.blocks[0]);
  expect(trial.put(c, 32, "2") == other, "the barrier orders two of the three writes, not the other block's");
  expect(!trial.read(c, 32, 1), "and so for a read");

  expect(trial.put(a, 48, "1") == again && trial.read(b, 56, 1), "before a read");
  expect(trial.put(c, 56, "0") == other && !trial.checker->violation.among_writes, "a read is not excused by the bits");
  expect(trial.add(a, 64, 4) && trial.put(b, 64, "\1") == other, "nor is an atomic");
  trial.checker->block_barrier(*trial.blocks[0]);
  expect(trial.put(b, 48, "2") == again, "what is ordered is compared with nothing");
}

void reads_for_a_compare_and_swap() {
  Trial trial(1, 64);
  Checker& checker = *trial.checker;
  Thread &a = trial.thread(0, 0), &b = trial.thread(0, 1), &c = trial.thread(0, 32);
  const auto guess = [&](Thread& who, size_t n) { return trial.read(who, 0, n); };
  for (const size_t n : {2, 4, 8}) {
    expect(guess(a, n) && trial.compare_and_swap(a, 0, n, trial.bytes[0], 7), "the first reads before all atomics");
    expect(guess(b, n) && b.undecided == undecided_reads, "another one reads after it");
    expect(trial.compare_and_swap(b, 0, n, 7, 9) && b.undecided == 0, "and compares what it read");
    expect(checker.decide_reads(b), "nothing is left");
    expect(guess(c, n) && trial.compare_and_swap(a, 0, n, 9, 11), "an atomic comes between");
    expect(trial.compare_and_swap(c, 0, n, 9, 1) && trial.bytes[0] == 11, "what was read is compared all the same");
    expect(trial.compare_and_swap(c, 0, n, 11, 1), "the loop goes on");
    checker.block_barrier(*trial.blocks[0]);
  }

  const auto behind_an_atomic = [&](const char* what, auto&& step) {
    expect(trial.add(a, 0, 4) && guess(b, 4), what);
    expect(!step(), what);
    const Violation& found = checker.violation;
    expect(found.kind == Kind::race && found.type == AccessType::read && found.other_type == AccessType::atomic, what);
    expect(found.past && found.past->site == 1 && found.other_thread == a.id && b.undecided == 0, what);
    checker.block_barrier(*trial.blocks[0]);
  };
  behind_an_atomic("the thread ends", [&] { return checker.decide_reads(b); });
  behind_an_atomic("it reads again", [&] { return checker.decide_reads(b, trial.at(0), 4); });
  behind_an_atomic("it adds", [&] { return trial.add(b, 0, 4); });
  behind_an_atomic("it compares something else", [&] { return trial.compare_and_swap(b, 0, 4, 99, 1); });
  behind_an_atomic("it compares a part", [&] { return trial.compare_and_swap(b, 0, 2, trial.bytes[0], 1); });
  expect(trial.add(a, 0, 4) && guess(b, 4) && checker.decide_reads(b, trial.at(8), 8), "elsewhere it may do anything");
  expect(!checker.decide_reads(b), "and yet it has to compare");
  checker.block_barrier(*trial.blocks[0]);

  expect(guess(b, 4) && trial.add(a, 0, 4), "an atomic after the read");
  expect(b.undecided == undecided_reads && !checker.decide_reads(b), "waits for the reader, too");
  expect(checker.violation.past && checker.violation.other_site == 3, "and is what the read races with");
  checker.block_barrier(*trial.blocks[0]);
  expect(guess(b, 4), "a reader that has ended");
  b.warp->live &= ~2u;
  expect(!trial.add(a, 0, 4) && !checker.violation.past, "will compare nothing");
  expect(trial.add(c, 96, 1) && !trial.read(a, 96, 1), "nor does one of a width that no compare-and-swap has");
  expect(trial.add(c, 100, 4) && trial.write(c, 100, 4) && !trial.read(a, 100, 4), "a plain write is no atomic");
}

// As a front end asks again, after a refusal, whether the launch goes on.
void what_a_judge_lets_go_on() {
  struct : Judge {
    bool goes_on(const Violation& violation) override {
      met.push_back(violation.address);
      return violation.address != refused;
    }
    std::vector<uintptr_t> met;
    uintptr_t refused = 0;
  } judge;
  Trial trial(1, 64);
  Checker& checker = *trial.checker;
  Thread &a = trial.thread(0, 0), &b = trial.thread(0, 1), &c = trial.thread(0, 32);
  const auto judged = [&](auto&& access) {
    judge.met.clear();
    checker.judge = &judge;
    const auto result = access();
    checker.judge = nullptr;
    return result;
  };
  const auto compare_again = [&](Thread& who, size_t offset, std::string_view before) {
    return judged(
        [&] { return checker.compare_write(trial.memory, trial.at(offset), before.size(), before.data(), who, 2); });
  };
  using Addresses = std::vector<uintptr_t>;
  constexpr WrittenBits other = WrittenBits::other, same = WrittenBits::same, again = WrittenBits::same_again;
  expect(trial.put(a, 0, "1") == again && trial.put(a, 1, "2") == again && trial.put(a, 2, "3") == again,
         "a byte each");
  expect(trial.put(b, 0, "1yz") == other, "two of them get other bits");
  judge.refused = trial.at(2);
  expect(compare_again(b, 0, "123") == other, "that one of them is accepted excuses no other one");
  expect(judge.met == Addresses{trial.at(1), trial.at(2)}, "bytes that stay the same are no mistake");
  judge.refused = 0;
  expect(compare_again(b, 0, "123") == WrittenBits::tolerated, "both are accepted");
  expect(trial.put(b, 0, "1yz") == same && checker.violation.other_thread == a.id,
         "what it raced with is not forgotten");
  expect(trial.put(c, 0, "1yz") == again && checker.violation.other_thread == b.id, "and the write is noted");

  expect(trial.add(a, 32, 4) && trial.add(a, 40, 4), "two atomics");
  expect(trial.read(b, 32, 4) && trial.read(b, 40, 4), "and two reads beside them");
  expect(!checker.decide_reads(b) && checker.violation.address == trial.at(32), "the first is wrong");
  expect(b.undecided == undecided_reads, "the second one is still to be decided");
  expect(!checker.decide_reads(b) && checker.violation.address == trial.at(40), "is wrong, too");
  expect(b.undecided == 0 && checker.decide_reads(b), "and that was all");
  expect(trial.read(b, 32, 4) && trial.read(b, 40, 4), "two more");
  expect(checker.decide_reads_of(b, c.id), "a race with another thread decides nothing");
  expect(!checker.decide_reads_of(b, a.id) && checker.violation.address == trial.at(32), "one with the writer does");
  expect(!checker.decide_reads_of(b, a.id) && checker.decide_reads_of(b, a.id) && b.undecided == 0, "of both reads");
  expect(judged([&] { return trial.read(c, 32, 4); }) && judge.met.size() == 4,
         "a judge is asked of each byte at once");
  expect(c.undecided == 0, "and nothing is left to decide");
}

// The pattern of a reduction's last block, with as many blocks as a large launch has: one after the other.
double seconds_of_last_block(uint32_t grid) {
  Trial trial(1, 1);
  trial.launch.grid = {grid, 1, 1};
  std::vector<char> partial(size_t{grid} * 8);
  const auto begin = reinterpret_cast<uintptr_t>(partial.data());
  Buffer memory(Space::global, begin, partial.size(), 8, true);
  Checker& checker = *trial.checker;
  Block& block = *trial.blocks[0];
  const auto start = std::chrono::steady_clock::now();
  bool right = true;
  for (uint32_t id = 0; id < grid; ++id) {
    checker.end_block(block);
    trial.begin(block, id);
    Thread& thread = block.threads[0];
    right = right && checker.write(memory, begin + size_t{id} * 8, 8, thread, 1);
    checker.fence(thread, Scope::device);
    right = right && trial.add(thread, 0, 4);
  }
  for (uint32_t id = 0; id < grid; ++id) {
    right = right && checker.read(memory, begin + size_t{id} * 8, 8, block.threads[0], 1);
  }
  expect(right, "the last block has acquired what all blocks released");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void cost_does_not_grow_with_the_number_of_blocks() {
  seconds_of_last_block(1000);
  const double few = seconds_of_last_block(10'000) / 10'000, many = seconds_of_last_block(400'000) / 400'000;
  printf("last block: %.0f ns a block of 10,000, %.0f ns of 400,000\n", few * 1e9, many * 1e9);
  expect(many < 20 * few, "a block costs the same in a large launch");
}

// Two threads hand a lock over and over: more knowledge than is kept.
void what_is_too_much_to_know_is_forgotten_not_reported() {
  Trial trial(2, 1);
  bool right = true;
  for (int i = 0; i < 5'000'000 && right; ++i) {
    Thread& thread = trial.thread(static_cast<uint32_t>(i) % 2, 0);
    right = trial.add(thread, 0, 4) && trial.read(thread, 8, 4) && trial.write(thread, 8, 4);
    trial.checker->fence(thread, Scope::device);
    right = right && trial.add(thread, 0, 4);
  }
  expect(right, "a lock that is handed over orders its holders");
}

}  // namespace

int main() {
  accesses_of_any_width();
  stamps_start_again();
  memory_keeps_that_it_was_written_when_stamps_start_again();
  writes_of_the_same_bits();
  reads_for_a_compare_and_swap();
  what_a_judge_lets_go_on();
  cost_does_not_grow_with_the_number_of_blocks();
  what_is_too_much_to_know_is_forgotten_not_reported();
  if (failures == 0) printf("all as it must be\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
