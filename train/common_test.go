package train

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"weft/internal/assert"
)

// TestEdgesInCommon: workers of a machine that slice a partition hold its edges once, and with them compute
// the bits that each has with edges of its own. On a directed graph a matrix and its transpose are
//
//	2·(8·(V+1) + 4·E + 4·E)    row ends, sources, weights
//
// bytes without the self loops, which are counted in 4·V. Others than the first take only columns of rows.
func TestEdgesInCommon(t *testing.T) {
	g, other := tangled(t), tangle(t, 700, 1000)
	r, v := &g.Relations[0], g.Vertices()
	loops, page := 0, func(bytes int) int64 { return int64(bytes+4095) / 4096 * 4096 }
	for row := range v {
		for _, source := range r.Sources[r.Indptr[row]:r.Indptr[row+1]] {
			if int(source) == row {
				loops++
			}
		}
	}
	entries := len(r.Sources) - loops
	structure := 2*(page(8*(v+1))+2*page(4*entries)) + page(4*v)
	for _, c := range []struct {
		words, mesh string
		machines    []int
		once        int  // structures that are not held more than once; −1: of several blocks
		validates   bool // on another graph
	}{
		{"model gcn, norm batch, direction both, drop-edge .2", "tensor=3", []int{0, 0, 0}, 2, false},
		{"model gcn, norm batch", "tensor=4", []int{5, 2, 5, 2}, 2, false},
		{"model gcn, norm batch", "tensor=3", []int{0, 1, 0}, -1, true},
		{"model gat, use-edge-features, heads 3, attention-dropout .3", "tensor=3", []int{1, 0, 0}, 1, false},
		{"model sage, aggregation max", "tensor=2", []int{1, 0}, 0, false},
		{"model gatv2, heads 1, direction both", "graph=2,tensor=2", []int{0, 0, 0, 0}, -1, false},
		{"model sage, direction both", "graph=2,tensor=2/4", []int{0, 0, 0, 0}, -1, false},
		{"model gcn, halo cover", "graph=2,tensor=2", []int{0, 0, 0, 0}, 0, false},
	} {
		t.Run(fmt.Sprint(c.words, c.mesh, c.machines), func(t *testing.T) {
			o := apply(Defaults(), c.words)
			o.Layers, o.Hidden, o.Epochs, o.Threads = 3, 12, 2, 1
			on := func(machines []int) *Result {
				j := onMesh(g, o, c.mesh)
				j.Machines = machines
				if c.validates {
					j.Validate = &Job{Graph: other, Dataset: "other"}
				}
				r, _ := planAndRun(t, j)
				return r
			}
			var each []int
			for worker := range c.machines {
				each = append(each, worker)
			}
			own, common := on(each), on(c.machines)
			sameResults(t, common, own)
			saved := int64(0)
			for worker, bytes := range own.GraphBytes {
				less := bytes - common.GraphBytes[worker]
				saved += less
				first := slices.Index(c.machines, c.machines[worker]) == worker
				if c.once >= 0 && first && less != 0 {
					t.Errorf("worker %d holds %d of %d bytes", worker, common.GraphBytes[worker], bytes)
				}
			}
			if c.once >= 0 {
				assert.Equal(t, int64(c.once)*structure, saved)
			} else if saved < structure/2 || saved > 3*structure {
				t.Errorf("%d bytes less, of a structure of %d", saved, structure)
			}
		})
	}
}

// TestMachinesOfAnotherMesh: the list has each worker's.
func TestMachinesOfAnotherMesh(t *testing.T) {
	j := onMesh(tangle(t, 700, 1000), Defaults(), "tensor=2")
	j.Machines = []int{0, 0, 0}
	_, err := j.Run(context.Background())
	assert.Refused(t, err, "a mesh of 2 workers, with the machines of 3")
}
