// What fitting needs to know of each law: which samples say something of it, which of its
// parameters they can tell, and how far samples lie apart.
#pragma once

#include <vector>

#include "choose_samples.hpp"
#include "least_squares.hpp"
#include "memest/spec/gpu.hpp"
#include "memest/spec/gpu_profile.hpp"
#include "memest/spec/kernel_shape.hpp"

namespace memest {

/// One sample of a known shape.
template <class Shape>
struct Call {
  Shape shape;
  double seconds = 0;
};

/// Where and under what the samples of one kind were taken.
struct FitPlace {
  Machine machine;
  Load load = Load::burst;
};

SampleFeatures features_of(const Call<MatmulShape>& call);
SampleFeatures features_of(const Call<AttentionShape>& call);
SampleFeatures features_of(const Call<StreamShape>& call);
SampleFeatures features_of(const Call<CollectiveShape>& call);
SampleFeatures features_of(const Call<TransferShape>& call);
SampleFeatures features_of(const Call<LaunchShape>& call);

/// Whether the law is meant for such calls: those of training steps, neither a handful of rows nor
/// microseconds.
bool is_of_steps(const Call<MatmulShape>& call);
bool is_of_steps(const Call<AttentionShape>& call);
bool is_of_steps(const Call<StreamShape>& call);
bool is_of_steps(const Call<CollectiveShape>& call);
bool is_of_steps(const Call<TransferShape>& call);
bool is_of_steps(const Call<LaunchShape>& call);

/// A law from which the fit starts, with the parts that such calls need.
MatmulLaw start_of(const std::vector<Call<MatmulShape>>& calls);
AttentionLaw start_of(const std::vector<Call<AttentionShape>>& calls);
StreamLaw start_of(const std::vector<Call<StreamShape>>& calls);
CollectiveLaw start_of(const std::vector<Call<CollectiveShape>>& calls);
TransferLaw start_of(const std::vector<Call<TransferShape>>& calls);
LaunchLaw start_of(const std::vector<Call<LaunchShape>>& calls);

/// The parameters that `calls` can tell.
std::vector<Knob> knobs_of(MatmulLaw& law, const std::vector<Call<MatmulShape>>& calls,
                           const FitPlace& place);
std::vector<Knob> knobs_of(AttentionLaw& law, const std::vector<Call<AttentionShape>>& calls,
                           const FitPlace& place);
std::vector<Knob> knobs_of(StreamLaw& law, const std::vector<Call<StreamShape>>& calls,
                           const FitPlace& place);
std::vector<Knob> knobs_of(CollectiveLaw& law, const std::vector<Call<CollectiveShape>>& calls,
                           const FitPlace& place);
std::vector<Knob> knobs_of(TransferLaw& law, const std::vector<Call<TransferShape>>& calls,
                           const FitPlace& place);
std::vector<Knob> knobs_of(LaunchLaw& law, const std::vector<Call<LaunchShape>>& calls,
                           const FitPlace& place);

double seconds_at(const MatmulLaw& law, const MatmulShape& shape, const FitPlace& place);
double seconds_at(const AttentionLaw& law, const AttentionShape& shape, const FitPlace& place);
double seconds_at(const StreamLaw& law, const StreamShape& shape, const FitPlace& place);
double seconds_at(const CollectiveLaw& law, const CollectiveShape& shape, const FitPlace& place);
double seconds_at(const TransferLaw& law, const TransferShape& shape, const FitPlace& place);
double seconds_at(const LaunchLaw& law, const LaunchShape& shape, const FitPlace& place);

}  // namespace memest
