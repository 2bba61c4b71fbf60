package main

import (
	"slices"
	"testing"
)

func TestReport(t *testing.T) {
	const log = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'fine' for 'sm_90'
ptxas info    : Function properties for fine
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 0 barriers
ptxas info    : Compiling entry function 'bad' for 'sm_90'
ptxas info    : Function properties for bad
ptxas         .     64 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 129 registers, used 1 barriers, 64 bytes cumulative stack size
ptxas info    : Function properties for pointwise_float32
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 65 registers, used 1 barriers
`
	functions, faults := report(log)
	want := []string{
		"bad: 64 bytes of stack frame", "bad: 8 bytes of spill stores", "bad: 4 bytes of spill loads",
		"bad: 129 registers",
		"pointwise_float32: 65 registers",
	}
	if functions != 3 || !slices.Equal(faults, want) {
		t.Errorf("%d functions, %q", functions, faults)
	}
	if functions, faults := report(""); functions != 0 || len(faults) != 1 {
		t.Errorf("of an empty log: %d functions, %q", functions, faults)
	}
}
