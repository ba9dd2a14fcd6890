// What kernels ask the allocator for, against recorded runs.
//
// The points are from PyTorch 2.11.0 (CUDA 13.0): the caching allocator's own history of each
// operation, run with a device that computes nothing and reports the multiprocessors, threads and
// compute capability named below. The tiles and
// the rule for embeddings of few rows were fitted to such points, all else follows from the
// sources.
#include "memest/graph/kernel_scratch.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <string_view>
#include <vector>

namespace memest {
namespace {

using Kind = ScratchStep::Kind;

LaunchDevice device_of(ComputeCapability capability, std::int64_t multiprocessors) {
  const std::optional<LaunchDevice> device = launch_device(capability, multiprocessors);
  REQUIRE(device.has_value());
  return *device;
}

struct Gpu {
  std::string_view name;
  ComputeCapability capability;
  std::int64_t multiprocessors;
};
constexpr Gpu kH200{"H200", {9, 0}, 132};
constexpr Gpu kA100{"A100", {8, 0}, 108};
constexpr Gpu kL40S{"L40S", {8, 9}, 142};
constexpr Gpu kRtx4090{"RTX 4090", {8, 9}, 128};
constexpr Gpu kRtx5090{"RTX 5090", {12, 0}, 170};
constexpr Gpu kB200{"B200", {10, 0}, 148};
constexpr Gpu kT4{"T4", {7, 5}, 40};
constexpr Gpu kA10G{"A10G", {8, 6}, 80};

/// An operation on a GPU and the sizes that it asked for, in order.
template <class Operation>
struct Point {
  Gpu gpu;
  Operation operation;
  std::vector<std::int64_t> sizes;
};

// clang-format off
const std::vector<Point<Reduction>> kReductions = {
    {kH200, {{{13, true}, {128, true}, {1, true}}, 2, 4}, {}},
    {kH200, {{{512, true}, {320, false}}, 2, 4}, {}},
    {kH200, {{{2, true}, {58, true}, {4736, true}}, 4, 4}, {272, 4}},
    {kH200, {{{42, false}, {512, true}, {291, true}}, 2, 4}, {2184, 168}},
    {kH200, {{{32, true}, {18, true}, {3392, true}}, 4, 4}, {956, 4}},
    {kH200, {{{52672, true}, {64, false}}, 2, 4}, {6750208, 4}},
    {kH200, {{{17, true}, {9, true}, {7279, true}}, 2, 2}, {272, 4}},
    {kH200, {{{44, true}, {12, false}, {704, true}, {31, false}}, 2, 4}, {2095104, 48}},
    {kH200, {{{79424, true}, {13888, false}}, 2, 4}, {55552, 277315584, 436, 277315584, 436}},
    {kH200, {{{22, true}, {10816, true}, {4160, false}}, 4, 4}, {249200640, 132, 249200640, 132}},
    {kA100, {{{128, false}, {10112, true}}, 2, 2}, {}},
    {kA100, {{{4, true}, {192, true}, {64, true}}, 2, 4}, {}},
    {kA100, {{{204672, true}, {64, false}}, 2, 4}, {26198016, 4}},
    {kA100, {{{3, true}, {64, true}, {14336, true}}, 2, 4}, {1344, 4}},
    {kA100, {{{63, true}, {3, false}, {128, true}, {29, false}}, 4, 4}, {356352, 12}},
    {kA100, {{{128, true}, {128, true}, {256, true}}, 2, 4}, {1728, 4}},
    {kA100, {{{128, true}, {4, true}, {4096, true}}, 4, 4}, {1024, 4}},
    {kA100, {{{18, true}, {128, true}, {7096, true}}, 2, 2}, {864, 4}},
    {kA100, {{{79424, true}, {13888, false}}, 2, 4}, {55552, 277315584, 436, 277315584, 436}},
    {kA100, {{{34176, true}, {15808, false}}, 4, 4}, {137592832, 496, 137592832, 496}},
    {kL40S, {{{2, false}, {40, true}}, 4, 4}, {}},
    {kL40S, {{{242, true}, {8, true}, {2, true}}, 2, 4}, {}},
    {kL40S, {{{52, true}, {1088, true}, {286, false}}, 2, 4}, {12519936, 20}},
    {kL40S, {{{8896, true}, {2048, false}}, 2, 4}, {112197632, 64}},
    {kL40S, {{{48, true}, {192, true}, {1024, true}}, 2, 4}, {1704, 4}},
    {kL40S, {{{42, false}, {512, true}, {291, true}}, 2, 4}, {1848, 168}},
    {kL40S, {{{128, true}, {1, true}, {3328, true}}, 2, 4}, {208, 4}},
    {kL40S, {{{11, true}, {34, true}, {12736, true}}, 4, 4}, {1704, 4}},
    {kL40S, {{{79424, true}, {13888, false}}, 2, 4}, {55552, 277315584, 436, 277315584, 436}},
    {kL40S, {{{22, true}, {10816, true}, {4160, false}}, 4, 4}, {249200640, 132, 249200640, 132}},
    {kRtx4090, {{{8, false}, {320, true}, {64, true}}, 4, 4}, {}},
    {kRtx4090, {{{4, true}, {192, true}, {128, true}}, 2, 4}, {}},
    {kRtx4090, {{{16, true}, {3, false}, {704, true}, {128, false}}, 2, 4}, {34603008, 12}},
    {kRtx4090, {{{11, true}, {34, true}, {12736, true}}, 4, 4}, {1536, 4}},
    {kRtx4090, {{{2, true}, {1216, true}, {1152, false}}, 2, 4}, {22413312, 36}},
    {kRtx4090, {{{128, true}, {8, true}, {4288, true}}, 2, 4}, {1536, 4}},
    {kRtx4090, {{{7123, true}, {256, false}}, 4, 4}, {14680064, 8}},
    {kRtx4090, {{{4, false}, {512, true}, {4800, true}}, 2, 4}, {1536, 16}},
    {kRtx4090, {{{79424, true}, {13888, false}}, 2, 4}, {55552, 277315584, 436, 277315584, 436}},
    {kRtx4090, {{{34176, true}, {15808, false}}, 4, 4}, {137592832, 496, 137592832, 496}},
    {kB200, {{{1, true}, {128, true}, {128, false}}, 4, 4}, {}},
    {kB200, {{{1, true}, {16, true}, {403, true}}, 2, 4}, {}},
    {kB200, {{{5, true}, {256, true}, {320, false}}, 2, 4}, {3276800, 12}},
    {kB200, {{{184128, true}, {15, false}}, 2, 4}, {86400, 8}},
    {kB200, {{{16, true}, {7, true}, {4096, true}}, 4, 4}, {224, 4}},
    {kB200, {{{14, true}, {28, true}, {512, true}}, 4, 4}, {100, 4}},
    {kB200, {{{64, true}, {41, true}, {6160, true}}, 4, 4}, {2368, 4}},
    {kB200, {{{9, true}, {1, false}, {192, true}, {128, false}}, 4, 4}, {1769472, 4}},
    {kB200, {{{79424, true}, {13888, false}}, 2, 4}, {55552, 277315584, 436, 277315584, 436}},
    {kB200, {{{5, true}, {16128, true}, {11887, false}}, 4, 4}, {15215360, 1488, 15215360, 1488}},
    {kT4, {{{31, false}, {28, true}, {2048, true}}, 2, 4}, {}},
    {kT4, {{{43, true}, {2, false}, {60, true}, {435, false}}, 4, 4}, {}},
    {kT4, {{{192, true}, {2, true}, {3372, true}}, 2, 4}, {320, 4}},
    {kT4, {{{61, false}, {256, true}, {896, true}}, 2, 4}, {488, 244}},
    {kT4, {{{8192, true}, {192, false}}, 2, 4}, {12582912, 8}},
    {kT4, {{{32, true}, {1984, true}, {192, false}}, 2, 4}, {15728640, 8}},
    {kT4, {{{3, true}, {64, true}, {14336, true}}, 2, 4}, {320, 4}},
    {kT4, {{{4, true}, {10, true}, {3778, true}}, 2, 2}, {38, 4}},
    {kT4, {{{79424, true}, {13888, false}}, 2, 4}, {55552, 277315584, 436, 277315584, 436}},
    {kT4, {{{34176, true}, {15808, false}}, 4, 4}, {137592832, 496, 137592832, 496}},
    {kA10G, {{{16, true}, {256, false}, {64, false}}, 4, 4}, {}},
    {kA10G, {{{5, true}, {41, true}, {16, false}}, 2, 4}, {}},
    {kA10G, {{{4, true}, {27, true}, {8192, true}}, 4, 4}, {432, 4}},
    {kA10G, {{{4, true}, {4781, true}, {2048, false}}, 2, 4}, {62914560, 64}},
    {kA10G, {{{11, false}, {654, true}, {512, true}}, 4, 4}, {968, 44}},
    {kA10G, {{{194, true}, {64, true}, {4032, true}}, 4, 4}, {1528, 4}},
    {kA10G, {{{7, true}, {6, false}, {448, true}, {256, false}}, 2, 4}, {38535168, 48}},
    {kA10G, {{{10, true}, {128, true}, {14336, true}}, 2, 4}, {960, 4}},
    {kA10G, {{{79424, true}, {13888, false}}, 2, 4}, {55552, 277315584, 436, 277315584, 436}},
    {kA10G, {{{22, true}, {10816, true}, {4160, false}}, 4, 4}, {249200640, 132, 249200640, 132}},
};

const std::vector<Point<EmbeddingBackward>> kEmbeddings = {
    {kH200, {4096, 1000, 64, 2}, {32768, 32768, 32768, 83455, 128000, 32768, 8, 32768, 1279, 8000, 8000, 1279, 8, 11272, 360704}},
    {kH200, {397879, 5258, 64, 2}, {3183032, 3183032, 3183032, 6472191, 673024, 3183032, 8, 3183032, 2559, 42064, 42064, 1279, 8, 360360, 11531520}},
    {kH200, {273585, 56883, 64, 2}, {2188680, 2188680, 2188680, 4455935, 7281024, 2188680, 8, 2188680, 2047, 455064, 455064, 2047, 8, 673928, 21565696}},
    {kH200, {235952, 188027, 64, 2}, {1887616, 1887616, 1887616, 3845631, 24067456, 1887616, 8, 1887616, 2047, 1504216, 1504216, 4607, 8, 1692976, 54175232}},
    {kH200, {4096, 10, 64, 2}, {32768, 32768, 32768, 83455, 1280, 32768, 8, 32768, 1279, 80, 80, 1279, 8, 3352, 3352, 2560}},
    {kH200, {4194304, 1000, 64, 2}, {33554432, 33554432, 33554432, 68058623, 128000, 33554432, 8, 33554432, 16127, 8000, 8000, 1279, 8, 3363440, 107630080}},
    {kA100, {4096, 1000, 64, 2}, {32768, 32768, 32768, 84479, 128000, 32768, 8, 32768, 1279, 8000, 8000, 1279, 8, 11272, 360704}},
    {kA100, {235952, 188027, 64, 2}, {1887616, 1887616, 1887616, 3855871, 24067456, 1887616, 8, 1887616, 3327, 1504216, 1504216, 4607, 8, 1692976, 54175232}},
    {kA100, {440230, 166248, 64, 2}, {3521840, 3521840, 3521840, 7178751, 21279744, 3521840, 8, 3521840, 5119, 1329984, 1329984, 4095, 8, 1682168, 53829376}},
    {kA100, {131072, 10, 4096, 2}, {1048576, 1048576, 1048576, 2149887, 81920, 1048576, 8, 1048576, 2303, 80, 80, 1279, 8, 104936, 104936, 163840}},
    {kA100, {16384, 10, 4096, 2}, {131072, 131072, 131072, 284159, 81920, 131072, 8, 131072, 1279, 80, 80, 1279, 8, 13184, 13184, 163840}},
    {kA100, {4194304, 1000, 64, 2}, {33554432, 33554432, 33554432, 68244991, 128000, 33554432, 8, 33554432, 38655, 8000, 8000, 1279, 8, 3363440, 107630080}},
    {kL40S, {4096, 1000, 64, 2}, {32768, 32768, 32768, 84479, 128000, 32768, 8, 32768, 1279, 8000, 8000, 1279, 8, 11272, 360704}},
    {kL40S, {469291, 103539, 64, 2}, {3754328, 3754328, 3754328, 7651839, 13252992, 3754328, 8, 3754328, 24575, 828312, 828312, 3071, 8, 1203744, 38519808}},
    {kL40S, {1048576, 1000, 64, 2}, {8388608, 8388608, 8388608, 17074687, 128000, 8388608, 8, 8388608, 53503, 8000, 8000, 1279, 8, 846856, 27099392}},
    {kL40S, {365128, 162356, 64, 2}, {2921024, 2921024, 2921024, 5957631, 20781568, 2921024, 8, 2921024, 19455, 1298848, 1298848, 4095, 8, 1590944, 50910208}},
    {kL40S, {131072, 10, 100, 4}, {1048576, 1048576, 1048576, 2149887, 4000, 1048576, 8, 1048576, 7679, 80, 80, 1279, 8, 104936, 104936}},
    {kL40S, {4194304, 1000, 64, 2}, {33554432, 33554432, 33554432, 68244991, 128000, 33554432, 8, 33554432, 210943, 8000, 8000, 1279, 8, 3363440, 107630080}},
    {kRtx5090, {4096, 1000, 64, 2}, {32768, 32768, 32768, 83455, 128000, 32768, 8, 32768, 1279, 8000, 8000, 1279, 8, 11272, 360704}},
    {kRtx5090, {524288, 1000, 64, 2}, {4194304, 4194304, 4194304, 8522239, 128000, 4194304, 8, 4194304, 3327, 8000, 8000, 1279, 8, 427424, 13677568}},
    {kRtx5090, {555951, 162030, 64, 2}, {4447608, 4447608, 4447608, 9036287, 20739840, 4447608, 8, 4447608, 3583, 1296240, 1296240, 4095, 8, 1741000, 55712000}},
    {kRtx5090, {283131, 165932, 64, 2}, {2265048, 2265048, 2265048, 4610559, 21239296, 2265048, 8, 2265048, 2303, 1327456, 1327456, 4095, 8, 1553960, 49726720}},
    {kRtx5090, {4096, 10, 64, 2}, {32768, 32768, 32768, 83455, 1280, 32768, 8, 32768, 1279, 80, 80, 1279, 8, 3352, 3352, 2560}},
    {kRtx5090, {4194304, 1000, 64, 2}, {33554432, 33554432, 33554432, 68058623, 128000, 33554432, 8, 33554432, 18687, 8000, 8000, 1279, 8, 3363440, 107630080}},
    {kB200, {4096, 1000, 64, 2}, {32768, 32768, 32768, 83455, 128000, 32768, 8, 32768, 1279, 8000, 8000, 1279, 8, 11272, 360704}},
    {kB200, {148118, 94425, 64, 2}, {1184944, 1184944, 1184944, 2420735, 12086400, 1184944, 8, 1184944, 1791, 755400, 755400, 2815, 8, 873888, 27964416}},
    {kB200, {66592, 5817, 64, 2}, {532736, 532736, 532736, 1097727, 744576, 532736, 8, 532736, 1535, 46536, 46536, 1279, 8, 99808, 3193856}},
    {kB200, {6144, 1000, 64, 2}, {49152, 49152, 49152, 117247, 128000, 49152, 8, 49152, 1279, 8000, 8000, 1279, 8, 12912, 413184}},
    {kB200, {131072, 10, 64, 2}, {1048576, 1048576, 1048576, 2143743, 1280, 1048576, 8, 1048576, 1791, 80, 80, 1279, 8, 104936, 104936, 2560}},
    {kB200, {4194304, 1000, 64, 2}, {33554432, 33554432, 33554432, 68058623, 128000, 33554432, 8, 33554432, 18687, 8000, 8000, 1279, 8, 3363440, 107630080}},
    {kT4, {4096, 1000, 64, 2}, {32768, 32768, 32768, 84479, 128000, 32768, 8, 32768, 1279, 8000, 8000, 1279, 8, 11272, 360704}},
    {kT4, {534955, 110403, 64, 2}, {4279640, 4279640, 4279640, 8771071, 14131584, 4279640, 8, 4279640, 27903, 883224, 883224, 3071, 8, 1311184, 41957888}},
    {kT4, {481550, 164620, 64, 2}, {3852400, 3852400, 3852400, 7898111, 21071360, 3852400, 8, 3852400, 25343, 1316960, 1316960, 4095, 8, 1702200, 54470400}},
    {kT4, {6144, 1000, 64, 2}, {49152, 49152, 49152, 118271, 128000, 49152, 8, 49152, 1535, 8000, 8000, 1279, 8, 12912, 413184}},
    {kT4, {4096, 10, 100, 4}, {32768, 32768, 32768, 84479, 4000, 32768, 8, 32768, 1279, 80, 80, 1279, 8, 3352, 3352}},
    {kT4, {4194304, 1000, 64, 2}, {33554432, 33554432, 33554432, 68651519, 128000, 33554432, 8, 33554432, 210943, 8000, 8000, 1279, 8, 3363440, 107630080}},
    {kA10G, {4096, 1000, 64, 2}, {32768, 32768, 32768, 84479, 128000, 32768, 8, 32768, 1279, 8000, 8000, 1279, 8, 11272, 360704}},
    {kA10G, {1000000, 1000, 64, 2}, {8000000, 8000000, 8000000, 16284159, 128000, 8000000, 8, 8000000, 51199, 8000, 8000, 1279, 8, 808000, 25856000}},
    {kA10G, {3000001, 1000, 64, 2}, {24000008, 24000008, 24000008, 48818175, 128000, 24000008, 8, 24000008, 151039, 8000, 8000, 1279, 8, 2408000, 77056000}},
    {kA10G, {340678, 26699, 64, 2}, {2725424, 2725424, 2725424, 5559295, 3417472, 2725424, 8, 2725424, 18175, 213592, 213592, 1535, 8, 486128, 15556096}},
    {kA10G, {4096, 10, 100, 4}, {32768, 32768, 32768, 84479, 4000, 32768, 8, 32768, 1279, 80, 80, 1279, 8, 3352, 3352}},
    {kA10G, {4194304, 1000, 64, 2}, {33554432, 33554432, 33554432, 68244991, 128000, 33554432, 8, 33554432, 210943, 8000, 8000, 1279, 8, 3363440, 107630080}},
    {kH200, {131072, 53, 4096, 4}, {1048576, 1048576, 1048576, 2143743, 868352, 1048576, 8, 1048576, 1535, 424, 424, 1279, 8, 105280, 105280}},
    {kH200, {131072, 137, 1536, 4}, {1048576, 1048576, 1048576, 2143743, 841728, 1048576, 8, 1048576, 1535, 1096, 1096, 1279, 8, 105952, 105952}},
    {kA100, {131072, 53, 4096, 4}, {1048576, 1048576, 1048576, 2149887, 868352, 1048576, 8, 1048576, 2303, 424, 424, 1279, 8, 105280, 105280}},
    {kA100, {131072, 137, 1536, 4}, {1048576, 1048576, 1048576, 2149887, 841728, 1048576, 8, 1048576, 2303, 1096, 1096, 1279, 8, 105952, 105952}},
    {kT4, {5000, 9, 8, 4}, {40000, 40000, 40000, 99327, 288, 40000, 8, 40000, 1279, 72, 72, 1279, 8, 4072, 4072}},
    {kT4, {3073, 100, 8, 4}, {24584, 24584, 24584, 68607, 3200, 24584, 8, 24584, 1279, 800, 800, 1279, 8, 3256, 3256}},
};

const std::vector<Point<NormBackward>> kNorms = {
    {kH200, {65536, 640, 2, true}, {}},
    {kH200, {65536, 640, 2, false}, {}},
    {kH200, {65536, 1728, 2, true}, {}},
    {kH200, {100000, 2111, 2, false}, {2094112, 4222}},
    {kH200, {3000000, 100, 2, true}, {1638400, 1638400, 200, 1638400, 8, 200, 1638400, 8}},
    {kH200, {262144, 1696, 4, true}, {4192512, 4192512, 6784, 6784}},
    {kH200, {65568, 2272, 4, false}, {}},
    {kA100, {65536, 640, 2, true}, {}},
    {kA100, {65536, 640, 2, false}, {}},
    {kA100, {65536, 1728, 2, true}, {}},
    {kA100, {65537, 1727, 4, false}, {4186248, 6908}},
    {kA100, {1000003, 64, 4, true}, {4194304, 4194304, 256, 2097152, 4, 256, 2097152, 4}},
    {kA100, {100000, 64, 4, false}, {800000, 256, 409600, 4}},
    {kA100, {100000, 2272, 4, true}, {}},
    {kT4, {65536, 640, 2, true}, {}},
    {kT4, {65536, 640, 2, false}, {}},
    {kT4, {65536, 1728, 2, true}, {}},
    {kT4, {65537, 64, 4, false}, {524544, 256, 278528, 4}},
    {kT4, {3000000, 64, 4, false}, {4194304, 256, 2097152, 4}},
    {kT4, {65568, 100, 4, true}, {819600, 819600, 400, 435200, 8, 400, 435200, 8}},
    {kT4, {65568, 2272, 2, false}, {}},
};
// clang-format on

std::vector<std::int64_t> sizes_of(const ScratchSteps& steps) {
  std::vector<std::int64_t> sizes;
  for (const ScratchStep& step : steps) {
    if (step.kind != Kind::release) sizes.push_back(step.bytes);
  }
  return sizes;
}

/// Every block is asked for once, in the order of their numbers, and returned once, unless it is a
/// result, with the size it was asked for.
void require_balanced(const ScratchSteps& steps) {
  std::map<std::int64_t, std::int64_t> held;
  std::int64_t made = 0;
  for (const ScratchStep& step : steps) {
    if (step.kind == Kind::release) {
      REQUIRE(held.contains(step.block));
      REQUIRE(held[step.block] == step.bytes);
      held.erase(step.block);
    } else {
      REQUIRE(step.block == made++);
      if (step.kind != Kind::result) held[step.block] = step.bytes;
    }
  }
  REQUIRE(held.empty());
}

template <class Operation, class Scratch>
void require_recorded(const std::vector<Point<Operation>>& points, Scratch scratch) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [gpu, operation, sizes] = points[i];
    INFO("point " << i << ", " << gpu.name);
    const ScratchSteps steps = scratch(operation, device_of(gpu.capability, gpu.multiprocessors));
    CHECK(sizes_of(steps) == sizes);
    require_balanced(steps);
  }
}

}  // namespace

