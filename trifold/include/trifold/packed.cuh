// 16 bytes of elements as in memory, in four registers. The compiler would unpack an array of half types right after
// its load, element by element, and so wait for each load before it issues the next one.
#pragma once

#include <trifold/reduce.cuh>
#include <trifold/vector.cuh>

#include <cstring>
#include <type_traits>

namespace trifold {

template <class T>
struct alignas(vector_bytes) Packed {
  static constexpr int size = vector_bytes / sizeof(T);
  uint32_t words[4];

  // The same number in all elements.
  static __device__ __forceinline__ Packed all(T value) {
    uint32_t word = 0;
    memcpy(&word, &value, sizeof value);
    if constexpr (sizeof(T) == 2) word |= word << 16;
    return {{word, word, word, word}};
  }

  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      float value;
      memcpy(&value, &words[i], sizeof value);
      return value;
    } else {
#ifdef TRIFOLD_GPU_ARCH
      // A bfloat16 is the upper half of a float.
      if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
#endif
      const auto bits = static_cast<uint16_t>(i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16);
      T value;
      memcpy(&value, &bits, sizeof value);
      return float(value);
    }
  }

  // Element i becomes `value`.
  __device__ __forceinline__ void set(int i, T value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    if constexpr (sizeof(T) == 4) {
      words[i] = bits;
    } else {
      words[i / 2] = i % 2 == 0 ? (words[i / 2] & 0xffff0000u) | bits : (words[i / 2] & 0xffffu) | bits << 16;
    }
  }

  // Keeps the compiler from converting the elements to floats here for all later uses: floats need twice the
  // registers.
  __device__ __forceinline__ void stay() {
#ifdef TRIFOLD_GPU_ARCH
    if constexpr (sizeof(T) == 2) asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]));
#endif
  }

  __device__ __forceinline__ T get(int i) const {
    const uint32_t word = words[i * sizeof(T) / 4] >> (sizeof(T) == 2 && i % 2 == 1 ? 16 : 0);
    T value;
    memcpy(&value, &word, sizeof value);
    return value;
  }
};

// Packs make(i) for each index i, rounded.
template <class T, class Make>
__device__ __forceinline__ Packed<T> pack(Make make) {
  Packed<T> packed;
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
#ifdef TRIFOLD_GPU_ARCH
      const float low = make(2 * w), high = make(2 * w + 1);
      if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        memcpy(&packed.words[w], &pair, sizeof pair);
      } else {
        const __half2 pair = __floats2half2_rn(low, high);
        memcpy(&packed.words[w], &pair, sizeof pair);
      }
#else
      const T pair[] = {T(make(2 * w)), T(make(2 * w + 1))};
      memcpy(&packed.words[w], pair, sizeof pair);
#endif
    }
  } else {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float value = make(w);
      memcpy(&packed.words[w], &value, sizeof value);
    }
  }
  return packed;
}

// The elementwise maximum.
template <class T>
__device__ __forceinline__ Packed<T> larger(const Packed<T>& a, const Packed<T>& b) {
#if TRIFOLD_GPU_ARCH >= 800
  if constexpr (sizeof(T) == 2) {
    Packed<T> most;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (std::is_same_v<T, __nv_bfloat16>)
        asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(most.words[w]) : "r"(a.words[w]), "r"(b.words[w]));
      else
        asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(most.words[w]) : "r"(a.words[w]), "r"(b.words[w]));
    }
    return most;
  }
#endif
  return pack<T>([&](int i) { return Max{}(a[i], b[i]); });
}

// Loads data that is read once: bypasses L1, to keep it for data shared by rows.
template <class T>
__device__ __forceinline__ Packed<T> read_once(const T* from) {
  const uint4 words = __ldcg(reinterpret_cast<const uint4*>(from));
  return {{words.x, words.y, words.z, words.w}};
}

template <class T>
__device__ __forceinline__ Packed<T> read(const T* from) {
  const uint4 words = *reinterpret_cast<const uint4*>(from);
  return {{words.x, words.y, words.z, words.w}};
}

template <class T>
__device__ __forceinline__ void write(T* to, const Packed<T>& packed) {
  *reinterpret_cast<uint4*>(to) = {packed.words[0], packed.words[1], packed.words[2], packed.words[3]};
}

// Predicates only the store. A branch around it would extend to everything that computes the elements, and each piece
// would wait for its own loads.
template <class T>
__device__ __forceinline__ void write_if(bool condition, T* to, const Packed<T>& packed) {
#ifdef TRIFOLD_GPU_ARCH
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v4.b32 [%1], {%2, %3, %4, %5}; }" ::"r"(int{condition}),
      "l"(to), "r"(packed.words[0]), "r"(packed.words[1]), "r"(packed.words[2]), "r"(packed.words[3])
      : "memory");
#else
  if (condition) write(to, packed);
#endif
}

// Loads elements that need not start at a 16-byte boundary, from the two aligned vectors that hold them, which must
// both be readable.
template <class T>
__device__ __forceinline__ Packed<T> read_across(const T* from) {
  const auto behind = static_cast<unsigned>(reinterpret_cast<uintptr_t>(from) % vector_bytes);  // a boundary, in bytes
  const T* const aligned = from - behind / sizeof(T);
  const Packed<T> low = read(aligned), high = read(aligned + Packed<T>::size);
  uint32_t w[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    w[i] = low.words[i];
    w[4 + i] = high.words[i];
  }
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = behind & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = behind & 4 ? w[i + 1] : w[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = behind & 2 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
  return {{w[0], w[1], w[2], w[3]}};
}

}  // namespace trifold
