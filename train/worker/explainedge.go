package worker

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/nn"
	"weft/tensor"
)

// ExplainedEdge is an edge whose output a gnn.EdgeScorer computes. The graph need not have it.
type ExplainedEdge struct {
	Source, Target int32
	Features       []float32 // as many columns as the relation's edges have
	Weight         float32   // if the relation's edges have weights
}

// decoding computes the output of one edge.
type decoding struct {
	gnn.EdgeScorer
	ends  [2]outputRow // the rows of source and target
	rows  func(gnn.Edges) *autograd.Var
	units *nn.Units // units of the features; nil: the function reads them as they are
}

// outputRow is a row of an output.
type outputRow struct{ output, row int }

// in are the row's values in outputs.
func (o outputRow) in(outputs []*tensor.Matrix) []float32 {
	m := outputs[o.output]
	return m.ReadFloats()[o.row*m.Cols : (o.row+1)*m.Cols]
}

// to are the row's values in outputs, to write to.
func (o outputRow) to(outputs []*tensor.Matrix) []float32 {
	m := outputs[o.output]
	return m.WriteFloats()[o.row*m.Cols : (o.row+1)*m.Cols]
}

// decode makes the scorer of the edge. The worker's parameters become those of the scorer. kinds are the
// vertex types of the outputs.
func (x *explainer) decode(kinds []int) error {
	d, err := x.EdgeScorer(x.Share, x.Outputs)
	if err != nil {
		return err
	}
	x.decoding = &decoding{EdgeScorer: d, rows: d.Rows(x.Params)}
	row := func(kind int, vertex int32) outputRow {
		at := int(vertex)
		if !x.whole {
			at, _ = slices.BinarySearch(x.Vertices[kind], vertex)
		}
		return outputRow{slices.Index(kinds, kind), at}
	}
	x.decoding.ends = [2]outputRow{row(d.Source, x.target.Edge.Source), row(d.Target, x.target.Edge.Target)}
	if d.Standardised {
		x.decoding.units = nn.NewEdgeUnits(x.Params, d.Features)
	}
	return nil
}

// unit are the mean and the deviation by which the function reads a feature of the edge.
func (d *decoding) unit(k int) (mean, deviation float32) {
	if d.units == nil {
		return 0, 1
	}
	return d.units.Means()[k], d.units.Deviations()[k]
}

// own are the edge's features as the function reads them.
func (x *explainer) own() *FeatureGradients {
	n := len(x.target.Edge.Features)
	entry := &FeatureGradients{Columns: n, Inputs: make([]float32, n), Gradients: make([]float32, n)}
	for k, value := range x.target.Edge.Features {
		mean, deviation := x.decoding.unit(k)
		entry.Inputs[k] = (value - mean) / deviation
	}
	return entry
}

// decoded adds to grads the gradients of the number by rows of outputs. The edge's own features, as the
// function reads them, are multiplied by factor. If there are some and ofFeatures is set, it adds a part of
// their gradients to those of the explanation.
func (x *explainer) decoded(outputs, grads []*tensor.Matrix, factor, part float32, ofFeatures bool) {
	d, tape := x.decoding, autograd.NewTape(x.Team)
	tape.Recording = true
	oneRow := &autograd.RowSet{Here: 1, Total: autograd.NotVertices}
	input := func(values []float32) *autograd.Var {
		m := x.Team.Memory.New(tensor.Buffers, 1, len(values))
		copy(m.WriteFloats(), values)
		return tape.Input(m, oneRow)
	}
	read := []*autograd.Var{input(d.ends[0].in(outputs)), input(d.ends[1].in(outputs))}
	e := gnn.Edges{Tape: tape, Source: read[0], Target: read[1]}
	if d.Features > 0 {
		values := make([]float32, d.Features)
		for k, feature := range x.into.Edge.Inputs {
			mean, deviation := d.unit(k)
			values[k] = mean + factor*feature*deviation
		}
		e.Features = input(values)
		read = append(read, e.Features)
	}
	if d.Weighted {
		m := x.Team.Memory.New(tensor.Buffers, 1, 1)
		m.WriteFloats()[0] = x.target.Edge.Weight
		defer m.Release()
		e.Weight = tape.Constant(m, oneRow)
	}
	z := tape.Scope(func() *autograd.Var { return autograd.Float32(d.rows(e)) })
	grad := x.Team.Zeros(tensor.Gradients, 1, z.Cols())
	x.begin(grad.WriteFloats(), z.Value().ReadFloats())
	tape.Backward(autograd.Root{Var: z, Grad: grad})
	for k, v := range read {
		found := v.TakeGrad()
		for i, g := range found.ReadFloats() {
			switch {
			case k < len(d.ends):
				d.ends[k].to(grads)[i] += g
			case ofFeatures:
				_, deviation := d.unit(i)
				x.into.Edge.Gradients[i] += part * g * deviation
			}
		}
		found.Release()
		v.Value().Release()
	}
}
