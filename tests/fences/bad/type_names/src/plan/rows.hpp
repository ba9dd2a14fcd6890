#pragma once

namespace memest {
namespace {

struct Place {
  int rank = 0;
};

}  // namespace

struct Row {
  bool answers = false;
};

}  // namespace memest
