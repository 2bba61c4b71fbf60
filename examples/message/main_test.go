package main

func Example() {
	main()
	// Unordered output:
	// gated, graph=1: loss 1.18, test accuracy 0.47
	// gated, graph=4: loss 1.18, test accuracy 0.47
	// attentive, graph=1: loss 0.96, test accuracy 0.57
	// attentive, graph=4: loss 0.96, test accuracy 0.57
}
