#!/bin/sh
# made.sh BATCH SEQ KIND: hands over what a run of a program at that batch and length recorded. KIND: exact, parting, ragged, late (the point
# that is held out has another size), full (a request fails), idle (a step asks for other work at batch 5) or broken (the program ends with
# exit code 7).
b=$1 s=$2 hidden=$((1024 * b * s)) scores=$((128 * b * s * s))
case $3 in
  ragged) scores=$((1 << (b + s / 128))) ;;
  late) [ "$b $s" = "3 640" ] && scores=$((scores + 8)) ;;
  broken) exit 7 ;;
esac
{
  echo "# allocator trace 1"
  echo "# total: 85899345920"
  echo "# context: 524288000"
  echo "# torch: 2.11.0+cu130"
  echo "# gpu: h100-sxm-80gb"
  echo "p 0 train.py:3 <module>"
  echo "@ 0"
  echo "a 0 104857600 0"
  echo "p 1 train.py:7 forward"
  echo "@ 1"
  echo "a 1 $hidden 0"
  [ "$3 $b" = "parting 5" ] && echo "f 1"
  [ "$3" = full ] && echo "o 1024 0"
  echo "p 2 attention.py:12 scores"
  echo "@ 2"
  echo "a 2 $scores 0"
  echo "= step1.forward"
  echo "f 2"
  [ "$3 $b" = "parting 5" ] || echo "f 1"
  echo "= step1.backward"
  echo "# work: step1"
  echo "w o 1 aten::mm bf16[$((b * s)),1024] bf16[1024,1024] > bf16[$((b * s)),1024]"
  echo "w g 0 0 1 14 14 nn 1024 $((b * s)) 1024 1"
  echo "w = step1.forward"
  [ "$3 $b" = "idle 5" ] && echo "w m 0 0 0 d2h 8"
  echo "w n 0 scale_kernel<4>"
  echo "w o 2 aten::mul bf16[$b,$s,1024] 0.$b > bf16[$b,$s,1024]"
  echo "w k 1 0 2 0 $((b * s / 64)) 1 1 256"
  [ "$b" = 5 ] && echo "w k 1 0 2 0 $((b * s / 64)) 1 1 256"
  echo "w = step1.backward"
} > "$MEMEST_RECORD_FOLDER/1.trace"
