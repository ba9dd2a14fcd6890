memest roofline tests/record/worked.memrec.gz --gpu a100-sxm-80gb
