package train

import (
	"context"

	"weft/comm"
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/partition"
)

// Parts are a graph's partitions. Each worker opens its own.
type Parts struct {
	Whole   partition.Whole
	ID      string // identifies a stored division; "": it is not stored
	Balance string // what the division balances; "": unknown
	Open    func(p int) (*partition.Share, error)
}

// MakeParts divides the job's graph as its options ask. Several calls can share the result, as Job.Parts.
func (j *Job) MakeParts(ctx context.Context) (*Parts, error) {
	r, err := j.Options.On(j.Mesh)
	if err != nil {
		return nil, err
	}
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	if err := drawn.Graph.CheckMade(); err != nil {
		return nil, err
	}
	a := j.Assignment
	if a == nil {
		a, err = partition.Assign(ctx, drawn.Graph, j.Options.Assignment(drawn.Graph, r.Mesh.Partitions))
		if err != nil {
			return nil, err
		}
	}
	shares, err := partition.Split(drawn.Graph, a)
	if err != nil {
		return nil, err
	}
	return &Parts{
		Whole: shares[0].Whole, Balance: a.Balance,
		Open: func(p int) (*partition.Share, error) { return shares[p], nil },
	}, nil
}

// chunks are the chunks that the workers of a job share.
type chunks struct {
	made     division
	graph    *graph.Graph // a copy that stays when the graph is closed; nil: the parts have the edges
	byVertex []int32      // the chunk of each vertex, in the order of the partitions
}

// are reports whether the chunks are known to be those of a division of a graph.
func (c *chunks) are(made division, g *graph.Graph) bool {
	return made == c.made && (made.parts != nil || g.SameEdges(c.graph))
}

// division is everything but a graph's edges that the chunks depend on.
type division struct {
	parts  *Parts // nil: there is one partition
	chunks axis.Chunks
	mesh   mesh.Mesh
	method string
	seed   uint64
	alike  bool
}

// divide returns the chunk of each vertex, in the order of the partitions, for a mesh of several stages. It
// makes the chunks if it has not made them before. All processes call it together; the first makes them.
func (s *session) divide(ctx context.Context, alike bool) ([]int32, error) {
	if s.Mesh.Stages == 1 {
		return nil, nil
	}
	j := s.job
	made := division{nil, s.Chunks, s.Mesh, s.ChunkMethod, s.Seed, alike}
	var whole *graph.Graph
	if s.Mesh.Partitions > 1 {
		made.parts = j.Parts
	} else {
		whole = j.Graph.Copy()
	}
	if j.chunks.are(made, whole) {
		return j.chunks.byVertex, nil
	}
	byVertex := make([]int32, 0, s.whole.Vertices)
	ranks := j.ranks()
	err := ranks.OnFirst(func() error {
		for p := range s.Mesh.Partitions {
			err := s.open(p, func(share *partition.Share) error {
				k, _ := s.ChunksOfPartition(share.Edges.Types[0].Starts, len(share.Edges.Types))
				if rows := share.Edges.Types[0].Rows; alike {
					for row := range rows {
						byVertex = append(byVertex, int32(row*k/rows))
					}
					return nil
				}
				part, err := partition.Chunks(ctx, share, partition.ChunkOptions{
					K: k, Method: s.ChunkMethod,
					Seed: s.Seed, Timeout: s.CommTimeout,
				})
				byVertex = append(byVertex, part...)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	byVertex = byVertex[:s.whole.Vertices]
	if err := ranks.Comm.Broadcast(comm.Setup, comm.Bytes(byVertex), 0); err != nil {
		return nil, err
	}
	j.chunks = chunks{made, whole, byVertex}
	return byVertex, nil
}
