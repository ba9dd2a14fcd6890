#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <Eigen/Dense>
#include <cuda_runtime.h>
