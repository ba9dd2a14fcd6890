#include "memest/spec/releases/torchtitan_release.hpp"

#include <algorithm>

namespace memest {
namespace {

constexpr std::array kTorchtitanRows = {
    // From December 2024 to February 2025.
    TorchtitanRow{.release = TorchtitanRelease::dec_2024,
                  .name = "2024-12",
                  .saves_absolutes = true,
                  .scales_rows = false,
                  .float8_styles = true},
    // February and March 2025.
    TorchtitanRow{.release = TorchtitanRelease::mar_2025,
                  .name = "2025-03",
                  .chunks_loss = true,
                  .float8_styles = true},
    TorchtitanRow{.release = TorchtitanRelease::v0_1_0,
                  .name = "0.1.0",
                  .compiles_loss = true,
                  .float8_styles = true},
    // From 0.2.0 on.
    TorchtitanRow{.release = TorchtitanRelease::v0_2_2,
                  .name = "0.2.2",
                  .is_early = false,
                  .ends_apart = true,
                  .compiles_loss = true}};

}  // namespace

const TorchtitanRow& row_of(TorchtitanRelease release) {
  return *std::ranges::find(kTorchtitanRows, release, &TorchtitanRow::release);
}

std::string_view name_of(TorchtitanRelease release) { return row_of(release).name; }

}  // namespace memest
