#include "writes.h"

#include <algorithm>
#include <cstring>

namespace trifold::engine {
namespace {

// Calls use(page, offset, at, n) for the part of these bytes on each page.
template <typename Use>
void for_each_page(uintptr_t begin, size_t size, size_t page_bytes, Use&& use) {
  const uintptr_t end = begin + size;
  for (uintptr_t at = begin; at < end;) {
    const size_t offset = at % page_bytes;
    const size_t n = std::min<size_t>(page_bytes - offset, end - at);
    use(at / page_bytes, offset, at, n);
    at += n;
  }
}

}  // namespace

void WriteLog::start() {
  pages_.clear();
  on_ = true;
}

void WriteLog::add(const Buffer& buffer, bool counts) {
  const uintptr_t end = buffer.begin() + buffer.size();
  const size_t step = buffer.cell_bytes();
  uintptr_t first = buffer.begin();  // bytes before `at` that were written without a gap
  for (uintptr_t at = first; at < end; at += step) {
    if (buffer.written_by_launch(at)) continue;
    if (first < at) note(first, at - first, counts);
    first = at + step;
  }
  if (first < end) note(first, end - first, counts);
}

void WriteLog::note(uintptr_t begin, size_t size, bool counts) {
  for_each_page(begin, size, page_bytes, [&](uintptr_t number, size_t offset, uintptr_t at, size_t n) {
    if (!counts && !pages_.contains(number)) return;
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    std::memcpy(page->left.data() + offset, reinterpret_cast<const char*>(at), n);
    std::fill_n(page->written.begin() + static_cast<ptrdiff_t>(offset), n, counts);
  });
}

void WriteLog::find(uintptr_t begin, size_t size, char* found) const {
  std::fill_n(found, size, char{0});
  for_each_page(begin, size, page_bytes, [&](uintptr_t number, size_t offset, uintptr_t at, size_t n) {
    const auto place = pages_.find(number);
    if (place == pages_.end()) return;
    const Page& page = *place->second;
    for (size_t i = 0; i < n; ++i) {
      const bool holds = page.written[offset + i] && page.left[offset + i] == reinterpret_cast<const char*>(at)[i];
      found[at - begin + i] = holds ? 1 : 0;
    }
  });
}

}  // namespace trifold::engine
