package calls

import (
	"slices"

	"weft/graph"
	"weft/internal/refusal"
	"weft/train"
)

// memoryGraph is a graph of a request, whose edges stand in memory.
type memoryGraph struct {
	Types     []train.VertexType `json:"types"`
	Relations []memoryRelation   `json:"relations"`
}

// memoryRelation is a relation of a memoryGraph. Its names are empty in a graph of one type. Memory has the
// sources of all edges, and then their targets (int32).
type memoryRelation struct {
	Source string `json:"source"`
	Name   string `json:"name"`
	Target string `json:"target"`
	Edges  int    `json:"edges"`
	Memory int    `json:"memory"`
}

// graph sorts the edges of a graph in memory. The graph keeps nothing of that memory.
func (s *server) graph(m *memoryGraph) (*graph.Graph, error) {
	g := &graph.Graph{Provenance: "a call of a net"}
	for _, t := range m.Types {
		if t.Vertices < 0 {
			return nil, refusal.Errorf("x: %d vertices of type %q", t.Vertices, t.Name)
		}
		g.Types = append(g.Types, graph.VertexType{Type: t.Name, Frame: graph.Frame{Count: t.Vertices}})
	}
	for _, r := range m.Relations {
		count := func(name string) int {
			k := slices.IndexFunc(g.Types, func(t graph.VertexType) bool { return t.Type == name })
			if k < 0 {
				return 0 // Check refuses the name
			}
			return g.Types[k].Count
		}
		if r.Edges < 0 {
			return nil, refusal.Errorf("edge_index: %d edges", r.Edges)
		}
		ends, err := s.integers(r.Memory, 2*r.Edges)
		if err != nil {
			return nil, err
		}
		sorted, err := graph.NewBipartite(count(r.Source), count(r.Target), graph.Edges{
			Source: ends[:r.Edges], Target: ends[r.Edges:],
		})
		if err != nil {
			return nil, refusal.Errorf("edge_index: %w", err)
		}
		sorted.Source, sorted.Name, sorted.Target = r.Source, r.Name, r.Target
		g.Relations = append(g.Relations, sorted)
	}
	return g, g.Check()
}
