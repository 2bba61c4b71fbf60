package machine

import (
	"math"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// TestProbes: all threads in sum read and write one word of each cache line, and gather one word of each line
// of the random rows, or of one line of each row.
func TestProbes(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		meter := tensor.NewMeter()
		defer meter.Close()
		p := newProbes(threads, 256*rowBytes, meter)
		defer p.release()
		sum := func(probe func(thread int)) (sum int32) {
			clear(p.sums)
			for thread := range threads {
				probe(thread)
				sum += p.sums[thread]
			}
			return sum
		}
		for k := range p.words {
			p.words[k] = int32(k * k)
		}
		var read, gathered int32
		for k := 0; k < len(p.words); k += words {
			read += p.words[k]
		}
		for _, row := range p.rows {
			for k := 0; k < rowWords; k += words {
				gathered += p.words[int(row)*rowWords+k]
			}
		}
		assert.Equal(t, read, sum(p.read), "%d threads: read", threads)
		assert.Equal(t, gathered, sum(p.gather), "%d threads: gathered", threads)
		for k := range p.words {
			p.words[k] = int32(k / rowWords)
		}
		var first int32
		for _, row := range p.rows {
			first += row
		}
		assert.Equal(t, first, sum(p.lines), "%d threads: lines", threads)
		sum(p.write)
		for k, word := range p.words {
			require.Equal(t, 0, word, "%d threads: word %d after a write", threads, k)
		}
	}
}

// TestMeasure: all rates differ. TestExamine of cmd/weft checks their size.
func TestMeasure(t *testing.T) {
	r, err := Measure(2, 1<<20, math.MaxInt64)
	require.NoError(t, err)
	assert.Equal(t, 2, r.Threads)
	known := map[float64]bool{}
	for _, rate := range []float64{r.Read, r.Write, r.Gather, r.Lines, r.Flops, r.BFloat16Flops} {
		if !(rate > 0) || math.IsInf(rate, 0) || known[rate] {
			t.Errorf("a rate is none or another's: %+v", r)
		}
		known[rate] = true
	}
	_, err = Measure(1, 16<<20, 30<<20)
	assert.ErrorContains(t, err, "16 MB are more than half of the 30 MB available")
}

// TestRow: by hand, the first line of a row takes 2 ns, and each other of a row of 8 lines 1 ns.
func TestRow(t *testing.T) {
	r := Rates{Lines: 64 / 2e-9, Gather: 512 / 9e-9}
	for bytes, want := range map[float64]float64{4: 2, 64: 2, 128: 3, 512: 9, 1024: 17} {
		assert.Near(t, want, 1e9*r.Row(bytes), 1e-9, "nanoseconds of %v bytes", bytes)
	}
}
