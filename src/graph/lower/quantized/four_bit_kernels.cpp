// backends/cuda/ops.py, _gemm_4bit_use_custom_cuda, branch by branch: each was measured on the GPUs
// that it names, and no formula is behind them. A wave is as many blocks of 64 outputs as the GPU
// has multiprocessors.
#include "graph/lower/quantized/four_bit_kernels.hpp"

namespace memest {
namespace {

constexpr std::int64_t kAlways = 4;         // _GEMM_4BIT_CUSTOM_FLOOR_M
constexpr std::int64_t kNever = 1536;       // _gemm_4bit_custom_max_m
constexpr std::int64_t kScalar = 8;         // rows from which the tensor cores' kernel runs
constexpr std::int64_t kCodesOfBlock = 64;  // K must be a multiple of the scales' block
constexpr std::int64_t kSmallWeight = std::int64_t{4} << 20;

class Dispatch {
 public:
  explicit Dispatch(const FourBitProduct& product)
      : m_(product.rows),
        n_(product.out),
        k_(product.in),
        blocks_((product.out + 63) / 64),
        sms_(product.multiprocessors),
        sm_(product.capability) {}

  [[nodiscard]] bool fused() const {
    if ((sm_.major == 8 && sm_.minor == 7) || sm_.major == 11) return false;
    if (sm_.major == 10) return data_center_blackwell();
    if (n_ * k_ < kSmallWeight) return small_weight();
    if (m_ > 512) return false;
    if (m_ < kScalar) return few_rows();
    if (is(7, 5)) return turing();
    if (is(8, 0)) return a100();
    if (is(8, 6)) return ampere();
    if (sm_.major == 9) return hopper();
    if (is(12, 1) && waves(1)) return m_ <= 256;
    if (is(12, 0)) return blackwell();
    return others();
  }

 private:
  [[nodiscard]] bool is(int major, int minor) const {
    return sm_ == ComputeCapability{major, minor};
  }
  [[nodiscard]] bool has_hbm() const { return is(8, 0) || sm_.major == 9; }
  [[nodiscard]] bool waves(std::int64_t count) const { return blocks_ >= sms_ * count; }
  [[nodiscard]] bool half_wave() const { return blocks_ >= sms_ / 2; }
  [[nodiscard]] bool tall() const { return k_ > n_ * 2; }

  [[nodiscard]] bool data_center_blackwell() const {
    if (waves(3)) return m_ <= 32;
    return waves(1) && k_ < n_ && m_ <= 8;
  }

  [[nodiscard]] bool small_weight() const {
    if (k_ * 2 < n_) return m_ <= most_rows_of_short_sums();
    const bool quarter_wave = blocks_ * 4 <= sms_;
    if (is(8, 0) && quarter_wave) {
      if (k_ < n_) return m_ <= 384;
      return m_ <= (blocks_ * 8 <= sms_ ? 32 : 128);
    }
    if (is(7, 5) && blocks_ < sms_ && m_ > 8) return m_ <= 64;
    if (quarter_wave) return m_ <= (k_ < n_ || has_hbm() ? 32 : 23);
    return blocks_ * 2 <= sms_ && m_ <= 16;
  }

  [[nodiscard]] std::int64_t most_rows_of_short_sums() const {
    if (has_hbm()) {
      const bool low_wave = blocks_ * 3 < sms_;
      if (is(8, 0)) return low_wave ? 1536 : 512;
      return low_wave ? 512 : 320;
    }
    if (is(7, 5)) {
      if (waves(3) || k_ < 704) return 320;
      return k_ >= 1024 ? 64 : 96;
    }
    return !waves(1) && blocks_ * k_ > sms_ * 320 ? 192 : 320;
  }

  [[nodiscard]] bool few_rows() const {
    const bool enough = blocks_ >= (sm_.major == 9 ? 36 : 48);
    if (!has_hbm() || m_ < 6 || !enough) return true;
    const bool under_75 = blocks_ * 4 < sms_ * 3;
    const bool under_60 = blocks_ * 5 < sms_ * 3;
    if (k_ > n_ && under_75) return false;
    if (k_ != n_) return true;
    return is(8, 0) ? !under_60 : !under_75 || under_60;
  }

  [[nodiscard]] bool turing() const {
    if (waves(3)) return m_ <= (k_ < n_ ? 128 : 64);
    return m_ <= (half_wave() ? 64 : 32);
  }

  [[nodiscard]] bool a100() const {
    if (waves(3)) return m_ <= 128;
    if (waves(1)) return m_ <= (k_ < n_ ? 64 : 32);
    if (k_ >= n_ * 3 && blocks_ * 4 > sms_) return false;
    if (k_ == n_ && blocks_ >= 48 && blocks_ * 5 < sms_ * 3) return false;
    if (blocks_ * 2 < sms_) {
      if (k_ <= n_) return m_ <= 128;
      if (blocks_ * 3 >= sms_) return false;
    }
    return m_ <= (half_wave() && k_ < n_ ? 128 : 16);
  }

  [[nodiscard]] bool ampere() const {
    if (waves(1)) return m_ <= 128;
    return m_ <= (half_wave() ? 64 : 16);
  }

  [[nodiscard]] bool hopper() const {
    if (waves(3)) return m_ <= 64;
    if (waves(2)) return m_ <= 48;
    if (waves(1)) return m_ <= 32;
    return half_wave() && !(k_ >= n_ && blocks_ * 4 < sms_ * 3) && m_ <= 16;
  }

  [[nodiscard]] bool blackwell() const {
    if (waves(3)) return m_ <= 256;
    if (waves(2)) return m_ <= 128;
    if (blocks_ * 5 >= sms_ * 4) return m_ <= (k_ >= n_ ? 96 : 64);
    if (half_wave()) return m_ <= (k_ * 2 >= n_ && blocks_ >= 128 ? 64 : 8);
    return m_ <= (tall() && blocks_ > 64 ? 16 : 8);
  }

  /// Ada, and GB10 below one wave.
  [[nodiscard]] bool others() const {
    if (waves(3)) return m_ <= 256;
    if (waves(2)) return m_ <= 128;
    if (blocks_ * 5 >= sms_ * 4) {
      if (tall() || blocks_ >= 200) return m_ <= 128;
      return m_ <= (k_ < n_ ? 64 : sms_ >= 60 ? 128 : 32);
    }
    if (half_wave()) {
      if (tall()) return m_ <= 64;
      return m_ <= (blocks_ >= 64 ? 8 : 32);
    }
    if (k_ > n_ && blocks_ <= 48) return m_ <= (k_ >= n_ * 3 ? 12 : 10);
    return m_ <= (tall() || blocks_ < 48 ? 16 : 8);
  }

  std::int64_t m_;
  std::int64_t n_;
  std::int64_t k_;
  std::int64_t blocks_;
  std::int64_t sms_;
  ComputeCapability sm_;
};

}  // namespace

bool multiplies_codes(const FourBitProduct& product) {
  if (product.rows > kNever || product.in % kCodesOfBlock != 0) return false;
  if (product.rows <= kAlways) return true;
  // fp32 has no kernel of the tensor cores, Turing none but fp16's, what is older none.
  const ComputeCapability sm = product.capability;
  const bool scalar = product.dtype == DType::fp32 || sm.major < 7 ||
                      (sm.major == 7 && (sm.minor < 5 || product.dtype != DType::fp16));
  if (scalar) return product.rows < kScalar;
  return Dispatch(product).fused();
}

}  // namespace memest
