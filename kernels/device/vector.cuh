// Vectors of elements as a kernel moves them: 16 bytes an access, kept as the words they came in
// and converted where they are used, so that a bf16 in flight costs half a register.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/element.hpp"

namespace memest::kernels {

/// Conversions of one element, by the device's own instruction where it has one.
template <class T>
struct Codec;

template <>
struct Codec<float> {
  static __device__ float decode(std::uint32_t bits) { return __uint_as_float(bits); }
  static __device__ std::uint32_t encode(float value) { return __float_as_uint(value); }
};
template <>
struct Codec<Bf16> {
  static __device__ float decode(std::uint32_t bits) { return __uint_as_float(bits << 16); }
  static __device__ std::uint32_t encode(float value) {
#ifdef __CUDA_ARCH__
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return to_bf16(value).bits;
#endif
  }
};
template <>
struct Codec<Fp16> {
  static __device__ std::uint32_t encode(float value) {
#ifdef __CUDA_ARCH__
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return to_fp16(value).bits;
#endif
  }
};
template <>
struct Codec<Fp8> {
  static __device__ std::uint32_t encode(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    std::uint16_t bits;  // two at once; the upper one is of no use here
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0F), "f"(value));
    return bits;
#else
    return to_fp8(value).bits;
#endif
  }
};
struct Mask {
  std::uint8_t bits;  ///< 0 or 1
};
template <>
struct Codec<Mask> {
  static __device__ float decode(std::uint32_t bits) { return static_cast<float>(bits); }
  static __device__ std::uint32_t encode(float value) { return static_cast<std::uint32_t>(value); }
};

template <class T>
inline constexpr int kLanes = 16 / static_cast<int>(sizeof(T));  // of a 16-byte vector

template <class T, int kWidth = kLanes<T>>
struct Vector {
  static constexpr int kElementsAWord = 4 / static_cast<int>(sizeof(T));
  static constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  static constexpr int kWords = kWidth / kElementsAWord;
  static constexpr std::uint32_t kMask = 0xFFFFFFFFU >> (32 - kBits);

  alignas(kWords >= 4 ? 16 : 4 * kWords) std::uint32_t words[kWords] = {};

  __device__ std::uint32_t bits(int i) const {
    return words[i / kElementsAWord] >> (i % kElementsAWord * kBits) & kMask;
  }
  __device__ void set_bits(int i, std::uint32_t bits) {
    const int shift = i % kElementsAWord * kBits;
    std::uint32_t& word = words[i / kElementsAWord];
    word = (word & ~(kMask << shift)) | bits << shift;
  }
  __device__ float operator[](int i) const { return Codec<T>::decode(bits(i)); }
  __device__ void set(int i, float value) { set_bits(i, Codec<T>::encode(value)); }
};

/// Whether an access says that its data will not be asked for again.
enum class Reuse { none, soon };

/// The widest word that divides a vector.
template <int kWords>
struct Access {
  using Word = uint4;
};
template <>
struct Access<2> {
  using Word = uint2;
};
template <>
struct Access<1> {
  using Word = unsigned;
};

/// An array of `count` elements from which vectors are taken. Where it is not aligned to 16 bytes,
/// and at its end, elements are moved one by one. `Index` is as wide as its counts may be.
template <class Index>
struct Extent {
  Index count = 0;
  bool aligned = true;
};

template <int kWidth, Reuse reuse = Reuse::none, class T, class Index>
__device__ Vector<T, kWidth> load(const T* array, Index first, const Extent<Index>& extent) {
  using V = Vector<T, kWidth>;
  using Word = typename Access<V::kWords>::Word;
  V vector;
  constexpr int kAccesses = 4 * V::kWords / static_cast<int>(sizeof(Word));
  if (extent.aligned && first + kWidth <= extent.count) {
    const Word* from = reinterpret_cast<const Word*>(array + first);
    Word* to = reinterpret_cast<Word*>(vector.words);
#pragma unroll
    for (int i = 0; i < kAccesses; ++i) {
      to[i] = reuse == Reuse::none ? __ldcs(from + i) : from[i];
    }
    return vector;
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (first + i < extent.count) {
      if constexpr (sizeof(T) == 4) {
        vector.set_bits(i, __float_as_uint(array[first + i]));
      } else {
        vector.set_bits(i, array[first + i].bits);
      }
    }
  }
  return vector;
}

template <class T, int kWidth, class Index>
__device__ void store(T* array, Index first, const Extent<Index>& extent,
                      const Vector<T, kWidth>& vector) {
  using V = Vector<T, kWidth>;
  using Word = typename Access<V::kWords>::Word;
  constexpr int kAccesses = 4 * V::kWords / static_cast<int>(sizeof(Word));
  if (extent.aligned && first + kWidth <= extent.count) {
    Word* to = reinterpret_cast<Word*>(array + first);
    const Word* from = reinterpret_cast<const Word*>(vector.words);
#pragma unroll
    for (int i = 0; i < kAccesses; ++i) {
      __stcs(to + i, from[i]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (first + i < extent.count) {
      if constexpr (sizeof(T) == 4) {
        array[first + i] = __uint_as_float(vector.bits(i));
      } else {
        array[first + i] = T{static_cast<decltype(T{}.bits)>(vector.bits(i))};
      }
    }
  }
}

}  // namespace memest::kernels
