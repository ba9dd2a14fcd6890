// The codes of Python's pickle format: those of plain data, and those that are refused by name.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace memest {

/// The bytes behind a code: a number of so many bytes, or a text behind a length of so many.
enum class PickleOperand : std::uint8_t { none, number, text };

enum class PickleAction : std::uint8_t {
  refuse,
  skip,  ///< PROTO, FRAME: how the rest is laid out
  stop,
  mark,
  none,
  yes,
  no,
  integer,       ///< unsigned
  negative_too,  ///< of 4 bytes
  long_integer,  ///< of as many bytes as the operand says
  real,          ///< big-endian
  text,
  list,
  dict,
  empty_tuple,
  tuple,        ///< of what is behind the mark
  short_tuple,  ///< of so many values before it
  append,
  appends,
  set_item,
  set_items,
  memoize,
  put,
  get
};

struct PickleOpcode {
  unsigned char code;
  std::string_view name;
  PickleAction action = PickleAction::refuse;
  PickleOperand operand = PickleOperand::none;
  std::uint8_t bytes = 0;  ///< of the operand, or of the length of its text
};

// CPython's Lib/pickle.py. Those that are refused make objects, call what a name stands for, read
// other files, or write numbers as no snapshot does.
inline constexpr std::array<PickleOpcode, 68> kPickleOpcodes = {{
    {0x80, "PROTO", PickleAction::skip, PickleOperand::number, 1},
    {0x95, "FRAME", PickleAction::skip, PickleOperand::number, 8},
    {'.', "STOP", PickleAction::stop},
    {'(', "MARK", PickleAction::mark},
    {'N', "NONE", PickleAction::none},
    {0x88, "NEWTRUE", PickleAction::yes},
    {0x89, "NEWFALSE", PickleAction::no},
    {'K', "BININT1", PickleAction::integer, PickleOperand::number, 1},
    {'M', "BININT2", PickleAction::integer, PickleOperand::number, 2},
    {'J', "BININT", PickleAction::negative_too, PickleOperand::number, 4},
    {0x8a, "LONG1", PickleAction::long_integer, PickleOperand::text, 1},
    {'G', "BINFLOAT", PickleAction::real, PickleOperand::number, 8},
    {0x8c, "SHORT_BINUNICODE", PickleAction::text, PickleOperand::text, 1},
    {'X', "BINUNICODE", PickleAction::text, PickleOperand::text, 4},
    {0x8d, "BINUNICODE8", PickleAction::text, PickleOperand::text, 8},
    {']', "EMPTY_LIST", PickleAction::list},
    {'}', "EMPTY_DICT", PickleAction::dict},
    {')', "EMPTY_TUPLE", PickleAction::empty_tuple},
    {'t', "TUPLE", PickleAction::tuple},
    {0x85, "TUPLE1", PickleAction::short_tuple},
    {0x86, "TUPLE2", PickleAction::short_tuple},
    {0x87, "TUPLE3", PickleAction::short_tuple},
    {'a', "APPEND", PickleAction::append},
    {'e', "APPENDS", PickleAction::appends},
    {'s', "SETITEM", PickleAction::set_item},
    {'u', "SETITEMS", PickleAction::set_items},
    {0x94, "MEMOIZE", PickleAction::memoize},
    {'q', "BINPUT", PickleAction::put, PickleOperand::number, 1},
    {'r', "LONG_BINPUT", PickleAction::put, PickleOperand::number, 4},
    {'h', "BINGET", PickleAction::get, PickleOperand::number, 1},
    {'j', "LONG_BINGET", PickleAction::get, PickleOperand::number, 4},
    {'c', "GLOBAL"},
    {0x93, "STACK_GLOBAL"},
    {'R', "REDUCE"},
    {'b', "BUILD"},
    {'i', "INST"},
    {'o', "OBJ"},
    {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x8e, "BINBYTES8"},
    {0x96, "BYTEARRAY8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'I', "INT"},
    {'L', "LONG"},
    {0x8b, "LONG4"},
    {'F', "FLOAT"},
    {'S', "STRING"},
    {'V', "UNICODE"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'l', "LIST"},
    {'d', "DICT"},
    {'p', "PUT"},
    {'g', "GET"},
}};

}  // namespace memest
