package inference

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"weft/cmd/weft/internal/ui"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/parallel/edges"
	"weft/train"
	"weft/train/metric"
	"weft/train/predictions"
	"weft/train/worker"
)

// explanation says on what a score of a vertex or an edge depends.
type explanation struct {
	Run    string `json:"run"`
	Store  string `json:"store"`
	Vertex string `json:"vertex,omitempty"`
	ID     *int32 `json:"id,omitempty"` // of the vertex
	// Edge is the explained edge, in place of a vertex.
	Edge *labelledEdge `json:"edge,omitempty"`
	// OfVertex are the first edges, by their scores, of the vertex that was asked for. The first of them is
	// explained.
	OfVertex      []edgeOfVertex `json:"edges_of_vertex,omitempty"`
	EdgesOfVertex int            `json:"count_of_vertex,omitempty"`
	// Class is the explained class, label or value; empty: there is only one.
	Class string        `json:"of"`
	Kind  string        `json:"kind"`  // class, label, value
	Score metric.Number `json:"score"` // its probability, or its value
	// Logit is the number that is explained: log(p/(1 − p)) for the model's probability p, before it is
	// calibrated, or the value.
	Logit metric.Number `json:"logit"`
	Steps int           `json:"steps"` // steps of integrated gradients; 0: gradient times input
	// Counts are on how many edges and vertices the score depends.
	Counts   struct{ Vertices, Edges int } `json:"-"`
	Vertices []explainedVertex             `json:"vertices"`
	Edges    []explainedEdge               `json:"edges"`
	Columns  []explainedColumn             `json:"columns"`
	Without  *scoreWithout                 `json:"without,omitempty"`

	pass   pass
	shown  *ui.Phases
	output int
	row    train.Query // the vertex or the edge that is explained
	found  *worker.Explanation
	edges  []explainedEdge // all edges, in order
	all    []explainedVertex
}

// explainedVertex is what the features of a vertex contribute.
type explainedVertex struct {
	Type         string  `json:"type,omitempty"` // if there are several
	Vertex       string  `json:"vertex"`
	Contribution float64 `json:"contribution"`
	// Column is the feature that contributes most, and Value its value as the model reads it.
	Column   string  `json:"column"`
	Value    float64 `json:"value"`
	OfColumn float64 `json:"column_contribution"`

	kind int
	id   int32
}

// explainedEdge is what the messages along an edge contribute.
type explainedEdge struct {
	Relation     string  `json:"relation,omitempty"` // if there are several
	Source       string  `json:"source"`
	Target       string  `json:"target"`
	Parallel     int     `json:"parallel,omitempty"` // its number among parallel edges, from 0
	Contribution float64 `json:"contribution"`
	Removed      bool    `json:"removed"` // the second prediction leaves it out
	// Tied counts the equal parallel edges whose contribution it has, too, as the one that a maximum takes.
	Tied int `json:"tied,omitempty"`

	relation int
	stored   appended.Edge
}

// explainedColumn is what a feature contributes: over all vertices, or for the explained edge.
type explainedColumn struct {
	Type         string  `json:"type,omitempty"` // if there are several
	Column       string  `json:"column"`
	OfEdge       bool    `json:"of_edge,omitempty"` // a feature of the explained edge itself
	Contribution float64 `json:"contribution"`
}

// scoreWithout is the score in a prediction without some edges.
type scoreWithout struct {
	Edges int           `json:"edges"`
	Score metric.Number `json:"score"`
	Logit metric.Number `json:"logit"`
}

// make computes the explanation.
func (x *explanation) make(ctx context.Context, e *explainCommand) (err error) {
	named := x.pass.standFor()
	if err := x.take(ctx, e); err != nil {
		return err
	}
	x.shown.Show("predicting", 0, 0)
	p, err := x.predict(ctx, x.row, nil)
	if err != nil {
		return err
	}
	if !named {
		x.pass.numbers = p.Classes
	}
	if err := x.choose(e.class, p.Logits); err != nil {
		return err
	}
	x.Score, x.Logit = x.scoreOf(p.Logits)
	job := *x.pass.opened.Job
	job.Query = x.row
	x.found, err = job.Explain(ctx, x.pass.weights, worker.Explained{
		Output: x.output, Classes: x.pass.Columns == predictions.Logits, Steps: e.steps,
		OnStep: func(done int) { x.shown.Show("explaining", int64(done), int64(e.steps)) },
	})
	if err != nil {
		return err
	}
	x.takeEdges(x.found.Edges)
	x.takeFeatures(x.found.Features)
	if err := x.withoutEdges(ctx, e.remove); err != nil {
		return err
	}
	x.Counts.Edges, x.Counts.Vertices = len(x.edges), len(x.Vertices)
	x.all = x.Vertices
	x.Edges, x.Vertices = x.strongest(e.top), first(x.Vertices, e.top)
	x.Columns = first(x.Columns, e.top)
	return nil
}

