// torchtitan's releases, as far as they differ: each is the last of those that behave alike.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace memest {

enum class TorchtitanRelease : std::uint8_t { dec_2024, mar_2025, v0_1_0, v0_2_2 };

struct TorchtitanRow {
  TorchtitanRelease release = TorchtitanRelease::v0_2_2;
  std::string_view name;
  /// Attention writes keys and values out for every query head and asks for flash before cuDNN's
  /// kernel, batches are a generator's, context ranks cut the model's table of rotations.
  bool is_early = true;
  /// FSDP2 has a unit for the embedding, and one for final norm and output; else one for all three.
  bool ends_apart = false;
  bool chunks_loss = false;    ///< has chunked_cross_entropy_loss (#996)
  bool compiles_loss = false;  ///< `compile` compiles the loss too (#1033)
  /// The list of a selective checkpoint has aten.abs beside aten.max (#820 takes it off).
  bool saves_absolutes = false;
  bool scales_rows = true;  ///< has torchao's recipes by rows (#808)
  /// Tensorwise float8 linears have parallel styles of their own, which from 0.2 on are asked for
  /// by the converter's old name and never found.
  bool float8_styles = false;
};

inline constexpr std::array kTorchtitanReleases = {
    TorchtitanRelease::dec_2024, TorchtitanRelease::mar_2025, TorchtitanRelease::v0_1_0,
    TorchtitanRelease::v0_2_2};

const TorchtitanRow& row_of(TorchtitanRelease release);
/// "2024-12", "2025-03", "0.1.0", "0.2.2".
std::string_view name_of(TorchtitanRelease release);

}  // namespace memest
