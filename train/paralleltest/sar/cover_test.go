package sar_test

import (
	"sync"
	"testing"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// TestCoverTravels: between two partitions as many rows and partial sums travel as a maximum matching of the
// edges between them has edges (König), and not more than there are sources. So do their gradients. All rows
// travel for a maximum and for attention. HaloAuto sends the cover where it has at most nine tenths of the
// rows.
func TestCoverTravels(t *testing.T) {
	auto := map[bool]bool{} // whether HaloAuto takes a cover
	for name, g := range map[string]*graph.Graph{
		"sparse": paralleltest.ManyEdges(t, 1500, 1), "dense": paralleltest.ManyEdges(t, 900, 6),
		"small": paralleltest.Small(t, true, true),
	} {
		for division, owners := range paralleltest.Dividings(g.Vertices(), 3) {
			for _, along := range []gnn.Along{paralleltest.Stored, paralleltest.Reversed} {
				rows, cover, chosen := travelling(g, owners, along.Reversed)
				for _, c := range []struct {
					layer   string
					halo    edges.Halo
					travels int
					passes  int64
				}{
					{"sum", edges.HaloRows, rows, 1},
					{"sum", edges.HaloCover, cover, 1},
					{"mean", edges.HaloCover, cover, 1},
					{"symmetric", edges.HaloCover, cover, 1},
					{"symmetric", edges.HaloAuto, chosen, 1},
					{"symmetric twice", edges.HaloCover, cover, 2},
					{"maximum", edges.HaloCover, rows, 1},
				} {
					l := paralleltest.Named(c.layer)
					var mu sync.Mutex
					var sent, back int64
					workers(t, g, owners, 3, axis.Options{Prefetch: 1, Halo: c.halo}, nil,
						func(w engine.Config, p *sar.Partition) {
							l.Run(w, p, along, l.Blank(g.Vertices()))
							mu.Lock()
							defer mu.Unlock()
							sent += w.Groups.Halo.Sent(comm.Halo).Bytes
							back += w.Groups.Halo.Sent(comm.HaloGradient).Bytes
						})
					want := c.passes * int64(c.travels*l.In*tensor.Float32.Size())
					if sent != want || back != want {
						t.Errorf("%s, divided %s, %+v, %s of %s: %d bytes and %d of gradients, want %d "+
							"for %d of %d rows",
							name, division, along, edges.HaloNames[c.halo], c.layer, sent, back,
							want, c.travels, rows)
					}
				}
				auto[chosen < rows] = true
				if cover > rows {
					t.Errorf("%s, divided %s: the covers have %d vertices of %d rows", name,
						division, cover, rows)
				}
			}
		}
	}
	if len(auto) < 2 {
		t.Errorf("in all cases a choice of %v", auto)
	}
}

// travelling returns how many rows travel between partitions, and how many vertices the minimum covers
// have, by the textbook's search for augmenting paths from one source after the other. auto has the cover of
// those pairs of partitions where it has at most nine tenths of the rows.
func travelling(g *graph.Graph, owners []int32, reversed bool) (rows, cover, auto int) {
	ends := map[[2]int32]map[int32][]int32{} // for each pair of partitions, the destinations of each source
	all := g.Relations[0].Edges()
	for i, u := range all.Source {
		v := all.Target[i]
		if reversed {
			u, v = v, u
		}
		pair := [2]int32{owners[u], owners[v]}
		if pair[0] == pair[1] {
			continue
		}
		if ends[pair] == nil {
			ends[pair] = map[int32][]int32{}
		}
		ends[pair][u] = append(ends[pair][u], v)
	}
	for _, to := range ends {
		partner, matched := map[int32]int32{}, 0
		for u := range to {
			seen := map[int32]bool{}
			var augments func(u int32) bool
			augments = func(u int32) bool {
				for _, v := range to[u] {
					if seen[v] {
						continue
					}
					seen[v] = true
					if w, taken := partner[v]; !taken || augments(w) {
						partner[v] = u
						return true
					}
				}
				return false
			}
			if augments(u) {
				matched++
			}
		}
		rows, cover = rows+len(to), cover+matched
		if 10*matched <= 9*len(to) {
			auto += matched
		} else {
			auto += len(to)
		}
	}
	return rows, cover, auto
}
