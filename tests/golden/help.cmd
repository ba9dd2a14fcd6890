memest --help
