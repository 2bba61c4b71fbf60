package program_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft/device/devicetest"
	"weft/train/paralleltest"
)

// TestChainsOnCard: a step of random modules on a card has the same bits again, in whatever order its threads
// run. It agrees with the CPU within 1e-6 of the largest value or, where larger terms cancel, with PyTorch in
// float64 as TestChains does. No kernel runs on the CPU. The modules are the first five, or those in the
// folder that WEFT_CHAINS names (`make programs-on-card`).
func TestChainsOnCard(t *testing.T) {
	devicetest.Library(t)
	files, passed, cancelled := chains(t), 0, 0
	if os.Getenv("WEFT_CHAINS") == "" {
		files = files[:5]
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := readGolden(t, file)
			t.Setenv("WEFT_DEVICE", "")
			here := g.compute(t, 1, paralleltest.Grid(1, 1, 1))
			t.Setenv("WEFT_DEVICE", "cuda")
			var there map[string][]float32
			for _, order := range []string{"forward", "forward", "backward", "backward", "drawn", "drawn"} {
				t.Setenv("ON_CPU_ORDER", order)
				again := g.compute(t, 1, paralleltest.Grid(1, 1, 1))
				for name, values := range there {
					if !slices.EqualFunc(values, again[name], sameBits) {
						t.Errorf("%s has other bits where threads run %s", name, order)
					}
				}
				there = again
			}
			alike := true
			for name, values := range here {
				off, largest := away(t, name, there[name], values)
				alike = alike && off <= 1e-6*max(1, largest)
			}
			if !alike {
				g.step(t, 1, paralleltest.Grid(1, 1, 1))
			}
			switch {
			case t.Failed():
			case alike:
				passed++
			default:
				passed, cancelled = passed+1, cancelled+1
			}
		})
	}
	t.Logf("%d of %d modules pass, %d of which are not within 1e-6 of the CPU's, but within 1e-5 of float64",
		passed, len(files), cancelled)
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
