package calls

import (
	"slices"

	"weft/graph"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/worker"
)

// inputsOf reads what passes are given in place of the graph's own data.
type inputsOf struct {
	types   []train.VertexType
	graph   func() (*graph.Graph, error)
	counts  []int // how many edges of each relation have values; nil: all
	lacking []train.Lacking
	numbers func(memory, count int) ([]float32, error)
}

// inputsOf makes the reader of inputs for a model's passes.
func (s *server) inputsOf(m *model) *inputsOf {
	return &inputsOf{m.Types, m.opened.Graph, m.EdgeCounts, m.lacking, s.numbers}
}

// nowhere stands for numbers that a plan does not read.
func nowhere(int, int) ([]float32, error) { return []float32{}, nil }

// read reads inputs: features by vertex type, nil if there are none, and data of relations.
func (i *inputsOf) read(inputs []input,
) (features []worker.InputValues, edges []worker.EdgeValues, err error) {
	for _, in := range inputs {
		if in.Kind != "features" {
			if edges, err = i.edges(edges, in); err != nil {
				return nil, nil, err
			}
			continue
		}
		if in.Type < 0 || in.Type >= len(i.types) {
			return nil, nil, refusal.Errorf("there is no vertex type %d", in.Type)
		}
		if features == nil {
			features = make([]worker.InputValues, len(i.types))
		}
		t := i.types[in.Type]
		if features[in.Type], err = i.values(in, t.Vertices*t.Features); err != nil {
			return nil, nil, err
		}
	}
	return features, edges, nil
}

// edges adds an input to the data of relations.
func (i *inputsOf) edges(edges []worker.EdgeValues, in input) ([]worker.EdgeValues, error) {
	g, err := i.graph()
	if err != nil {
		return nil, err
	}
	if in.Type < 0 || in.Type >= len(g.Relations) {
		return nil, refusal.Errorf("there is no relation %d", in.Type)
	}
	k := slices.IndexFunc(edges, func(e worker.EdgeValues) bool { return e.Number == in.Type })
	if k < 0 {
		k = len(edges)
		edges = append(edges, worker.EdgeValues{Number: in.Type, Relation: &g.Relations[in.Type]})
	}
	e := &edges[k]
	n, columns := len(e.Relation.Sources), e.Relation.Features.Columns
	if i.counts != nil {
		n = i.counts[in.Type]
	}
	for _, l := range i.lacking {
		if l.Kind != train.OfVertices && l.Type == in.Type && l.Features > 0 {
			columns = l.Features
		}
	}
	switch in.Kind {
	case "edges":
		e.Kept, err = i.numbers(in.Memory, n)
	case "edge_weight":
		e.Weights, err = i.values(in, n)
	case "edge_features":
		e.Features, err = i.values(in, n*columns)
	default:
		err = refusal.Errorf("there is no input %q", in.Kind)
	}
	return edges, err
}

// values reads an input of count numbers.
func (i *inputsOf) values(in input, count int) (worker.InputValues, error) {
	values, err := i.numbers(in.Memory, count)
	return worker.InputValues{Values: values, Differentiable: in.Differentiable}, err
}
