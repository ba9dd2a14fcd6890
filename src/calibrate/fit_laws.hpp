// Per law, what fitting uses: which samples say something of it, which of its
// parameters they can tell, and how far samples lie apart.
#pragma once

#include <vector>

#include "calibrate/choose_samples.hpp"
#include "calibrate/least_squares.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest {

/// One sample of a known shape.
template <class Shape>
struct Call {
  Shape shape;
  double seconds = 0;
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
                           const Machine& machine);
std::vector<Knob> knobs_of(AttentionLaw& law, const std::vector<Call<AttentionShape>>& calls,
                           const Machine& machine);
std::vector<Knob> knobs_of(StreamLaw& law, const std::vector<Call<StreamShape>>& calls,
                           const Machine& machine);
std::vector<Knob> knobs_of(CollectiveLaw& law, const std::vector<Call<CollectiveShape>>& calls,
                           const Machine& machine);
std::vector<Knob> knobs_of(TransferLaw& law, const std::vector<Call<TransferShape>>& calls,
                           const Machine& machine);
std::vector<Knob> knobs_of(LaunchLaw& law, const std::vector<Call<LaunchShape>>& calls,
                           const Machine& machine);

/// Keeps a fitted law from saying more of a GPU under load than its longest burst does.
void limit_to_samples(MatmulLaw& law, const std::vector<Call<MatmulShape>>& calls,
                      const Machine& machine);
template <class Law, class Shape>
void limit_to_samples(Law&, const std::vector<Call<Shape>>&, const Machine&) {}

/// Seconds that the law gives the call, under the load that it was timed under.
double seconds_at(const MatmulLaw& law, const Call<MatmulShape>& call, const Machine& machine);
double seconds_at(const AttentionLaw& law, const Call<AttentionShape>& call,
                  const Machine& machine);
double seconds_at(const StreamLaw& law, const Call<StreamShape>& call, const Machine& machine);
double seconds_at(const CollectiveLaw& law, const Call<CollectiveShape>& call,
                  const Machine& machine);
double seconds_at(const TransferLaw& law, const Call<TransferShape>& call, const Machine& machine);
double seconds_at(const LaunchLaw& law, const Call<LaunchShape>& call, const Machine& machine);

}  // namespace memest
