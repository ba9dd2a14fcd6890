#include "memest/report/table.hpp"
