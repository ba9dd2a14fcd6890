#include "cli/record/null_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "memest/diag/environment.hpp"

namespace memest {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// GPUs of a node, as far as a rank's local number goes.
constexpr std::int64_t kNode = 8;

/// A variable's list with `first` before what it holds already.
std::string before(const std::string& first, const char* variable) {
  const char* own = std::getenv(variable);
  return own == nullptr || *own == '\0' ? first : first + ":" + own;
}

/// Every library of the folder, by which the loader finds them under the names that PyTorch needs.
std::string preloaded(const std::filesystem::path& libraries) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(libraries)) {
    if (entry.path().string().find(".so") != std::string::npos) {
      paths.push_back(entry.path().string());
    }
  }
  std::ranges::sort(paths);
  std::string list;
  for (const std::string& path : paths) list += (list.empty() ? "" : ":") + path;
  return list;
}

void add_ranks(const RecordOptions& options, Variables& variables) {
  if (options.world == 1) return;
  const std::int64_t local = std::min(options.world, kNode);
  variables.insert(variables.end(), {{"MEMEST_RECORD_LONE_RANK", "1"},
                                     {"WORLD_SIZE", std::to_string(options.world)},
                                     {"RANK", std::to_string(options.rank)},
                                     {"LOCAL_WORLD_SIZE", std::to_string(local)},
                                     {"LOCAL_RANK", std::to_string(options.rank % local)},
                                     {"MASTER_ADDR", "127.0.0.1"},
                                     {"MASTER_PORT", "29500"}});
}

}  // namespace

std::optional<NullDevice> null_device_of(const GpuSpec& gpu) {
  const auto capability = gpu.compute_capability();
  if (!capability || !gpu.multiprocessors) return std::nullopt;
  NullDevice device;
  device.gpu = gpu;
  device.name = gpu.vendor + " " + gpu.name;
  device.capability = *capability;
  device.multiprocessors = gpu.multiprocessors->value;
  device.l2 = gpu.l2_cache ? gpu.l2_cache->value : Bytes();
  device.capacity = gpu.capacity.value;
  device.context = gpu.context ? gpu.context->value : Bytes();
  return device;
}

std::filesystem::path device_folder() {
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  for (const char* place : {"record", "../lib/memest/record"}) {
    const auto folder = program / place;
    if (std::filesystem::exists(folder / "python" / "sitecustomize.py", unknown)) {
      return std::filesystem::canonical(folder);
    }
  }
  throw EnvironmentError(
      "the null device is not here: it lies in 'record' beside the program of a build, and in "
      "'lib/memest/record' where memest is installed");
}

Variables variables_of(const NullDevice& device, const RecordOptions& options,
                       const std::filesystem::path& run) {
  // A link in the run's folder, whose path has no blanks, leads to the libraries.
  const auto here = run / "device";
  std::filesystem::create_directory_symlink(device_folder(), here);
  const std::string libraries = (here / "lib").string();
  Variables variables = {
      {"LD_PRELOAD", before(preloaded(libraries), "LD_PRELOAD")},
      {"PYTHONPATH", before((here / "python").string(), "PYTHONPATH")},
      {"TRITON_LIBCUDA_PATH", libraries},
      {"NVTX_INJECTION64_PATH", libraries + "/libmemest_record.so"},
      {"MEMEST_RECORD_FOLDER", run.string()},
      {"MEMEST_RECORD_JOURNAL", (run / "journal").string()},
      {"MEMEST_RECORD_NAME", device.name},
      {"MEMEST_RECORD_GPU", device.gpu.slug},
      {"MEMEST_RECORD_CAPABILITY_MAJOR", std::to_string(device.capability.major)},
      {"MEMEST_RECORD_CAPABILITY_MINOR", std::to_string(device.capability.minor)},
      {"MEMEST_RECORD_SMS", std::to_string(device.multiprocessors)},
      {"MEMEST_RECORD_MEMORY", std::to_string(device.capacity.value())},
      {"MEMEST_RECORD_CONTEXT", std::to_string(device.context.value())},
      {"MEMEST_RECORD_DEVICES", std::to_string(options.gpus)},
      {"MEMEST_RECORD_L2", std::to_string(device.l2.value())},
      {"MEMEST_RECORD_STRICT", options.strict ? "1" : "0"},
      {"MEMEST_RECORD_MASKS_KEEP_ALL", options.masks_keep_all ? "1" : "0"},
      {"MEMEST_RECORD_STEPS", std::to_string(options.steps)},
  };
  add_ranks(options, variables);
  return variables;
}

void order_hashes(Variables& variables) {
  if (std::getenv("PYTHONHASHSEED") == nullptr) variables.emplace_back("PYTHONHASHSEED", "0");
}

bool has_real_gpu() {
  std::error_code unknown;
  return std::filesystem::exists("/dev/nvidiactl", unknown) ||
         std::filesystem::exists("/proc/driver/nvidia/version", unknown);
}

}  // namespace memest
