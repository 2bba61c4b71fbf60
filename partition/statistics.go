package partition

import "weft/graph"

// Statistics are the counts of a partitioned graph. Lists have an entry for each partition. Entry [p][q] of a
// matrix counts what partition p needs of partition q.
type Statistics struct {
	K       int     `json:"k"`
	Method  string  `json:"method"`
	Seconds float64 `json:"seconds"` // time that the method took
	// CutEdges is the number of edges between different partitions.
	CutEdges      int64   `json:"cut_edges"`
	Vertices      []int   `json:"vertices"`
	Edges         []int64 `json:"edges"`          // in-edges of the partition's vertices
	TrainVertices []int   `json:"train_vertices"` // training vertices of the assignment's split
	// HaloRows counts the distinct vertices of q that are in-neighbours of p's vertices, and is 0 on the
	// diagonal. It is summed over relations.
	HaloRows [][]int `json:"halo_rows"`
	// HaloRowsOut counts the distinct vertices of q that are out-neighbours of p's vertices, and is 0 on the
	// diagonal. p needs these from q if a model aggregates in the reverse direction.
	HaloRowsOut [][]int `json:"halo_rows_out"`
	// Cut counts the edges from q into p. The diagonal counts the edges within p.
	Cut [][]int64 `json:"cut"`
	// Types are the vertices of each partition by vertex type. A record lacks the first type.
	Types [][]int `json:"others,omitempty"`
	// Relations are the halos of each relation if there are several.
	Relations []Halo `json:"relations,omitempty"`
}

// starts returns Rows.Starts for each vertex type: the first position of each partition, and the number of
// vertices.
func (s *Statistics) starts() (starts [][]int) {
	for _, counts := range s.Types {
		at := make([]int, s.K+1)
		for p, n := range counts {
			at[p+1] = at[p] + n
		}
		starts = append(starts, at)
	}
	return starts
}

// Halo is HaloRows and HaloRowsOut of one relation.
type Halo struct {
	Rows    [][]int `json:"halo_rows"`
	RowsOut [][]int `json:"halo_rows_out"`
}

// Halos returns the halos of all relations.
func (s *Statistics) Halos() []Halo {
	if s.Relations == nil {
		return []Halo{{s.HaloRows, s.HaloRowsOut}}
	}
	return s.Relations
}

// Halo returns the number of rows that partition p needs from all others.
func (s *Statistics) Halo(p int) int {
	sum := 0
	for _, rows := range s.HaloRows[p] {
		sum += rows
	}
	return sum
}

// Work estimates the work of a partition: its in-edges, and rowWeight for each row that it owns or receives.
// A row of 64 columns at 1 Gbit/s takes about as long as its products.
func (s *Statistics) Work(p int) float64 {
	return float64(s.Edges[p]) + rowWeight*float64(s.Vertices[p]+s.Halo(p))
}

// Replication returns the number of owned and halo rows divided by the number of owned rows. It is 1 if no
// partition has a halo, and 0 for a graph without vertices.
func (s *Statistics) Replication() float64 {
	own, halo := 0, 0
	for p := range s.K {
		own += s.Vertices[p]
		halo += s.Halo(p)
	}
	if own == 0 {
		return 0
	}
	return float64(own+halo) / float64(own)
}

// measure counts the statistics of an assignment.
func measure(g *graph.Graph, a *Assignment) (*Statistics, error) {
	d := newDivider(g, a, nil)
	for _, e := range d.edges {
		bare := graph.Relation{Indptr: e.from.Indptr, Sources: e.from.Sources}
		e.from = &bare
		for p := range a.K {
			if err := e.list(p, func(*graph.Relation) error { return nil }); err != nil {
				return nil, err
			}
		}
	}
	d.count()
	return &d.whole.Statistics, nil
}

// countVertices counts what needs no edges.
func countVertices(g *graph.Graph, a *Assignment, places []*Places) Statistics {
	s := Statistics{
		K: a.K, Method: a.Method, Seconds: a.Seconds,
		Vertices: make([]int, a.K), Edges: make([]int64, a.K), TrainVertices: make([]int, a.K),
		HaloRows: square[int](a.K), HaloRowsOut: square[int](a.K), Cut: square[int64](a.K),
	}
	if a.Split < len(g.Types[0].Splits) {
		for _, v := range g.Types[0].Splits[a.Split].Train {
			s.TrainVertices[a.Parts[v]]++
		}
	}
	for _, typePlaces := range places {
		counts := make([]int, a.K)
		for p := range a.K {
			counts[p] = typePlaces.Starts[p+1] - typePlaces.Starts[p]
			s.Vertices[p] += counts[p]
		}
		s.Types = append(s.Types, counts)
	}
	return s
}

// add adds a relation: its edges from q into p, and its halo, which is also kept where there are several.
func (s *Statistics) add(cut [][]int64, halo Halo, several bool) {
	for p := range s.K {
		for q := range s.K {
			s.HaloRows[p][q] += halo.Rows[p][q]
			s.HaloRowsOut[p][q] += halo.RowsOut[p][q]
			s.Cut[p][q] += cut[p][q]
			s.Edges[p] += cut[p][q]
			if p != q {
				s.CutEdges += cut[p][q]
			}
		}
	}
	if several {
		s.Relations = append(s.Relations, halo)
	}
}

func square[T any](k int) [][]T {
	rows := make([][]T, k)
	for p := range rows {
		rows[p] = make([]T, k)
	}
	return rows
}
