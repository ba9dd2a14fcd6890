// Gradients of DeepSpeed's ZeRO 3 (deepspeed/runtime/zero/stage3.py, DeepSpeed 0.19). Each is
// copied into a bucket as it comes, and goes; one that is larger than the bucket waits by itself.
// Before a gradient that the bucket has no room for, and when a backward has ended, what lies in it
// is put together rank by rank, reduced and scattered. The rank's pieces are added to one flat
// tensor, which stays. With the optimizer on the host that lies there: a piece is added to on the
// device, and the last micro-step's goes to the optimizer, by way of copies in fp64 for its norm
// and in fp32.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class PartitionedGradients {
 public:
  struct Settings {
    DeepSpeedZero rules;
    std::int64_t ranks = 1;
    std::int64_t rank = 0;
    DType given = DType::bf16;     ///< as autograd answers them
    DType arriving = DType::bf16;  ///< of the bucket
    DType summed = DType::bf16;
    bool to_host = false;
    std::int64_t micro_steps = 1;
  };
  /// `elements`: of every trained parameter.
  PartitionedGradients(const Settings& settings, std::vector<std::int64_t> elements,
                       Recorder& recorder)
      : settings_(settings), elements_(std::move(elements)), recorder_(recorder) {}

  /// Makes the bucket and the flat tensor of the rank's pieces.
  void construct();
  void take(std::size_t parameter, HeldStorage gradient);
  void end_backward();

 private:
  struct Filled {
    std::size_t parameter = 0;
    HeldStorage gradient;  ///< where it is not in the bucket
  };

  void reduce();
  void hand_on();
  void send(const Filled& one, HeldStorage& own);
  [[nodiscard]] std::int64_t piece(std::size_t parameter) const;
  [[nodiscard]] std::int64_t own_elements(std::size_t parameter) const;
  [[nodiscard]] HeldList narrow();
  [[nodiscard]] HeldStorage put_together();
  [[nodiscard]] Stream stream() const;
  [[nodiscard]] HeldStorage make(Holding holding, std::int64_t elements, DType type, Stream stream);

  Settings settings_;
  std::vector<std::int64_t> elements_;
  Recorder& recorder_;
  std::vector<Filled> filled_;
  std::int64_t filled_elements_ = 0;
  std::int64_t micro_step_ = 1;
};

}  // namespace memest
