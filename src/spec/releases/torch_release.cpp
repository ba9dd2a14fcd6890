#include "memest/spec/releases/torch_release.hpp"

#include <algorithm>
#include <cstddef>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

constexpr std::array<TorchRow, kTorchReleases.size()> kRows = {{
    {.release = TorchRelease::v2_6,
     .name = "2.6",
     .cublas_lt = WorkspaceLife::call,
     .runs_on_blackwell = false,
     .cudnn = CudnnHeads::none,
     .flash_keeps_state = false},
    {.release = TorchRelease::v2_7,
     .name = "2.7",
     .cublas_lt = WorkspaceLife::call,
     .cudnn = CudnnHeads::none},
    {.release = TorchRelease::v2_8,
     .name = "2.8",
     .cublas_lt = WorkspaceLife::call,
     .cudnn = CudnnHeads::none},
    {.release = TorchRelease::v2_9, .name = "2.9", .cudnn = CudnnHeads::none},
    {.release = TorchRelease::v2_10, .name = "2.10", .cudnn = CudnnHeads::none},
    {.release = TorchRelease::v2_11, .name = "2.11"},
    {.release = TorchRelease::v2_12,
     .name = "2.12",
     .cublas_lt = WorkspaceLife::shared,
     .large_on_blackwell = true,
     .cudnn_drops_out = false},
    {.release = TorchRelease::v2_13,
     .name = "2.13",
     .cublas_lt = WorkspaceLife::shared,
     .large_on_blackwell = true,
     .cudnn_drops_out = false},
    {.release = TorchRelease::v2_14,
     .name = "2.14",
     .cublas_lt = WorkspaceLife::shared,
     .large_on_blackwell = true,
     .cudnn = CudnnHeads::by_pass,
     .cudnn_drops_out = false,
     .efficient_takes_groups = true,
     .efficient_keeps_state = true},
    {.release = TorchRelease::v2_15,
     .name = "2.15",
     .cublas = WorkspaceLife::call,
     .cublas_lt = WorkspaceLife::call,
     .large_on_blackwell = true,
     .cudnn = CudnnHeads::by_pass,
     .cudnn_drops_out = false,
     .efficient_takes_groups = true,
     .efficient_keeps_state = true},
}};

}  // namespace

const TorchRow& row_of(TorchRelease release) {
  const auto* const row = std::ranges::find(kRows, release, &TorchRow::release);
  expect(row != kRows.end(), "a release of PyTorch without a row");
  return *row;
}

std::string_view name_of(TorchRelease release) { return row_of(release).name; }

}  // namespace memest
