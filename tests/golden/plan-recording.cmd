memest plan tests/record/family.memrec --at seq=1024 --gpu l4,a100-sxm-80gb,h100-sxm-80gb
