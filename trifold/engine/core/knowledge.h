// Knowledge of accesses through fences and atomics: a graph of what was released and acquired.
//
// A release adds one node in constant time, however much it releases; nothing is searched until an access looks like a
// race. A node knows all that its parents know, and parents have smaller numbers.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "model.h"

namespace trifold::engine {

// A set of numbers that is cleared in constant time and keeps its memory, for frequent searches.
class NumberSet {
 public:
  void clear() {
    ++round_;
    count_ = 0;
  }
  // Returns whether the number was new.
  bool insert(uint64_t number);

 private:
  struct Slot {
    uint64_t number = 0;
    uint64_t round = 0;  // of its insertion; in an earlier round, the slot is free
  };
  std::vector<Slot> slots_;  // their count is a power of two; linear probing
  uint64_t round_ = 1;
  size_t count_ = 0;
};

class KnowledgeGraph {
 public:
  // For a launch with this grid, in clusters of these extents.
  KnowledgeGraph(Dim3 grid, Dim3 cluster) : grid_(grid), cluster_(cluster) {}

  // The union; makes no node if one is found to contain the other.
  Knowledge merge(Knowledge a, Knowledge b);

  // What was last released at an address; 0: nothing.
  Knowledge at(uintptr_t address) const;

  // A thread's atomic at an address, at this stamp, releases what it knew at its fence. `said`: the node of its last
  // atomic, which is reused if the thread has learnt nothing since. Returns the node to pass next time.
  Knowledge release(uintptr_t address, const Thread& thread, const Fence& fence, FenceScope scope, Stamp stamp,
                    Knowledge said);

  // Fences of threads with consecutive numbers: each knew its own accesses up to its stamp (0: it did not fence), their
  // block's up to this barrier, and together they had acquired this.
  Knowledge fences(uint32_t first_thread, std::span<const Stamp> stamps, uint32_t block, Stamp barrier,
                   Knowledge acquired, FenceScope scope);

  struct Query {
    uint32_t thread;    // that made the access
    uint32_t block;     // of the thread
    Stamp stamp;        // of the access
    uintptr_t address;  // an atomic's address; 0: an ordinary access
  };
  // Whether a thread of this block that acquired `known` knows of that access.
  bool knows(Knowledge known, uint32_t acquirer_block, const Query& query) const;

  bool empty() const { return nodes_.size() <= 1; }
  // Whether there are so many nodes that the graph should be dropped.
  bool full() const { return nodes_.size() + stamps_.size() / 8 > (1u << 22); }
  void clear();

 private:
  enum class Type : uint8_t { nothing, release, fences, join };

  struct Node {
    Type type = Type::nothing;
    FenceScope scope = device_scope;
    uint32_t thread = 0;  // release: the thread; fences: the first one
    uint32_t block = 0;
    Stamp fence = 0;           // up to which the thread's accesses are known
    Stamp barrier = 0;         // up to which its block's accesses are known
    Stamp stamp = 0;           // release: of the atomic; fences: the number of threads
    uint32_t location = 0;     // release: the address's number
    uint32_t stamps = 0;       // fences: the first one's index in stamps_
    Knowledge first = 0;       // release: what was released at the address before
    Knowledge second = 0;      // what the thread had acquired at its fence
    Knowledge same_block = 0;  // the previous node of the block
  };
  struct Address {
    uint32_t number;
    Knowledge last;
  };

  Knowledge add(const Node& node);
  // Whether the scope of a node's release includes this block's threads.
  bool is_for(const Node& node, uint32_t block) const;
  uint64_t cluster_of(uint32_t block) const;
  bool contains(Knowledge whole, Knowledge part, int depth) const;
  bool releases(const Node& node, const Query& query) const;
  bool reaches(Knowledge known, uint32_t acquirer_block, std::span<const Knowledge> targets) const;
  bool searched(Knowledge known, uint32_t acquirer_block, const Query& query) const;

  // A search's result: a thread of this block that acquired `known` knows of that thread's accesses up to the stamp. It
  // stays valid, since nodes are only added.
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
  } last_join_;                    // many threads acquire the same
  bool has_narrow_scope_ = false;  // block or cluster scope
  Dim3 grid_, cluster_;
  struct Step {
    Knowledge node;
    uint32_t acquirer_block;
  };
  // Buffers of a search, kept for their memory.
  mutable std::vector<Step> stack_;
  mutable NumberSet visited_;
  mutable std::vector<Answer> answers_;  // hash table of the last answers
};

}  // namespace trifold::engine
