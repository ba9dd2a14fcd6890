// A library that answers nothing itself: see CMakeLists.txt.
