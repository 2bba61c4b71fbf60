package calls

import (
	"fmt"
	"hash/crc32"
	"slices"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
)

// memoryGraph is a graph of a request, whose edges stand in memory.
type memoryGraph struct {
	Types     []train.VertexType `json:"types"`
	Relations []memoryRelation   `json:"relations"`
	// Parts and Points are memory, of which there is one at most; 0: there is none.
	Parts      int `json:"parts"`
	Points     int `json:"points"`
	Dimensions int `json:"dimensions"` // of points
}

// memoryRelation is a relation of a memoryGraph. Its names are empty in a graph of one type. Memory has the
// sources of all edges, and then their targets (int32).
type memoryRelation struct {
	Source string `json:"source"`
	Name   string `json:"name"`
	Target string `json:"target"`
	Edges  int    `json:"edges"`
	Memory int    `json:"memory"`
	Batch  bool   `json:"batch"` // its targets are the graphs of a batch, the last type
}

// vertices is how many there are, without the graphs of a batch.
func (m *memoryGraph) vertices() (n int) {
	batched := slices.ContainsFunc(m.Relations, func(r memoryRelation) bool { return r.Batch })
	for k, t := range m.Types {
		if !batched || k < len(m.Types)-1 {
			n += t.Vertices
		}
	}
	return n
}

// nameOf names a graph in memory, by its counts and a checksum, as part of a sentence.
func (s *server) nameOf(m *memoryGraph) (string, error) {
	vertices, edges, sum := 0, 0, uint32(0)
	for _, t := range m.Types {
		vertices += t.Vertices
		sum = crc32.Update(sum, crc32.IEEETable, fmt.Appendf(nil, "%s %d ", t.Name, t.Vertices))
	}
	for _, r := range m.Relations {
		ends, err := s.integers(r.Memory, 2*r.Edges)
		if err != nil {
			return "", err
		}
		edges += r.Edges
		sum = crc32.Update(sum, crc32.IEEETable, fmt.Appendf(nil, "%s %s %s ", r.Source, r.Name, r.Target))
		sum = crc32.Update(sum, crc32.IEEETable, comm.Bytes(ends))
	}
	if m.Parts != 0 || m.Points != 0 {
		values, err := s.integers(m.Parts+m.Points, m.vertices()*max(1, m.Dimensions))
		if err != nil {
			return "", err
		}
		sum = crc32.Update(sum, crc32.IEEETable, comm.Bytes(values))
	}
	return fmt.Sprintf(" on graph %08x (%d vertices, %d edges)", sum, vertices, edges), nil
}

// unseen is a graph in memory as it is divided: without the graphs of a batch.
func (s *server) unseen(g *graph.Graph, m *memoryGraph) (*partition.Unseen, error) {
	bare, numbers := g.Copy(), make([][]int32, len(g.Types))
	for k, r := range m.Relations {
		if !r.Batch {
			continue
		}
		if len(bare.Relations) > k {
			bare.Relations, bare.Types = bare.Relations[:k], bare.Types[:len(g.Types)-1]
		}
		ends, err := s.integers(r.Memory, 2*r.Edges)
		if err != nil {
			return nil, err
		}
		kind := slices.IndexFunc(g.Types, func(t graph.VertexType) bool { return t.Type == r.Source })
		numbers[kind] = ends[r.Edges:]
	}
	u := &partition.Unseen{Graph: bare, Dimensions: m.Dimensions}
	if len(bare.Types) < len(g.Types) {
		u.Batch = numbers[:len(bare.Types)]
	}
	if m.Points == 0 {
		return u, nil
	}
	if m.Dimensions < 1 {
		return nil, refusal.Errorf("partition_by: positions of %d dimensions", m.Dimensions)
	}
	var err error
	u.Points, err = s.numbers(m.Points, m.vertices()*m.Dimensions)
	return u, err
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
