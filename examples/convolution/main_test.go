package main

import (
	"bytes"
	"os"
	"testing"

	"weft/internal/require"
)

func Example() {
	main()
	// Output: test accuracy 1.00; vertex 0 is of class 0
}

func TestShort(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	if n := bytes.Count(source, []byte("\n")); n >= 75 {
		t.Errorf("%d lines: a model of one's own should take fewer than 75", n)
	}
}
