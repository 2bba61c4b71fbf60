package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A grid has every combination once, the last setting changing fastest.
func TestGrid(t *testing.T) {
	s, err := parse([]byte("settings: {model: gcn}\ngrid:\n  lr: [0.1, 1e-3]\n  residual: [true, false]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.Combinations {
		got = append(got, fmt.Sprint(c, " ", c.Flags()))
	}
	want := []string{
		"lr 0.1, residual true [--model=gcn --lr=0.1 --residual=true]",
		"lr 0.1, residual false [--model=gcn --lr=0.1 --residual=false]",
		"lr 1e-3, residual true [--model=gcn --lr=1e-3 --residual=true]",
		"lr 1e-3, residual false [--model=gcn --lr=1e-3 --residual=false]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Half the values of a log-uniform range lie below its geometric mean, and half of a uniform one below its
// middle. Integers come from both ends.
func TestRandom(t *testing.T) {
	const file = `
random:
  runs: 2000
  seed: 3
  settings:
    lr: {log-uniform: [1e-4, 1]}
    dropout: {uniform: [0.2, 0.6]}
    layers: {integers: [2, 4]}
`
	s, err := parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	below, layers := [2]float64{}, map[string]int{}
	for _, c := range s.Combinations {
		for k, bounds := range [][3]float64{{1e-4, 1e-2, 1}, {.2, .4, .6}} {
			x, err := strconv.ParseFloat(c[k].Value, 64)
			if err != nil || x < bounds[0] || x > bounds[2] {
				t.Fatalf("%s is %s", c[k].Setting, c[k].Value)
			}
			if x < bounds[1] {
				below[k]++
			}
		}
		layers[c[2].Value]++
	}
	for k, n := range below { // five standard deviations of a fair coin
		if math.Abs(n-1000) > 5*math.Sqrt(500) {
			t.Errorf("%v of 2000 values of draw %d lie below the middle", n, k)
		}
	}
	if len(layers) != 3 || layers["2"] < 500 || layers["3"] < 500 || layers["4"] < 500 {
		t.Errorf("layers %v", layers)
	}
	// A seed stands for the same draws in all versions, and another one for others
	for seed, want := range map[string]string{
		"3": "lr 0.22, dropout 0.366, layers 2; lr 0.0512, dropout 0.459, layers 2",
		"4": "lr 0.00285, dropout 0.436, layers 2; lr 0.0285, dropout 0.424, layers 4",
	} {
		s, err := parse([]byte(strings.NewReplacer("seed: 3", "seed: "+seed, "runs: 2000", "runs: 2").Replace(file)))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%v; %v", s.Combinations[0], s.Combinations[1]); got != want {
			t.Errorf("seed %s draws %q, want %q", seed, got, want)
		}
	}
	again, err := parse([]byte(file))
	if err != nil || !slices.EqualFunc(s.Combinations, again.Combinations, func(a, b Combination) bool { return slices.Equal(a, b) }) {
		t.Errorf("the same file draws others: %v", err)
	}
}
