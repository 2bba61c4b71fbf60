package inference

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"weft/internal/refusal"
	"weft/train"
	"weft/train/metric"
	"weft/train/predictions"
	"weft/train/worker"
)

// labelledEdge is an edge whose labels the run has learned.
type labelledEdge struct {
	Number int64  `json:"number"` // the number in the store, as in tables of predictions
	Source string `json:"source"`
	Target string `json:"target"`
}

// edge is the edge with this number.
func (x *explanation) edge(number int64) labelledEdge {
	ends, names := x.pass.Edges.Ends(int(number)), &x.pass.Edges.Names
	return labelledEdge{number, predictions.NameOf(names[0], ends[0]), predictions.NameOf(names[1], ends[1])}
}

// rows asks for the edges with these numbers.
func (x *explanation) rows(numbers ...int64) train.Query {
	return train.Query{Edges: x.pass.graph.Relation(x.pass.target).EdgesOf(numbers...), Numbers: numbers}
}

// takeEdge takes the edge with this number, among the edges whose labels the run has learned.
func (x *explanation) takeEdge(number string) error {
	k, err := strconv.ParseInt(number, 10, 64)
	if edges := x.pass.graph.Rows(x.pass.target); err != nil || k < 0 || k >= int64(edges) {
		return refusal.Errorf("--edge %s: the edges have the numbers 0 to %d, as in the column edge of predict",
			number, edges-1)
	}
	edge := x.edge(k)
	x.Edge, x.row = &edge, x.rows(k)
	return nil
}

// edgeOfVertex is an edge of a vertex, with its score.
type edgeOfVertex struct {
	labelledEdge
	Score metric.Number `json:"score"`
}

// takeEdgeOf takes the likeliest edge of a vertex, or the edge with the largest value, and lists the vertex's
// others.
func (x *explanation) takeEdgeOf(ctx context.Context, e *explainCommand) error {
	numbers, err := x.edgesOf(e.vertex)
	if err != nil {
		return err
	}
	x.shown.Show("predicting the vertex's edges", 0, 0)
	made, err := x.predict(ctx, x.rows(numbers...), nil)
	if err != nil {
		return err
	}
	x.pass.numbers = cmp.Or(x.pass.numbers, made.Classes)
	if e.class == "" && made.Classes == 2 && x.pass.Columns == predictions.Logits {
		e.class = predictions.NameOf(x.pass.Classes, 1) // as in tables of new edges
	}
	if e.class == "" && made.Classes > 1 {
		return refusal.Errorf("--vertex %s: the run predicts edges, and those of a vertex stand in the order of a "+
			"class or label; name it with --class", e.vertex)
	}
	if err := x.choose(e.class, made.Logits[:made.Classes]); err != nil {
		return err
	}
	var listed []edgeOfVertex
	for k, number := range numbers {
		score, _ := x.scoreOf(made.Logits[k*made.Classes : (k+1)*made.Classes])
		listed = append(listed, edgeOfVertex{x.edge(number), score})
	}
	slices.SortStableFunc(listed, func(a, b edgeOfVertex) int { return cmp.Compare(b.Score, a.Score) })
	x.Vertex, x.EdgesOfVertex, x.OfVertex = e.vertex, len(listed), first(listed, e.top)
	return x.takeEdge(strconv.FormatInt(listed[0].Number, 10))
}

// edgesOf finds the edges, of the learned relation, that lead from a vertex or to it.
func (x *explanation) edgesOf(vertex string) (numbers []int64, err error) {
	g, rows := x.pass.graph, x.pass.Edges
	source, target, _ := g.Joins(g.Relation(x.pass.target)) // which an open graph has
	at := [2]int32{-1, -1}
	var unknown error
	for k, kind := range []int{source, target} {
		v, err := vertexOf(vertex, rows.Names[k], g.Types[kind].Count)
		if err != nil {
			unknown = cmp.Or(unknown, err)
			continue
		}
		at[k] = v
	}
	if at[0] < 0 && at[1] < 0 {
		return nil, unknown
	}
	for k := range g.Rows(x.pass.target) {
		if ends := rows.Ends(k); ends[0] == at[0] || ends[1] == at[1] {
			numbers = append(numbers, int64(k))
		}
	}
	if numbers == nil {
		return nil, refusal.Errorf("--vertex %s: the run predicts edges, and it has none; name another vertex",
			vertex)
	}
	return numbers, nil
}

// takeOwn takes what the edge's own features contribute.
func (x *explanation) takeOwn(features *worker.FeatureGradients) {
	names := x.pass.graph.Relation(x.pass.target).NumberColumns.Features()
	names = names[max(0, len(names)-features.Columns):] // they are behind the column of weights
	for k := range features.Columns {
		name := strconv.Itoa(k)
		if len(names) == features.Columns {
			name = names[k]
		}
		c := float64(features.Inputs[k]) * float64(features.Gradients[k])
		x.Columns = append(x.Columns, explainedColumn{Column: name, OfEdge: true, Contribution: c})
	}
}
