// An object of each OS thread, made at its first use in memory of its own.
//
// For what is large and not used at every access. This library's thread-local variables are in static TLS, since a few
// of them are read without a call (initial-exec), and glibc has some 1.6 KB of it for all libraries that are loaded
// after a program's start: a library that finds too little is not loaded.
#pragma once

namespace trifold::engine {

template <class T>
class PerThread {
 public:
  constexpr PerThread() = default;
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;
  ~PerThread() {
    delete own_;
    own_ = nullptr;
  }

  T& operator*() {
    if (own_ == nullptr) own_ = new T;
    return *own_;
  }
  T* operator->() { return &**this; }

 private:
  T* own_ = nullptr;
};

}  // namespace trifold::engine
