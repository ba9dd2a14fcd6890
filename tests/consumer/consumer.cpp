// Another project's program: the installed headers compile in it, and the installed libraries link.
#include "memest/reader/embedded_configs.hpp"
#include "memest/units/quantity.hpp"

int main() { return memest::embedded_configs().empty() ? 1 : 0; }
