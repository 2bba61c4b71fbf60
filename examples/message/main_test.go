package main

import (
	"os"
	"testing"

	"weft/partition/metis"
)

// TestMain runs METIS where the example has started it.
func TestMain(m *testing.M) {
	metis.Child()
	os.Exit(m.Run())
}

func Example() {
	main()
	// Unordered output:
	// gated, graph=1: loss 1.18, test accuracy 0.47
	// gated, graph=4: loss 1.18, test accuracy 0.47
	// attentive, graph=1: loss 0.96, test accuracy 0.57
	// attentive, graph=4: loss 0.96, test accuracy 0.57
}
