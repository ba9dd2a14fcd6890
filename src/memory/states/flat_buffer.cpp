#include "memory/states/flat_buffer.hpp"

#include <algorithm>
#include <numeric>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Parameters start at 128 bytes of the narrowest type, buckets at 256 (param_and_grad_buffer.py).
constexpr std::int64_t kParameterAlignment = 64;
constexpr std::int64_t kBucketAlignment = 128;

std::int64_t padded_to(std::int64_t elements, std::int64_t multiple) {
  return checked_multiply(checked_add(elements, multiple - 1) / multiple, multiple);
}

class FlatLayout {
 public:
  explicit FlatLayout(const FlatRules& rules) : rules_(rules) {}

  void add(std::size_t index, const FlatParameter& parameter) {
    // _pad_start_of_param_if_needed: a vector of 100 elements at 0 puts the next parameter at 128.
    if (rules_.distributed) at_ = padded_to(at_, kParameterAlignment);
    // _does_param_require_new_bucket: the first and the last pipeline stage share an embedding and
    // must cut it alike over their data-parallel ranks, so it has a bucket to itself.
    const bool alone = parameter.own_bucket && rules_.distributed;
    if (alone) close();
    placed_.push_back({index, at_, checked_add(at_, parameter.elements)});
    at_ = placed_.back().end;
    // A bucket is closed behind the parameter that fills it: with a bucket_size of 40 M elements, a
    // head of 525 M is in one bucket with whatever lies before it there.
    const bool full = rules_.bucket > 0 && at_ - bucket_ >= rules_.bucket;
    if (alone || full) close();
  }

  FlatBuffer take() && {
    close();
    buffer_.elements = at_;
    buffer_.distributed = rules_.distributed;
    return std::move(buffer_);
  }

 private:
  void close() {
    if (placed_.empty()) return;
    // _pad_end_of_bucket_if_needed: every rank's share is whole, and buckets begin at 256 bytes.
    // For 6 ranks a bucket is a multiple of lcm(6, 128) = 384 elements.
    if (rules_.distributed) at_ = padded_to(at_, std::lcm(rules_.ranks, kBucketAlignment));
    const std::int64_t whole = at_ - bucket_;
    const std::int64_t share = rules_.distributed ? whole / rules_.ranks : whole;
    buffer_.buckets.push_back({bucket_, share, std::move(placed_)});
    placed_.clear();
    bucket_ = at_;
  }

  const FlatRules& rules_;
  FlatBuffer buffer_;
  std::vector<FlatBuffer::Placed> placed_;  // in the open bucket
  std::int64_t at_ = 0;
  std::int64_t bucket_ = 0;
};

}  // namespace

// _build_model_gbuf_range, _build_model_gbuf_param_range_map.
std::vector<FlatShard> FlatBuffer::pieces(std::int64_t rank) const {
  std::vector<FlatShard> pieces;
  for (const Bucket& bucket : buckets) {
    const std::int64_t begin = bucket.begin + (distributed ? rank * bucket.share : 0);
    const std::int64_t end = begin + bucket.share;
    auto one = std::partition_point(bucket.placed.begin(), bucket.placed.end(),
                                    [&](const Placed& placed) { return placed.end <= begin; });
    for (; one != bucket.placed.end() && one->begin < end; ++one) {
      pieces.push_back({one->index, std::min(one->end, end) - std::max(one->begin, begin)});
    }
  }
  return pieces;
}

FlatBuffer lay_out(const std::vector<FlatParameter>& parameters, const FlatRules& rules) {
  FlatLayout layout(rules);
  // `params[::-1]`: about the order in which the backward pass makes gradients, so that the first
  // bucket can be reduced first.
  for (std::size_t i = parameters.size(); i > 0; --i) layout.add(i - 1, parameters[i - 1]);
  return std::move(layout).take();
}

}  // namespace memest
