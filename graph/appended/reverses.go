package appended

import (
	"fmt"
	"slices"

	"weft/graph"
)

// AddReverses adds the reverses of new edges to the relations of the graph that hold the reverses of others,
// but for those that have new edges of their own. Notes say which.
func (a *Addition) AddReverses(g *graph.Graph) (notes []string) {
	for i := range g.Relations {
		source, name, target, ok := g.Relations[i].ReverseOf()
		forward := slices.IndexFunc(g.Relations, func(r graph.Relation) bool {
			s, n, t := r.Ends()
			return s == source && n == name && t == target
		})
		if !ok || forward < 0 || a.Edges[i].Len() > 0 || a.Edges[forward].Len() == 0 {
			continue
		}
		e := a.Edges[forward]
		e.Source, e.Target = e.Target, e.Source
		a.Edges[i] = e
		notes = append(notes, fmt.Sprintf("new edges of %s are added to %s, too, reversed", name,
			g.Relations[i].Name))
	}
	return notes
}