// take takes what is named: the vertex, the edge, or the likeliest edge of the vertex.
func (x *explanation) take(ctx context.Context, e *explainCommand) error {
	switch {
	case x.pass.Edges != nil && e.vertex != "":
		return x.takeEdgeOf(ctx, e)
	case x.pass.Edges != nil:
		return x.takeEdge(e.edge)
	}
	t := &x.pass.graph.Types[0]
	v, err := vertexOf(e.vertex, t.Names, t.Count)
	if err == nil {
		x.ID, x.Vertex, x.row.Vertices = &v, predictions.NameOf(t.Names, v), []int32{v}
	}
	return err
}

// first are the first of a list.
func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// strongest are the first of all edges, followed by the others that the second prediction leaves out.
func (x *explanation) strongest(n int) []explainedEdge {
	n = min(n, len(x.edges))
	list := slices.Clip(x.edges[:n])
	for _, e := range x.edges[n:] {
		if e.Removed {
			list = append(list, e)
		}
	}
	return list
}

// choose finds the number of the class, label or value.
func (x *explanation) choose(class string, row []float32) error {
	n, names := len(row), x.pass.Classes
	x.Kind = map[predictions.Columns]string{
		predictions.Values: "value", predictions.LabelLogits: "label",
	}[x.pass.Columns]
	x.Kind = cmp.Or(x.Kind, "class")
	switch at := slices.Index(names, class); {
	case class == "" && x.Kind != "value":
		var o predictions.Outcome // the same as in predict
		x.pass.Read(&o, row)
		x.output = slices.Index(o.Probabilities, slices.Max(o.Probabilities))
	case class == "":
	case at >= 0:
		x.output = at
	default:
		k, err := strconv.Atoi(class)
		if err != nil || k < 0 || k >= n {
			if names != nil {
				return refusal.Errorf("--class %s: no %s has this name%s", class, x.Kind, meant(class, names))
			}
			return refusal.Errorf("--class %s: the %s have the numbers 0 to %d", class,
				map[string]string{"class": "classes", "label": "labels", "value": "values"}[x.Kind], n-1)
		}
		x.output = k
	}
	if x.output < len(names) {
		x.Class = names[x.output]
	} else if n > 1 || x.Kind != "value" {
		x.Class = strconv.Itoa(x.output)
	}
	return nil
}

// predict predicts rows of the graph without some edges, by relation; nil: with all edges.
func (x *explanation) predict(ctx context.Context, rows train.Query, gone [][]appended.Edge,
) (*train.Prediction, error) {
	job, err := x.pass.opened.Job.Without(gone)
	if err != nil {
		return nil, err
	}
	rows.Appended = job.Appended
	job.Query = rows
	return job.Predict(ctx, x.pass.weights, train.Logits)
}

// scoreOf is the probability or the value in a row of the output, and the number that is explained.
func (x *explanation) scoreOf(row []float32) (score, logit metric.Number) {
	logit = metric.Number(row[x.output])
	if x.pass.Columns == predictions.Values {
		return logit, logit
	}
	var o predictions.Outcome
	x.pass.Read(&o, row)
	if x.pass.Columns == predictions.Logits {
		logit = metric.Number(logitOf(row, x.output))
	}
	return metric.Number(o.Probabilities[x.output]), logit
}

// logitOf is log(p/(1 − p)) for the probability p of a class, by softmax of a row. It is finite even if p is
// 0 or 1 in float64.
func logitOf(row []float32, class int) float64 {
	others := slices.Delete(slices.Clone(row), class, class+1)
	if len(others) == 0 {
		return math.Inf(1)
	}
	most := float64(slices.Max(others))
	sum := 0.
	for _, z := range others {
		sum += math.Exp(float64(z) - most)
	}
	return float64(row[class]) - most - math.Log(sum)
}

// byStrength orders contributions, the largest first, whatever their signs.
func byStrength(a, b float64) int { return cmp.Compare(math.Abs(b), math.Abs(a)) }

func (x *explanation) takeEdges(found []edges.MaskGradient) {
	g := x.pass.graph
	numbers := map[string]int{}
	for i := range g.Relations {
		numbers[g.Relations[i].Name] = i
		numbers[g.Relations[i].FullName()] = i
	}
	for _, e := range found {
		edge := explainedEdge{
			relation: numbers[e.Relation], Parallel: e.Before, Contribution: float64(e.Gradient),
			stored: appended.Edge{Source: e.Source, Target: e.Target, Before: e.Before},
		}
		r := &g.Relations[edge.relation]
		source, target, _ := g.Joins(r) // which an open graph has
		edge.Source = predictions.NameOf(g.Types[source].Names, e.Source)
		edge.Target = predictions.NameOf(g.Types[target].Names, e.Target)
		if len(g.Relations) > 1 {
			edge.Relation = r.Name
		}
		x.edges = append(x.edges, edge)
	}
	x.tie()
	slices.SortStableFunc(x.edges, func(a, b explainedEdge) int {
		return byStrength(a.Contribution, b.Contribution)
	})
}