TEST_CASE("reductions ask for what PyTorch's history shows", "[kernel_scratch]") {
  require_recorded(kReductions, reduction_scratch);
}

TEST_CASE("an embedding's backward pass asks for what PyTorch's history shows",
          "[kernel_scratch]") {
  require_recorded(kEmbeddings, embedding_backward_scratch);
}

TEST_CASE("a norm's backward pass asks for what PyTorch's history shows", "[kernel_scratch]") {
  require_recorded(kNorms, norm_backward_scratch);
}

TEST_CASE("the named sums are those of their axes", "[kernel_scratch]") {
  const LaunchDevice h200 = device_of({9, 0}, 132);
  const LaunchDevice a100 = device_of({8, 0}, 108);
  const auto sizes = [](const Reduction& reduction, const LaunchDevice& device) {
    return sizes_of(reduction_scratch(reduction, device));
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes(sum_of_rows(256, 768, 2), h200).empty());
  CHECK(sizes(sum_of_rows(4096, 3072, 4), h200) == Sizes{100663296, 96});
  CHECK(sizes(sum_of_rows(16384, 2304, 2), h200) == Sizes{139198464, 72});
  CHECK(sizes(sum_of_rows(16384, 2304, 2), a100) == Sizes{113246208, 72});
  CHECK(sizes(sum_of_rows(32768, 14336, 2), h200) == Sizes{234881024, 448});
  CHECK(sizes(sum_of_columns(4096, 4096, 2), h200).empty());
  CHECK(sizes(sum_of_middle(8, 4, 131072, 2), h200).empty());
  CHECK(sizes({sum_of_all(524288, 8).axes, 8, 8}, h200) == Sizes{512, 4});
  CHECK(sizes({sum_of_all(524288, 1).axes, 1, 1}, h200) == Sizes{64, 4});
}

