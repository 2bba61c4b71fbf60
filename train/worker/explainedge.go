package worker

import (
	"slices"

	"weft/autograd"
	"weft/nn"
	"weft/tensor"
)

// decoding computes the output of one edge.
type decoding struct {
	EdgeScorer
	units *nn.Units // units of the features; nil: the function reads them as they are
}

// outputRow is a row of an output.
type outputRow struct{ output, row int }

// in are the row's values in the outputs.
func (o outputRow) in(outputs []autograd.Root) []float32 {
	m := outputs[o.output].Value()
	return m.ReadFloats()[o.row*m.Cols : (o.row+1)*m.Cols]
}

// gradient are the gradients of the row's values, to write to.
func (o outputRow) gradient(outputs []autograd.Root) []float32 {
	m := outputs[o.output].Grad
	return m.WriteFloats()[o.row*m.Cols : (o.row+1)*m.Cols]
}

// decode makes the scorer of the edge. The worker's parameters become those of the scorer.
func (x *explainer) decode() error {
	d, err := x.EdgeScorer(x.Share, x.Outputs)
	if err != nil {
		return err
	}
	x.decoding = &decoding{EdgeScorer: EdgeScorer{
		EdgeScorer: d, Team: x.Team, Function: d.Rows(x.Params), Recording: true,
	}}
	if d.Standardised {
		x.decoding.units = nn.NewEdgeUnits(x.Params, d.Features)
	}
	return nil
}

// row is the row of a vertex of a type.
func (x *explainer) row(kind int, vertex int32) outputRow {
	at := int(vertex)
	if !x.whole {
		at, _ = slices.BinarySearch(x.Vertices[kind], vertex)
	}
	return outputRow{slices.Index(x.kinds, kind), at}
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

// decoded adds to the gradients of the outputs those of the number. The edge's own features, as the function
// reads them, are multiplied as those of vertices, and their gradients added to those of the explanation.
func (x *explainer) decoded(outputs []autograd.Root, p point) {
	d, edge := x.decoding, *x.target.Edge
	d.Row = func(kind int, vertex int32) []float32 { return x.row(kind, vertex).in(outputs) }
	edge.Features = make([]float32, d.Features)
	for k := range edge.Features {
		mean, deviation := d.unit(k)
		edge.Features[k] = mean + p.features*x.into.Edge.Inputs[k]*deviation
	}
	z := d.Score(&edge, 0, 1)
	grad := x.Team.Zeros(tensor.Gradients, 1, z.Outputs.Cols())
	x.begin(grad.WriteFloats(), z.Outputs.Value().ReadFloats())
	z.Tape.Backward(autograd.Root{Var: z.Outputs, Grad: grad})
	take := func(v *autograd.Var, add func(k int, g float32)) {
		found := v.TakeGrad()
		for k, g := range found.ReadFloats() {
			add(k, g)
		}
		found.Release()
	}
	source, target := x.row(d.Source, edge.Source[0]), x.row(d.Target, edge.Target[0])
	take(z.Source, func(k int, g float32) { source.gradient(outputs)[k] += g })
	take(z.Target, func(k int, g float32) { target.gradient(outputs)[k] += g })
	if d.Features > 0 {
		take(z.Features, func(k int, g float32) {
			if _, deviation := d.unit(k); p.ofFeatures {
				x.into.Edge.Gradients[k] += p.part * g * deviation
			}
		})
	}
	z.Release()
}
