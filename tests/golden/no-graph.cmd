memest estimate resnet-50