TEST_CASE("leading dimensions are rows, and those of size 1 do not count", "[kernel_scratch]") {
  const LaunchDevice device = device_of({9, 0}, 132);
  const std::int64_t batch = GENERATE(1, 2, 8);
  const std::int64_t length = GENERATE(1, 512, 2048);
  const Reduction gain{{{batch, true}, {length, true}, {768, false}}, 2};
  CHECK(reduction_scratch(gain, device) ==
        reduction_scratch(sum_of_rows(batch * length, 768, 2), device));
}

TEST_CASE("a small embedding needs nothing beside the gradient", "[kernel_scratch]") {
  const ScratchSteps steps =
      embedding_backward_scratch({3072, 50257, 768, 4}, device_of({9, 0}, 132));
  CHECK(steps == ScratchSteps{{Kind::result, 0, std::int64_t{50257} * 768 * 4}});
}

TEST_CASE("sorts of 64-bit integers ask for what PyTorch's history shows", "[kernel_scratch]") {
  const LaunchDevice h200 = device_of({9, 0}, 132);
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes_of(sort_scratch(512, h200)) == Sizes{4096});
  CHECK(sizes_of(sort_scratch(4096, h200)) == Sizes{32768});
  CHECK(sizes_of(sort_scratch(8192, h200)) == Sizes{65536, 150015});
  CHECK(sizes_of(sort_scratch(262144, h200)) == Sizes{2097152, 4269567});
}

