package main

func Example() {
	main()
	// Unordered output:
	// gated, graph=1: loss 1.24, test accuracy 0.52
	// gated, graph=4: loss 1.24, test accuracy 0.52
	// attentive, graph=1: loss 0.98, test accuracy 0.64
	// attentive, graph=4: loss 0.98, test accuracy 0.64
}
