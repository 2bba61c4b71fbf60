package main

import (
	"math/rand/v2"
	"testing"

	"weft/internal/assert"
)

// Each kind is as often the first as any other, however many of it a line has; the same seed draws the same.
func TestMixed(t *testing.T) {
	all := []mutant{{Kind: "index", New: "a"}}
	for end := range 99 {
		all = append(all, mutant{Kind: "constant", End: end})
	}
	first := func() (indexes int) {
		random := rand.New(rand.NewPCG(1, 0))
		for range 1000 {
			some := append([]mutant{}, all...)
			if mixed(random, some)[0].Kind == "index" {
				indexes++
			}
			assert.Equal(t, false, some[0].Kind == some[1].Kind)
		}
		return indexes
	}
	indexes := first()
	assert.Near(t, 500, float64(indexes), 60)
	assert.Equal(t, indexes, first())
}