// tie finds the edges that a maximum takes of equal parallel ones: the first contributes, and no other.
// Parallel edges follow each other in x.edges.
func (x *explanation) tie() {
	for k := 0; k < len(x.edges); {
		first, end := &x.edges[k], k+1
		at, others := first.stored, 0.
		for end < len(x.edges) && x.edges[end].relation == first.relation &&
			x.edges[end].stored.Source == at.Source && x.edges[end].stored.Target == at.Target {
			others += math.Abs(x.edges[end].Contribution)
			end++
		}
		for _, e := range x.edges[k+1 : end] {
			if first.Contribution != 0 && others == 0 && x.equal(first, &e) {
				first.Tied++
			}
		}
		k = end
	}
}

// equal reports whether two parallel edges have the same weight and the same features, as far as the model
// reads these.
func (x *explanation) equal(a, b *explainedEdge) bool {
	r, o := &x.pass.graph.Relations[a.relation], x.pass.asked.Options
	stored, n := edges.Numbering{Relation: r}, int64(r.Features.Columns)
	number := func(e *explainedEdge) int64 {
		return stored.Number(int(e.stored.Source), int(e.stored.Target), int64(e.stored.Before))
	}
	i, j := number(a), number(b)
	weights := r.Weights == nil || !o.ReadsWeights() || r.Weights[i] == r.Weights[j]
	return weights && (o.Program.Program == nil && !o.UsesEdgeFeatures() ||
		slices.Equal(r.Features.Dense[i*n:(i+1)*n], r.Features.Dense[j*n:(j+1)*n]))
}

func (x *explanation) takeFeatures(found []worker.FeatureGradients) {
	g, counts := x.pass.graph, x.pass.opened.Counts()
	x.Vertices, x.Columns = []explainedVertex{}, []explainedColumn{}
	for kind, f := range found {
		if f.Columns == 0 {
			continue
		}
		t := &g.Types[kind]
		names := x.featureNames(x.pass.opened.Job.Columns()[counts.Types[kind].Type], f.Columns)
		typ := ""
		if len(g.Types) > 1 {
			typ = t.Name()
		}
		sums := make([]float64, f.Columns)
		for i, v := range f.IDs {
			if int(v) >= t.Count { // the row stands for all other vertices
				continue
			}
			vertex := explainedVertex{Type: typ, Vertex: predictions.NameOf(t.Names, v), kind: kind, id: v}
			for k := range f.Columns {
				at := i*f.Columns + k
				c := float64(f.Inputs[at]) * float64(f.Gradients[at])
				vertex.Contribution += c
				sums[k] += c
				if math.Abs(c) > math.Abs(vertex.OfColumn) || k == 0 {
					vertex.Column, vertex.Value, vertex.OfColumn = names[k], float64(f.Inputs[at]), c
				}
			}
			x.Vertices = append(x.Vertices, vertex)
		}
		for k, sum := range sums {
			x.Columns = append(x.Columns, explainedColumn{Type: typ, Column: names[k], Contribution: sum})
		}
	}
	if x.Edge != nil {
		x.takeOwn(x.found.Edge)
	}
	slices.SortStableFunc(x.Vertices, func(a, b explainedVertex) int {
		return byStrength(a.Contribution, b.Contribution)
	})
	slices.SortStableFunc(x.Columns, func(a, b explainedColumn) int {
		return byStrength(a.Contribution, b.Contribution)
	})
}

// featureNames returns the names of n features, made from the list of columns, if it is known, and from the
// labels behind them.
func (x *explanation) featureNames(list columns.List, n int) []string {
	names := list.Features()
	labels := 0
	if x.pass.asked.Options.LabelInput > 0 {
		labels = x.pass.numbers
	}
	for k := len(names); k < n-labels; k++ {
		names = append(names, strconv.Itoa(k))
	}
	for k := range n - len(names) {
		names = append(names, "label="+predictions.NameOf(x.pass.Classes, k))
	}
	return names
}

// withoutEdges predicts the vertex or the edge without the strongest edges that raise the score.
func (x *explanation) withoutEdges(ctx context.Context, most int) error {
	gone := make([][]appended.Edge, len(x.pass.graph.Relations))
	n := 0
	for k := range x.edges {
		if e := &x.edges[k]; n < most && e.Contribution > 0 {
			gone[e.relation] = append(gone[e.relation], e.stored)
			e.Removed = true
			n++
		}
	}
	if n == 0 {
		return nil
	}
	x.shown.Show("predicting without the strongest edges", 0, 0)
	p, err := x.predict(ctx, x.row, gone)
	if err != nil {
		return err
	}
	x.Without = &scoreWithout{Edges: n}
	x.Without.Score, x.Without.Logit = x.scoreOf(p.Logits)
	return nil
}
