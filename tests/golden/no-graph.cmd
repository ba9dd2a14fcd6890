memest estimate vit-base
