#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app{"Estimates memory, FLOPs, time and money of neural network training", "memest"};
  app.set_version_flag("--version", "memest " MEMEST_VERSION);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
