package graph

import "testing"

// TestChecksum: graphs that differ in an element of one array, or in where one array ends and the next
// begins, have different checksums, and equal graphs the same.
func TestChecksum(t *testing.T) {
	made := func() *Graph {
		r, err := NewRelation(3, Edges{Source: []int32{0, 1, 2}, Target: []int32{1, 2, 2}, Weights: []float32{1, 2, 3}})
		if err != nil {
			t.Fatal(err)
		}
		return &Graph{
			Relations: []Relation{r}, Features: Features{Columns: 1, Dense: []float32{1, 2, 3}}, Labels: Labels{Classes: 2, Class: []int64{0, 1, 1}},
			Splits: []Split{{Train: []int64{0, 1}, Test: []int64{2}}},
		}
	}
	of := func(g *Graph) string {
		sum, err := g.Checksum()
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	want := of(made())
	for name, change := range map[string]func(g *Graph){
		"edge":    func(g *Graph) { g.Relations[0].Sources[0]++ },
		"weight":  func(g *Graph) { g.Relations[0].Weights[1] = 5 },
		"feature": func(g *Graph) { g.Features.Dense[2] = 0 },
		"class":   func(g *Graph) { g.Labels.Class[0] = 1 },
		"split":   func(g *Graph) { g.Splits[0] = Split{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}} },
	} {
		g := made()
		change(g)
		if of(g) == want {
			t.Errorf("another %s, the same checksum", name)
		}
	}
	if got := of(made()); got != want {
		t.Errorf("%s, and %s again", want, got)
	}
}
