// Who knows whose accesses through fences and atomics: a graph of what was released and acquired.
//
// A release adds one node in constant time, whatever it tells of; nothing is searched before an access looks like a
// race. A node knows all that its parents know, and parents have smaller numbers.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "model.h"

namespace trifold::engine {

// A set of numbers that is emptied in constant time and keeps its memory: a search makes one, and searches are many.
class NumberSet {
 public:
  void clear() {
    ++round_;
    count_ = 0;
  }
  // Whether it was not there.
  bool insert(uint64_t number);

 private:
  struct Slot {
    uint64_t number = 0;
    uint64_t round = 0;  // in which it was inserted: in an earlier one, the slot is free
  };
  std::vector<Slot> slots_;  // a power of two of them; a number stands in the first free one from its place on
  uint64_t round_ = 1;
  size_t count_ = 0;
};

class KnowledgeGraph {
 public:
  // Of a launch with this grid, in clusters of these extents.
  KnowledgeGraph(Dim3 grid, Dim3 cluster) : grid_(grid), cluster_(cluster) {}

  // Both together; no node is made where one is seen to contain the other.
  Knowledge merge(Knowledge a, Knowledge b);

  // What was last released at an address; 0 is nothing.
  Knowledge at(uintptr_t address) const;

  // A thread's atomic at an address, at this stamp, releases what it knew at its fence. `said`: what its last atomic
  // released, which is enough if the thread has not learnt more. The result is that for the next one.
  Knowledge release(uintptr_t address, const Thread& thread, const Fence& fence, FenceScope scope, Stamp stamp,
                    Knowledge said);

  // Fences of a group of threads with consecutive numbers: each knew itself up to its stamp (0: it did not fence),
  // their block up to this barrier, and together they had acquired this.
  Knowledge fences(uint32_t first_thread, std::span<const Stamp> stamps, uint32_t block, Stamp barrier,
                   Knowledge acquired, FenceScope scope);

  struct Query {
    uint32_t thread;    // whose access
    uint32_t block;     // its block
    Stamp stamp;        // when
    uintptr_t address;  // an atomic's address; 0: an ordinary access
  };
  // Does a thread of this block that acquired `known` know of that access?
  bool knows(Knowledge known, uint32_t acquirer_block, const Query& query) const;

  bool empty() const { return nodes_.size() <= 1; }
  // So many nodes that the graph should be dropped.
  bool full() const { return nodes_.size() + stamps_.size() / 8 > (1u << 22); }
  void clear();

 private:
  enum class Type : uint8_t { nothing, release, fences, join };

  struct Node {
    Type type = Type::nothing;
    FenceScope scope = device_scope;
    uint32_t thread = 0;  // release: who; fences: the first
    uint32_t block = 0;
    Stamp fence = 0;           // the thread's accesses up to here are known
    Stamp barrier = 0;         // and its block's up to here
    Stamp stamp = 0;           // release: of the atomic; fences: how many threads
    uint32_t location = 0;     // release: the address's number
    uint32_t stamps = 0;       // fences: the first's place in stamps_
    Knowledge first = 0;       // release: what was released at the address before
    Knowledge second = 0;      // what the one who fenced had acquired
    Knowledge same_block = 0;  // the block's node before this one
  };
  struct Address {
    uint32_t number;
    Knowledge last;
  };

  Knowledge add(const Node& node);
  // Whether what a node releases is for this block's threads.
  bool is_for(const Node& node, uint32_t block) const;
  uint64_t cluster_of(uint32_t block) const;
  bool contains(Knowledge whole, Knowledge part, int depth) const;
  bool tells(const Node& node, const Query& query) const;
  bool reaches(Knowledge known, uint32_t acquirer_block, std::span<const Knowledge> targets) const;
  bool searched(Knowledge known, uint32_t acquirer_block, const Query& query) const;

  // What a search has found: who acquired `known` in this block knows of that thread's accesses up to the stamp. It
  // stays so, since nodes are only added.
  struct Answer {
    Knowledge known = 0;
    uint32_t acquirer_block = 0;
    uint32_t thread = 0;
    Stamp stamp = 0;
    uintptr_t address = 0;
  };
  Answer& answer_to(Knowledge known, uint32_t acquirer_block, const Query& query) const;

  std::vector<Node> nodes_{1};
  std::vector<Stamp> stamps_;
  std::unordered_map<uintptr_t, Address> addresses_;
  std::unordered_map<uint32_t, Knowledge> last_of_block_;
  struct {
    Knowledge first = 0, second = 0, made = 0;
  } last_join_;                    // many threads learn the same
  bool has_narrow_scope_ = false;  // of a block or a cluster
  Dim3 grid_, cluster_;
  struct Step {
    Knowledge node;
    uint32_t acquirer_block;
  };
  // Of a search: kept from one to the next for their memory.
  mutable std::vector<Step> stack_;
  mutable NumberSet visited_;
  mutable std::vector<Answer> answers_;  // each in the place that its question has, with the last one there
};

}  // namespace trifold::engine
