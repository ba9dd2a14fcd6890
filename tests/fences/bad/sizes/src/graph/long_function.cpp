namespace memest {

// Sixty lines with the first and the last: at the ceiling.
int at_the_ceiling(int total) {
  total += 0;
  total += 1;
  total += 2;
  total += 3;
  total += 4;
  total += 5;
  total += 6;
  total += 7;
  total += 8;
  total += 9;
  total += 10;
  total += 11;
  total += 12;
  total += 13;
  total += 14;
  total += 15;
  total += 16;
  total += 17;
  total += 18;
  total += 19;
  total += 20;
  total += 21;
  total += 22;
  total += 23;
  total += 24;
  total += 25;
  total += 26;
  total += 27;
  total += 28;
  total += 29;
  total += 30;
  total += 31;
  total += 32;
  total += 33;
  total += 34;
  total += 35;
  total += 36;
  total += 37;
  total += 38;
  total += 39;
  total += 40;
  total += 41;
  total += 42;
  total += 43;
  total += 44;
  total += 45;
  total += 46;
  total += 47;
  total += 48;
  total += 49;
  total += 50;
  total += 51;
  total += 52;
  total += 53;
  total += 54;
  total += 55;
  total += 56;
  return total;
}

int too_long(int total,
             int more) {
  total += 0;
  total += 1;
  total += 2;
  total += 3;
  total += 4;
  total += 5;
  total += 6;
  total += 7;
  total += 8;
  total += 9;
  total += 10;
  total += 11;
  total += 12;
  total += 13;
  total += 14;
  total += 15;
  total += 16;
  total += 17;
  total += 18;
  total += 19;
  total += 20;
  total += 21;
  total += 22;
  total += 23;
  total += 24;
  total += 25;
  total += 26;
  total += 27;
  total += 28;
  total += 29;
  total += 30;
  total += 31;
  total += 32;
  total += 33;
  total += 34;
  total += 35;
  total += 36;
  total += 37;
  total += 38;
  total += 39;
  total += 40;
  total += 41;
  total += 42;
  total += 43;
  total += 44;
  total += 45;
  total += 46;
  total += 47;
  total += 48;
  total += 49;
  total += 50;
  total += 51;
  total += 52;
  total += 53;
  total += 54;
  total += 55;
  if (more > 0) {
    total += more;
  }
  return total;
}

class Holder {
 public:
  [[nodiscard]] int member_too_long() const {
    total_ += 0;
    total_ += 1;
    total_ += 2;
    total_ += 3;
    total_ += 4;
    total_ += 5;
    total_ += 6;
    total_ += 7;
    total_ += 8;
    total_ += 9;
    total_ += 10;
    total_ += 11;
    total_ += 12;
    total_ += 13;
    total_ += 14;
    total_ += 15;
    total_ += 16;
    total_ += 17;
    total_ += 18;
    total_ += 19;
    total_ += 20;
    total_ += 21;
    total_ += 22;
    total_ += 23;
    total_ += 24;
    total_ += 25;
    total_ += 26;
    total_ += 27;
    total_ += 28;
    total_ += 29;
    total_ += 30;
    total_ += 31;
    total_ += 32;
    total_ += 33;
    total_ += 34;
    total_ += 35;
    total_ += 36;
    total_ += 37;
    total_ += 38;
    total_ += 39;
    total_ += 40;
    total_ += 41;
    total_ += 42;
    total_ += 43;
    total_ += 44;
    total_ += 45;
    total_ += 46;
    total_ += 47;
    total_ += 48;
    total_ += 49;
    total_ += 50;
    total_ += 51;
    total_ += 52;
    total_ += 53;
    total_ += 54;
    total_ += 55;
    total_ += 56;
    total_ += 57;
    total_ += 58;
    return total_;
  }

 private:
  int total_ = 0;
};

}  // namespace memest
