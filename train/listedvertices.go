package train

import (
	"slices"

	"weft/gnn"
	"weft/graph/appended"
	"weft/internal/refusal"
	"weft/parallel/mfg"
	"weft/parallel/sar"
	"weft/partition"
	"weft/train/engine"
)

// Rows is the number of Vertices or Edges that it names.
func (q *Query) Rows() int {
	if q.Edges != nil {
		return q.Edges.Len()
	}
	return len(q.Vertices)
}

// listed are the vertices of each type that Predict computes; nil: all.
func (q *Query) listed() [][]int32 {
	if q.Vertices != nil {
		return [][]int32{q.Vertices}
	}
	return q.ends
}

// checkVertices refuses a list of vertices that Predict cannot compute.
func (s *session) checkVertices() error {
	j := s.job
	if j.listed() == nil {
		return nil
	}
	if err := s.CheckSome(); err != nil || j.ends != nil {
		return err
	}
	if len(j.Vertices) == 0 {
		return refusal.Errorf("--vertices: names no vertex; name those to predict")
	}
	refuse := func(k int) error {
		return refusal.Errorf("--vertices: entry %d, vertex %d, is out of the range of %d vertices, or "+
			"given twice; name each once", k+1, j.Vertices[k], s.whole.Types[0].Vertices)
	}
	for k, v := range j.Vertices {
		if v < 0 || int(v) >= s.whole.Types[0].Vertices {
			return refuse(k)
		}
	}
	sorted := slices.Sorted(slices.Values(j.Vertices))
	for i := range len(sorted) - 1 {
		if v := sorted[i]; v == sorted[i+1] {
			first := slices.Index(j.Vertices, v)
			return refuse(first + 1 + slices.Index(j.Vertices[first+1:], v))
		}
	}
	return nil
}

// openSome has the worker open only the part of the graph on which the predictions of Vertices depend.
func (s *session) openSome(scratch *mfg.Scratch) error {
	j := s.job
	g, err := j.appended()
	if err != nil {
		return err
	}
	base := s.wholeShare()
	base.Whole = base.Whole.Grown(g.Counts, g.Edges())
	s.whole = &base.Whole
	for i, t := range base.Whole.Types {
		if n := g.Added.Types[i].Count; n > 0 && t.FeatureColumns == 0 {
			return refusal.Graph.Errorf("vertices of %s have no features, and a learned embedding each, "+
				"which the %d new ones lack; append them to the store and train again", t.Type, n)
		}
	}
	s.open = s.opener(base, func(use func(*partition.Share) error) error {
		m, err := s.reads(base)
		if err != nil {
			return err
		}
		return use(mfg.Extract(g, m, j.listed(), scratch))
	})
	return nil
}

// appended is the graph with what is appended, which may be nothing.
func (j *Job) appended() (*appended.Graph, error) {
	if j.Appended != nil {
		return j.Appended, nil
	}
	b, err := j.Base()
	if err != nil {
		return nil, err
	}
	return b.With(nil)
}

// Base is the job's graph as one to which vertices and edges can be appended. New vertices have the features
// of Columns. It refuses a split that cannot be drawn.
func (j *Job) Base() (*appended.Base, error) {
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	b := appended.On(drawn.Graph)
	b.Arrangements = j.inputs.arrangements
	return b, nil
}

// reads is the part of a share's graph that the model reads.
func (s *session) reads(share *partition.Share) (*mfg.Model, error) {
	blocks, err := s.BlockSpecs(share, s.Outputs, s.job.Model)
	if err != nil {
		return nil, &Common{Err: err}
	}
	var reaches []mfg.Reach
	if s.Loaded != nil {
		reaches = s.Loaded.Reaches
	} else {
		reaches = engine.Reaches(blocks, sar.SchemaOf(share))
	}
	kind, known := gnn.KindOf(s.Model)
	return &mfg.Model{
		Blocks: reaches, SourceDegrees: s.job.Model != nil ||
			!known || kind.EdgeWeights,
		EdgeFeatures: gnn.ReadEdgeFeatures(blocks), Labels: s.LabelInput > 0,
	}, nil
}
