#include "knowledge.h"

#include <algorithm>

#include "schedule.h"

namespace trifold::engine {

bool NumberSet::insert(uint64_t number) {
  if (2 * (count_ + 1) > slots_.size()) {
    std::vector<Slot> before(std::max<size_t>(2 * slots_.size(), 64));
    before.swap(slots_);
    count_ = 0;
    for (const Slot& slot : before)
      if (slot.round == round_) insert(slot.number);
  }
  for (size_t place = Random::mix(number);; ++place) {
    Slot& slot = slots_[place & (slots_.size() - 1)];
    if (slot.round != round_) {
      slot = {number, round_};
      ++count_;
      return true;
    }
    if (slot.number == number) return false;
  }
}

Knowledge KnowledgeGraph::add(const Node& node) {
  nodes_.push_back(node);
  return static_cast<Knowledge>(nodes_.size() - 1);
}

uint64_t KnowledgeGraph::cluster_of(uint32_t block) const {
  const Dim3 clusters{grid_.x / cluster_.x, grid_.y / cluster_.y, grid_.z / cluster_.z}, at = grid_.at(block);
  return clusters.linear({at.x / cluster_.x, at.y / cluster_.y, at.z / cluster_.z});
}

bool KnowledgeGraph::is_for(const Node& node, uint32_t block) const {
  if (node.scope == device_scope || node.block == block) return true;
  return node.scope == cluster_scope && cluster_of(node.block) == cluster_of(block);
}

void KnowledgeGraph::clear() {
  nodes_.assign(1, Node{});
  stamps_.clear();
  addresses_.clear();
  last_of_block_.clear();
  has_narrow_scope_ = false;
  last_join_ = {};
  answers_.clear();
}

// A quick test, a few nodes deep: false may be wrong.
bool KnowledgeGraph::contains(Knowledge whole, Knowledge part, int depth) const {
  if (whole == part || part == 0) return true;
  if (whole < part || depth == 0) return false;
  const Node& outer = nodes_[whole];
  const Node& inner = nodes_[part];
  const bool at_addresses = outer.location != 0 && inner.location != 0;
  if (at_addresses && outer.location == inner.location) return true;
  if (outer.type == Type::join && contains(outer.first, part, depth - 1)) return true;
  // Through another thread, fences of narrow scope may not apply, so what its node contains need not be known.
  return (outer.type == Type::join || !has_narrow_scope_) && contains(outer.second, part, depth - 1);
}

Knowledge KnowledgeGraph::merge(Knowledge a, Knowledge b) {
  constexpr int depth = 3;
  if (contains(a, b, depth)) return a;
  if (contains(b, a, depth)) return b;
  if (last_join_.first != a || last_join_.second != b)
    last_join_ = {a, b, add({.type = Type::join, .first = a, .second = b})};
  return last_join_.made;
}

Knowledge KnowledgeGraph::at(uintptr_t address) const {
  if (addresses_.empty()) return 0;
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? 0 : found->second.last;
}

Knowledge KnowledgeGraph::release(uintptr_t address, const Thread& thread, const Fence& fence, FenceScope scope,
                                  Stamp stamp, Knowledge said) {
  const auto number = static_cast<uint32_t>(addresses_.size() + 1);
  Address& place = addresses_.try_emplace(address, Address{number, 0}).first->second;
  Node& before = nodes_[said];
  if (before.location == place.number && before.fence == fence.stamp && before.second == fence.acquired) {
    before.stamp = stamp;  // for a loop of atomics after one fence, as in a polling thread
    return said;
  }
  if (scope != device_scope) has_narrow_scope_ = true;
  Knowledge& last_of_block = last_of_block_[thread.block->id];
  last_of_block = add({.type = Type::release,
                       .scope = scope,
                       .thread = thread.id,
                       .block = thread.block->id,
                       .fence = fence.stamp,
                       .barrier = fence.barrier,
                       .stamp = stamp,
                       .location = place.number,
                       .first = place.last,
                       .second = fence.acquired,
                       .same_block = last_of_block});
  place.last = last_of_block;
  return last_of_block;
}

Knowledge KnowledgeGraph::fences(uint32_t first_thread, std::span<const Stamp> stamps, uint32_t block, Stamp barrier,
                                 Knowledge acquired, FenceScope scope) {
  if (scope != device_scope) has_narrow_scope_ = true;
  const auto place = static_cast<uint32_t>(stamps_.size());
  stamps_.insert(stamps_.end(), stamps.begin(), stamps.end());
  Knowledge& last_of_block = last_of_block_[block];
  last_of_block = add({.type = Type::fences,
                       .scope = scope,
                       .thread = first_thread,
                       .block = block,
                       .barrier = barrier,
                       .stamp = static_cast<Stamp>(stamps.size()),
                       .stamps = place,
                       .second = acquired,
                       .same_block = last_of_block});
  return last_of_block;
}

bool KnowledgeGraph::releases(const Node& node, const Query& query) const {
  if (query.stamp <= node.barrier) return true;
  if (node.type == Type::fences) {
    const uint32_t index = query.thread - node.thread;
    return index < node.stamp && query.stamp <= stamps_[node.stamps + index];
  }
  if (query.thread != node.thread) return false;
  if (query.stamp <= node.fence) return true;
  if (query.address == 0 || query.stamp > node.stamp) return false;
  const auto place = addresses_.find(query.address);  // the atomic that released is itself known
  return place != addresses_.end() && place->second.number == node.location;
}

bool KnowledgeGraph::knows(Knowledge known, uint32_t acquirer_block, const Query& query) const {
  if (known == 0) return false;
  Answer& answer = answer_to(known, acquirer_block, query);
  const bool same = answer.known == known && answer.acquirer_block == acquirer_block && answer.thread == query.thread &&
                    answer.address == query.address;
  if (same && query.stamp <= answer.stamp) return true;
  if (!searched(known, acquirer_block, query)) return false;
  answer = {known, acquirer_block, query.thread, query.stamp, query.address};
  return true;
}

KnowledgeGraph::Answer& KnowledgeGraph::answer_to(Knowledge known, uint32_t acquirer_block, const Query& query) const {
  constexpr size_t places = 4096;
  if (answers_.empty()) answers_.resize(places);
  const uint64_t who = uint64_t{query.thread} << 32 | acquirer_block;
  return answers_[Random::mix(who + Random::mix(known + query.address)) % places];
}

bool KnowledgeGraph::searched(Knowledge known, uint32_t acquirer_block, const Query& query) const {
  const auto last = last_of_block_.find(query.block);
  if (last == last_of_block_.end()) return false;
  constexpr size_t few = 16;  // a search for the newest few is short, and usually suffices
  const uint32_t location = nodes_[known].location;
  std::vector<Knowledge> releasers;
  for (Knowledge number = last->second; number != 0; number = nodes_[number].same_block) {
    const Node& node = nodes_[number];
    if (number > known || !releases(node, query)) continue;
    const bool in_scope = is_for(node, acquirer_block);
    if (in_scope && (number == known || (location != 0 && location == node.location))) return true;
    releasers.push_back(number);
    if (releasers.size() == few && reaches(known, acquirer_block, releasers)) return true;
  }
  return !releasers.empty() && reaches(known, acquirer_block, releasers);
}

// Depth first, newest parents last in the stack. `targets` are in descending order.
bool KnowledgeGraph::reaches(Knowledge known, uint32_t acquirer_block, std::span<const Knowledge> targets) const {
  stack_.assign(1, {known, acquirer_block});
  visited_.clear();
  while (!stack_.empty()) {
    const auto [number, acquirer] = stack_.back();
    stack_.pop_back();
    if (number < targets.back()) continue;  // parents have smaller numbers
    const uint64_t visit = uint64_t{number} << 32 | (has_narrow_scope_ ? acquirer : 0);
    if (!visited_.insert(visit)) continue;
    const Node& node = nodes_[number];
    const bool in_scope = is_for(node, acquirer);
    if (in_scope && std::binary_search(targets.rbegin(), targets.rend(), number)) return true;
    stack_.push_back({node.first, acquirer});
    if (in_scope) stack_.push_back({node.second, node.type == Type::join ? acquirer : node.block});
  }
  return false;
}

}  // namespace trifold::engine
