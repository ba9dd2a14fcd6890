// The device that a recorded program finds: where its libraries lie, and what the environment tells
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

struct NullDevice {
  GpuSpec gpu;
  std::string name;
  ComputeCapability capability;
  std::int64_t multiprocessors = 0;
  Bytes l2;
  Bytes capacity;
  Bytes context;
};

/// How the program is run on it.
struct RecordOptions {
  std::int64_t gpus = 1;   ///< of the machine
  std::int64_t world = 1;  ///< ranks of which the one process is one
  std::int64_t rank = 0;
  std::int64_t steps = 0;       ///< 0: until its end
  bool strict = false;          ///< a value that is read back ends the program
  bool masks_keep_all = false;  ///< a mask that is read keeps all of its elements
};

/// Nothing where the GPU runs no CUDA, or too little is known of it.
std::optional<NullDevice> null_device_of(const GpuSpec& gpu);

/// The folder with the null device's libraries and the recorder for Python: beside the program in a
/// build, or where it is installed. Throws EnvironmentError where it is not there.
std::filesystem::path device_folder();

/// Variables that a recorded program has beside this process's own.
std::vector<std::pair<std::string, std::string>> variables_of(const NullDevice& device,
                                                              const RecordOptions& options,
                                                              const std::filesystem::path& run);

/// Adds what makes Python walk its sets in the same order in every run, unless this process has it.
void order_hashes(std::vector<std::pair<std::string, std::string>>& variables);

/// Whether this machine has a driver of NVIDIA's: the program would be meant to use its GPU.
bool has_real_gpu();

}  // namespace memest
