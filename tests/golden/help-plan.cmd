memest plan --help
