package metric

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestTotal: a total is the exact sum, rounded once, in any order of its terms.
func TestTotal(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	terms := make([]float64, 3000)
	exact := new(big.Float).SetPrec(2000)
	for i := range terms {
		terms[i] = math.Ldexp(random.Float64()-.25, random.IntN(60))
		exact.Add(exact, new(big.Float).SetFloat64(terms[i]))
	}
	want, _ := exact.Float64()
	plain := map[float64]bool{}
	for range 20 {
		random.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		var sum total
		rounded := 0.
		for _, x := range terms {
			sum.add(x)
			rounded += x
		}
		assert.Equal(t, want, sum.value())
		plain[rounded] = true
	}
	if len(plain) == 1 {
		t.Error("the order of these terms does not show in a plain sum either")
	}
	for _, x := range []float64{math.Inf(1), math.Inf(-1)} {
		sum := total{sum: 1}
		sum.add(x)
		sum.add(1)
		assert.Equal(t, x, sum.value())
	}
	sum := total{}
	sum.add(math.NaN())
	if !math.IsNaN(sum.value()) {
		t.Errorf("a NaN gives %v", sum.value())
	}
}

// TestSumsOfAnyWorkers: metrics that are means of fractions are the same to the bit on any number of workers,
// whoever has which rows.
func TestSumsOfAnyWorkers(t *testing.T) {
	const rows = 500
	random := rand.New(rand.NewPCG(3, 4))
	l := &graph.Labels{Columns: 2, Values: make([]float32, 2*rows)}
	predictions, ranks := make([]float32, 2*rows), make([]float64, rows)
	classes := &graph.Labels{Classes: 2, Class: make([]int64, rows)}
	for i := range l.Values {
		l.Values[i], predictions[i] = random.Float32(), random.Float32()
	}
	for i := range ranks {
		ranks[i], classes.Class[i] = float64(1+random.IntN(90)), int64(random.IntN(2))
	}
	measured := map[string]bool{}
	for workers := 1; workers <= 4; workers++ {
		owned := make([][]int64, workers)
		for _, v := range random.Perm(rows) {
			worker := random.IntN(workers)
			owned[worker] = append(owned[worker], int64(v))
		}
		err := launch.Workers(workers, 0, func(c *comm.Comm) error {
			values, err := OfValues(predictions, l, owned[c.Rank()], c)
			if err != nil {
				return err
			}
			var own []float64
			for _, v := range owned[c.Rank()] {
				own = append(own, ranks[v])
			}
			means, err := OfRanks(c, own, rows, []string{MRR, "hits@10"})
			if err != nil {
				return err
			}
			precision, err := ofClasses[AveragePrecision].measure(predictions, classes, owned[c.Rank()], c)
			if c.Rank() == 0 {
				measured[fmt.Sprint(values, means, precision)] = true
			}
			return err
		})
		require.NoError(t, err)
	}
	assert.Equal(t, 1, len(measured))
}
