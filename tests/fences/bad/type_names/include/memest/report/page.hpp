#pragma once

namespace memest {

struct Row {
  int cells = 0;
};

}  // namespace memest
