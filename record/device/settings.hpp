// What the pretended GPU is, as `memest record` wrote it into the environment.
#pragma once

#include <cstddef>
#include <string>

namespace memest::record {

/// What an SM of a compute capability has (CUDA C++ Programming Guide, table "Technical
/// Specifications per Compute Capability"). Sizes in bytes.
struct SmLimits {
  int major;
  int minor;
  int threads;
  int blocks;
  std::size_t shared;        ///< of an SM
  std::size_t shared_optin;  ///< of a block that asks for more than 48 KiB
};

/// The limits of the newest capability that is not newer than this one.
const SmLimits& limits_of(int major, int minor);

struct Settings {
  bool recording = false;  ///< `memest record` set this process up; else there is no device
  std::string name;        ///< "NVIDIA H100 80GB HBM3"
  int devices = 1;
  int major = 9;  ///< of the compute capability
  int minor = 0;
  int sms = 132;
  std::size_t memory = 0;   ///< of one device, as cudaDeviceProp::totalGlobalMem
  std::size_t context = 0;  ///< of it, what the CUDA context and modules hold
  std::size_t l2 = 0;
  bool strict = false;          ///< a value read back from the device ends the program
  bool masks_keep_all = false;  ///< a count of what is not zero is of all
  std::string journal;          ///< the file for what is not answered
};

/// Read once.
const Settings& settings();

}  // namespace memest::record