TEST_CASE("adding rows at indices asks for what PyTorch's history shows", "[kernel_scratch]") {
  const LaunchDevice h200 = device_of({9, 0}, 132);
  using Sizes = std::vector<std::int64_t>;
  const auto of = [](std::int64_t each, std::int64_t sort) {
    return Sizes{each, each, each, each, each, sort};
  };
  // As many pairs as one block sorts, one more each way of two, and keys of two bytes.
  CHECK(sizes_of(index_sum_scratch({2304, 2304}, h200)) == of(18432, 1));
  CHECK(sizes_of(index_sum_scratch({2306, 2306}, h200)) == of(18448, 43007));
  CHECK(sizes_of(index_sum_scratch({4096, 4096}, h200)) == of(32768, 71167));
  CHECK(sizes_of(index_sum_scratch({32768, 32768}, h200)) == of(262144, 537087));
  // Keys of one byte are sorted in one sweep.
  CHECK(sizes_of(index_sum_scratch({9006, 12}, h200)) == of(72048, 4607));
  CHECK(sizes_of(index_sum_scratch({13509, 9}, h200)) == of(108072, 5631));
}

TEST_CASE("grouped products ask for what PyTorch's history shows", "[kernel_scratch]") {
  using Sizes = std::vector<std::int64_t>;
  const auto of = [](const Gpu& gpu, const GroupedProduct& product) {
    return sizes_of(
        grouped_product_scratch(product, device_of(gpu.capability, gpu.multiprocessors)));
  };
  CHECK(of(kH200, {8, 64, 688}) == Sizes{480, 67584});
  CHECK(of(kH200, {8, 288, 192}) == Sizes{480, 67584});
  CHECK(of(kB200, {4, 128, 192}) == Sizes{240, 795648});
  CHECK(of(kB200, {64, 8, 192}) == Sizes{3840, 795648});
  CHECK(of(kB200, {8, 288, 192}) == Sizes{480, 871424});
  CHECK(of(kB200, {8, 288, 64}) == Sizes{480, 795648});
  CHECK(of({"of fewer", {10, 0}, 100}, {4, 128, 192}) == Sizes{240, 537600});
  // An odd number of groups has its pointers in pairs.
  CHECK(of(kH200, {7, 64, 688}).front() == 7 * 36 + 8 * 24);
  CHECK(of(kA100, {8, 64, 688}).empty());
  CHECK(of(kRtx5090, {8, 64, 688}).empty());
}

TEST_CASE("scratch is returned in the recorded order", "[kernel_scratch]") {
  const auto released = [](const ScratchSteps& steps) {
    std::vector<std::int64_t> blocks;
    for (const ScratchStep& step : steps) {
      if (step.kind == Kind::release) blocks.push_back(step.block);
    }
    return blocks;
  };
  const LaunchDevice device = device_of({9, 0}, 132);
  CHECK(released(embedding_backward_scratch({5000, 1000, 64, 2}, device)) ==
        std::vector<std::int64_t>{3, 2, 8, 7, 11, 14, 13, 12, 10, 9, 6, 5, 1, 0});
  CHECK(released(embedding_backward_scratch({5000, 10, 64, 2}, device)) ==
        std::vector<std::int64_t>{3, 2, 8, 7, 11, 15, 14, 13, 12, 10, 9, 6, 5, 1, 0});
  CHECK(released(reduction_scratch(sum_of_rows(79424, 13888, 2), device)) ==
        std::vector<std::int64_t>{2, 1, 4, 3, 0});
}

TEST_CASE("GPUs without kernels in PyTorch 2.11 have no launch device", "[kernel_scratch]") {
  CHECK_FALSE(launch_device({7, 0}, 80).has_value());
}

}  // namespace memest
