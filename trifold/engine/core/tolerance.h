// Findings after which a launch continues: those that the user accepts and, on request, all others.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "finding.h"
#include "model.h"

namespace trifold::engine {

// The user accepts findings of a kind: by a comment at a line, or by an entry of a suppressions file. Python reads both
// (trifold/acceptance.py).
struct Acceptance {
  std::string kind;
  std::string kernel, file, array;  // patterns with * and ?; empty: any
  int line = 0;                     // an access at this line of the file, a path without wildcards; 0: any
  std::string place, reason;        // where the user accepts it, and why
};

// Settings for the launches of a process.
class Policy {
 public:
  // Acceptances, one per line: the fields in their order, separated by tabs.
  void accept(std::string_view lines);
  const Acceptance* accepting(const Finding& finding) const;  // null: none
  bool tolerates_any() const { return keep_going || !acceptances_.empty(); }

  bool keep_going = false;

 private:
  std::vector<Acceptance> acceptances_;
};

// Counts the findings of one launch after which it continued; those at the same lines are one.
class Tally {
 public:
  // Two source lines and the array that they access.
  struct Place {
    Kind kind = Kind::race;
    Site site = 0, other_site = 0;
    std::string array = "";
    Severity severity = Severity::error;

    auto operator<=>(const Place&) const = default;
  };

  explicit Tally(const Policy& policy) : policy_(policy) {}

  bool tolerates_any() const { return policy_.tolerates_any(); }
  // Counts another finding of a place after which the launch continued; false: there was none before.
  bool count_again(const Place& place);
  // Whether the launch continues after the first finding of a place, which is then counted. After a warning it always
  // continues: false means that the warning is not counted.
  bool goes_on(const Place& place, Finding finding);
  // Counts a finding that never ends a launch, if the user accepts it.
  bool accepts(Finding finding);

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  bool is_accepted(Finding& finding) const;

  const Policy& policy_;
  std::vector<Finding> findings_;
  std::map<Place, size_t> numbers_;  // index in findings_
};

}  // namespace trifold::engine
