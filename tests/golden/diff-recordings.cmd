memest diff tests/record/worked.memrec.gz tests/record/trained.memrec.gz
