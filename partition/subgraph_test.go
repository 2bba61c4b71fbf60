package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestKeep: shares without some edges equal the shares of a graph without them, with their halos. The places
// are those of the graph's vertices. Relations without a rule stay.
func TestKeep(t *testing.T) {
	keep := func(relation, u, v int32, before int) bool { return (u*7+v*11+relation+int32(before))%3 > 0 }
	stays := func(relation int) bool { return relation == 3 }
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := made(t, 1+r.IntN(30), r.IntN(150), kinds[[]string{"bare", "dense"}[seed%2]], seed)
		if seed%5 > 2 { // two types, of which the first has two relations
			var e graph.Edges
			for range 40 {
				e.Source, e.Target = append(e.Source, int32(r.IntN(g.Vertices()))),
					append(e.Target, int32(r.IntN(9)))
			}
			other, err := graph.NewBipartite(g.Vertices(), 9, e)
			require.NoError(t, err)
			back := *other.Reversed(g.Vertices())
			back.Source, back.Name, back.Target = "b", "back", "a"
			other.Source, other.Name, other.Target = "a", "z", "b"
			own := g.Relations[0]
			own.Source, own.Name, own.Target = "a", "x", "a"
			again := own
			again.Name = "y"
			g.Types[0].Type = "a"
			g.Types = append(g.Types, graph.VertexType{Type: "b", Frame: graph.Frame{Count: 9}})
			g.Relations = []graph.Relation{own, other, back, again}
		}
		less := *g.Copy()
		less.Relations = slices.Clone(g.Relations)
		for i := range less.Relations {
			r := &less.Relations[i]
			if stays(i) {
				continue
			}
			kept, err := r.Where(func(k int64, u, v int32) bool {
				before := 0
				for l := k - 1; l >= r.Indptr[v] && r.Sources[l] == u; l-- {
					before++
				}
				return keep(int32(i), u, v, before)
			})
			require.NoError(t, err)
			*r = kept
		}
		a := &Assignment{K: 1 + r.IntN(5), Parts: make([]int32, g.Vertices())}
		for v := range a.Parts {
			a.Parts[v] = int32(r.IntN(a.K))
		}
		t.Run(fmt.Sprintf("%d, %d partitions", seed, a.K), func(t *testing.T) {
			shares, err := Split(g, a)
			require.NoError(t, err)
			want, err := Split(&less, a)
			require.NoError(t, err)
			if a.K == 1 {
				shares, want = []*Share{All(g)}, []*Share{All(&less)}
			}
			kept := EdgeSubgraph(func(_ *Share, use func(Rule) error) error {
				return use(func(relation int) func(u, v int32, before int) bool {
					if stays(relation) {
						return nil
					}
					return func(u, v int32, before int) bool { return keep(int32(relation), u, v, before) }
				})
			})
			for p, s := range shares {
				got, err := kept.Restrict(s)
				require.NoError(t, err)
				onlyPairsWith(p, want[p].Edges.Relations)
				onlyPairsWith(p, got.Edges.Relations)
				require.Equal(t, "", same(want[p].Edges, got.Edges), "partition %d", p)
				checkPlaces(t, s)
			}
		})
	}
}

// checkPlaces checks the places of a share's rows, in each type and in all types together.
func checkPlaces(t *testing.T, s *Share) {
	t.Helper()
	var kinds []int
	for kind, rows := range s.Edges.Types {
		kinds = append(kinds, kind)
		places, err := s.Places(kind)
		require.NoError(t, err)
		for row := range rows.Rows {
			at := int32(rows.Starts[s.Edges.P] + row)
			if v := rows.ID(int32(row)); places.ID(at) != v || places.Position(v) != at {
				t.Fatalf("vertex %d at %d: places say %d and %d", v, at, places.ID(at), places.Position(v))
			}
		}
	}
	places, err := s.Places(kinds...)
	require.NoError(t, err)
	n := s.Whole.Number(kinds)
	numbers := n.List(s, func(int) []int32 { return nil })
	if from := places.Starts[s.Edges.P]; numbers != nil {
		require.Equal(t, numbers, places.IDs[from:places.Starts[s.Edges.P+1]], "numbers")
	}
	for v := range int32(places.Vertices()) {
		require.Equal(t, v, places.ID(places.Position(v)), "at %d", places.Position(v))
	}
	if got := n.Vertices(); got != s.Whole.Vertices || got != places.Vertices() {
		t.Fatalf("%d numbers of %d vertices", got, s.Whole.Vertices)
	}
}

// onlyPairsWith clears the halos between other partitions.
func onlyPairsWith(p int, relations []Relation) {
	for i := range relations {
		r := &relations[i]
		for _, halo := range []*[][]int{&r.HaloRows, &r.HaloRowsOut} {
			*halo = slices.Clone(*halo)
			for q, row := range *halo {
				if q == p {
					continue
				}
				only := make([]int, len(row))
				only[p], (*halo)[q] = row[p], only
			}
		}
	}
}

// TestKeepCallsRule: each pass over a share calls the rule once. It calls the result once for each edge into
// and out of a partition.
func TestKeepCallsRule(t *testing.T) {
	const relations, k = 20, 3
	g := made(t, 30, 150, kinds["bare"], 1)
	relation := g.Relations[0]
	g.Types[0].Type, g.Types[0].Count, g.Relations = "a", g.Vertices(), nil
	for i := range relations {
		r := relation
		r.Source, r.Name, r.Target = "a", fmt.Sprint("r", i), "a"
		g.Relations = append(g.Relations, r)
	}
	a := &Assignment{K: k, Parts: make([]int32, g.Vertices())}
	for v := range a.Parts {
		a.Parts[v] = int32(v % k)
	}
	shares, err := Split(g, a)
	require.NoError(t, err)
	rules, answers := 0, 0
	kept := EdgeSubgraph(func(_ *Share, use func(Rule) error) error {
		rules++
		return use(func(int) func(u, v int32, before int) bool {
			return func(int32, int32, int) bool { answers++; return true }
		})
	})
	edges := 2 * len(relation.Sources) * relations // into and out of the partitions
	for _, s := range shares {
		_, err := kept.Restrict(s)
		require.NoError(t, err)
	}
	assert.Equal(t, k, rules)
	assert.Equal(t, edges, answers)
}

// TestPlacesRefused: a share with another vertex than the order of the partitions gives it is refused.
func TestPlacesRefused(t *testing.T) {
	g := made(t, 3, 6, kinds["bare"], 1)
	shares, err := Split(g, &Assignment{K: 2, Parts: []int32{0, 0, 1}})
	require.NoError(t, err)
	for other := range int32(2) {
		shares[1].Edges.Types[0].IDs = []int32{other}
		_, err = shares[1].Places(0)
		assert.Refused(t, err, "vertices of partition 1 are not those", "vertex %d", other)
	}
}
