memest timeline tests/record/worked.memrec.gz
