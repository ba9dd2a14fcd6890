// FIXME: overflow
