memest replay tests/record/worked.memrec.gz --gpu a100-sxm-80gb,h100-sxm-80gb,t4
