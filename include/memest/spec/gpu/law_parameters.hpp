// The parameters of the time laws as tables: their names in profiles, their units, and the range in
// which a value makes sense. One table serves fitting, reading, writing and printing.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "memest/spec/gpu/time_law.hpp"

namespace memest {

/// The unit that a profile writes behind the number.
enum class ParameterUnit : std::uint8_t { none, seconds, bytes, bytes_per_second };

template <class Law>
struct LawParameter {
  std::string_view name;
  double Law::*value;
  double low = 0;
  double high = 0;
  ParameterUnit unit = ParameterUnit::none;
};

inline constexpr std::array kTileParameters = {
    LawParameter<TileLaw>{"peak_share", &TileLaw::peak_share, 0.2, 1.2},
    LawParameter<TileLaw>{"tile_loss", &TileLaw::tile_loss, 0, 100},
    LawParameter<TileLaw>{"prologue", &TileLaw::prologue, 1e-9, 10e-6, ParameterUnit::seconds},
    LawParameter<TileLaw>{"epilogue", &TileLaw::epilogue, 1e-9, 20e-6, ParameterUnit::seconds},
    LawParameter<TileLaw>{"bandwidth_share", &TileLaw::bandwidth_share, 0.3, 1.1},
    LawParameter<TileLaw>{"overlap", &TileLaw::overlap, 1, 10},
    LawParameter<TileLaw>{"launch", &TileLaw::launch, 0.1e-6, 50e-6, ParameterUnit::seconds},
    LawParameter<TileLaw>{"split_traffic", &TileLaw::split_traffic, 0.1, 20},
    LawParameter<TileLaw>{"power_loss", &TileLaw::power_loss, 0, 0.6},
    LawParameter<TileLaw>{"power_time", &TileLaw::power_time, 0.5e-3, 50e-3,
                          ParameterUnit::seconds},
    LawParameter<TileLaw>{"sustained_load", &TileLaw::sustained_load, 0, 1},
    LawParameter<TileLaw>{"whole_waves", &TileLaw::whole_waves, 0, 1},
};
inline constexpr std::array kPassParameters = {
    LawParameter<MatmulLaw>{"data_gradient", &MatmulLaw::data_gradient, 0.7, 1.6},
    LawParameter<MatmulLaw>{"weight_gradient", &MatmulLaw::weight_gradient, 0.7, 1.6},
};
inline constexpr std::array kAttentionParameters = {
    LawParameter<AttentionLaw>{"peak_share", &AttentionLaw::peak_share, 0.02, 1.2},
    LawParameter<AttentionLaw>{"half_length", &AttentionLaw::half_length, 0, 3000},
    LawParameter<AttentionLaw>{"head_dim_loss", &AttentionLaw::head_dim_loss, 0, 200},
    LawParameter<AttentionLaw>{"path_share", &AttentionLaw::path_share, 0, 4},
    LawParameter<AttentionLaw>{"bandwidth_share", &AttentionLaw::bandwidth_share, 0.1, 1.1},
    LawParameter<AttentionLaw>{"launch", &AttentionLaw::launch, 0.5e-6, 100e-6,
                               ParameterUnit::seconds},
};
inline constexpr std::array kStreamParameters = {
    LawParameter<StreamLaw>{"bandwidth_share", &StreamLaw::bandwidth_share, 0.02, 1.1},
    LawParameter<StreamLaw>{"launch", &StreamLaw::launch, 0.1e-6, 100e-6, ParameterUnit::seconds},
    LawParameter<StreamLaw>{"l2_gain", &StreamLaw::l2_gain, 1, 10},
    LawParameter<StreamLaw>{"l2_reach", &StreamLaw::l2_reach, 0.05, 4},
};
inline constexpr std::array kCollectiveParameters = {
    LawParameter<CollectiveLaw>{"latency", &CollectiveLaw::latency, 0.5e-6, 1e-3,
                                ParameterUnit::seconds},
    LawParameter<CollectiveLaw>{"bandwidth", &CollectiveLaw::bandwidth, 0.1e9, 2000e9,
                                ParameterUnit::bytes_per_second},
    LawParameter<CollectiveLaw>{"ramp_bytes", &CollectiveLaw::ramp_bytes, 1e3, 1e9,
                                ParameterUnit::bytes},
    LawParameter<CollectiveLaw>{"ramp", &CollectiveLaw::ramp, 0.2, 1},
};
inline constexpr std::array kTransferParameters = {
    LawParameter<TransferLaw>{"latency", &TransferLaw::latency, 0.1e-6, 10e-3,
                              ParameterUnit::seconds},
    LawParameter<TransferLaw>{"bandwidth", &TransferLaw::bandwidth, 0.01e9, 1000e9,
                              ParameterUnit::bytes_per_second},
};
inline constexpr std::array kLaunchParameters = {
    LawParameter<LaunchLaw>{"seconds", &LaunchLaw::seconds, 0.1e-6, 1e-3, ParameterUnit::seconds},
};

}  // namespace memest
