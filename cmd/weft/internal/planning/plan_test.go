package planning

import (
	"strings"
	"testing"

	"weft/cmd/weft/internal/cli"
	"weft/internal/assert"
	"weft/kernel"
)

// TestRatesAreOfThisProgram: kept rates are those of this version of weft, this processor and these kernels.
func TestRatesAreOfThisProgram(t *testing.T) {
	before := cli.Version
	defer func() { cli.Version = before }()
	cli.Version = "1.2.3"
	first := here()
	cli.Version = "1.2.4"
	second := here()
	if first == second || strings.ReplaceAll(first, "1.2.3", "1.2.4") != second {
		t.Errorf("%q of version 1.2.3, %q of 1.2.4", first, second)
	}
	for _, part := range []string{cli.ProcEntry("/proc/cpuinfo", "model name"), kernel.SIMD()} {
		assert.Contains(t, first, part, "does not name")
	}
}
