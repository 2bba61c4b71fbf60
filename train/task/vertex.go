package task

import (
	"fmt"
	"slices"
	"strings"

	"weft/autograd"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// ofVertices is the task of predicting the labels of vertices, or of other rows: classification for classes,
// regression for values.
type ofVertices struct {
	Goal
	row graph.Noun // what is learned
}

func (ofVertices) Metrics() []string { return slices.Concat(metric.VertexNames, metric.ValueNames) }

func (k ofVertices) Metric(whole *partition.Whole, l *graph.Labels) (string, error) {
	return labelsOf(whole).metric(k.Goal.Metric, whole, l)
}

func (ofVertices) Outputs(whole *partition.Whole) int { return labelsOf(whole).outputs(whole) }

func (ofVertices) Types(*partition.Share) ([]int, error) { return nil, nil }

func (k ofVertices) Check(whole *partition.Whole) error {
	of := labelsOf(whole)
	l := k.loss(of)
	if l.of != of {
		fit := lossesThat(func(l loss) bool { return l.of == of })
		return refusal.Errorf("--loss %s: for %s, and the graph's labels are %s; take %s, or import other "+
			"labels", l.name, l.of, of, strings.Join(fit, ", "))
	}
	if name, text := k.forOneClass(l); name != "" && of == (ofValues{}) {
		return refusal.Errorf("--%s %s: for classes, and the graph's labels are values; leave it out",
			name, text)
	}
	if k.ClassWeights != NoClassWeights && k.ClassWeights != Balanced { // a file has the weights
		if _, err := readClassWeights(k.ClassWeights, whole.Classes); err != nil {
			return err
		}
	}
	return k.checkSplit(whole)
}

// forOneClass names a setting that is for one class per vertex, and its value; "": no such setting is given.
func (k ofVertices) forOneClass(l loss) (name, text string) {
	switch {
	case k.LabelSmoothing > 0:
		return "label-smoothing", fmt.Sprint(k.LabelSmoothing)
	case l.of == ofClasses{} && !l.several:
		return "loss", k.Loss
	case k.ClassWeights != NoClassWeights:
		return "class-weights", k.ClassWeights
	}
	return "", ""
}

// checkSplit refuses a split that does not exist, or that has no training rows.
func (k ofVertices) checkSplit(whole *partition.Whole) error {
	if err := k.CheckMeasured(whole); err != nil {
		return err
	}
	if whole.Splits[k.Split.Number].Train == 0 {
		return refusal.Errorf("--split %d has no training %s, as its mask or list of them is empty; "+
			"give another, or draw one with --split random:60/20/20", k.Split.Number, k.row.Many)
	}
	return nil
}

// CheckMeasured refuses a split that does not exist.
func (k ofVertices) CheckMeasured(whole *partition.Whole) error {
	switch splits, split := whole.Splits, k.Split.Number; {
	case len(splits) == 0:
		rule := "random:60/20/20"
		if whole.Graphs > 0 {
			rule = fmt.Sprintf("graphs:60/20/20, percent of its %d graphs, or %s", whole.Graphs, rule)
		}
		return refusal.Graph.Errorf("the graph has no split into training, validation and test %s; "+
			"draw one with --split %s, for a training or in an import", k.row.Many, rule)
	case split >= len(splits):
		return refusal.Errorf("--split %d: the number of splits that the graph has is %d, and they count "+
			"from 0", split, len(splits))
	}
	return nil
}

func (ofVertices) Passing(*partition.Whole) (training, later *partition.Subgraph, err error) {
	return nil, nil, nil
}

// Predicts goes by the weights, which hold the units of values, because a graph to predict may have no
// labels.
func (k ofVertices) Predicts(params *nn.Params, weights nn.State) func(*tensor.Matrix) {
	if columns := nn.UnitsIn(weights); columns > 0 {
		return nn.NewUnits(params, columns).Predict
	}
	return nil
}

func (k ofVertices) Begin(e Env) (Task, error) {
	v := &vertices{Env: e}
	of := labelsOf(&e.Share.Whole)
	return v, of.begin(k, k.loss(of), v)
}

// vertices is the task on a worker.
type vertices struct {
	Env
	target           target
	metric           string
	labels           graph.Labels // of the vertices of this worker's outputs
	train, val, test vertexSet
	validates        bool // there are validation vertices, even if all weigh 0
}

// target is what is predicted for vertices: their classes, or values.
type target interface {
	// training returns the rows over which an epoch's loss is computed. All workers call it.
	training(epoch int) vertexSet
	// loss returns this worker's part of the loss over some rows. lossGradient returns the output's gradient,
	// too.
	loss(output *autograd.Var, of vertexSet) float64
	lossGradient(output *autograd.Var, of vertexSet) (func() float64, *tensor.Matrix)
	// labelsOf are the labels of listed rows (Int32, 1 × n), for the caller's own loss, until free is called.
	labelsOf(rows *tensor.Matrix) (l nn.Labels, free func())
	// lossSum is loss times the total, if a kernel computes the sum.
	lossSum(output *autograd.Var, of vertexSet) (sum kernel.Sum, ok bool)
	// hits says, for each part, how many predictions of the output are right, if the metric is accuracy.
	hits(output *tensor.Matrix) []kernel.Sum
	// measure is the task's metric of predictions, on the rows of a part. Accuracy is measured by hits
	// instead.
	measure(predictions *tensor.Matrix, of *vertexSet) (float64, error)
	oneClass() bool
	predict(output *tensor.Matrix)
	// predictions are the predictions of the model's output, until free is called.
	predictions(output *tensor.Matrix) (p *tensor.Matrix, free func())
}

// divide sets the vertices of each part of the split. splits has this worker's rows of it.
func (v *vertices) divide(split int, splits []graph.Split) {
	all, s := &v.Share.Whole.Splits[split], &splits[split]
	v.train, v.val = v.vertexSet(s.Train, all.Train), v.vertexSet(s.Val, all.Val)
	v.test = v.vertexSet(s.Test, all.Test)
}

// parts are the vertices of each part of the split.
func (v *vertices) parts() [3]*vertexSet { return [3]*vertexSet{&v.train, &v.val, &v.test} }

func (v *vertices) Metric() string { return v.metric }

func (v *vertices) Loss(epoch int, output *autograd.Var) (func() float64, *tensor.Matrix) {
	of := v.target.training(epoch)
	if v.Env.Loss == nil {
		return v.target.lossGradient(output, of)
	}
	labels, free := v.target.labelsOf(of.rows)
	defer free()
	return known(v.Env.Loss.LossGradient(output, labels, of.listed()))
}

func (v *vertices) Measuring(output *autograd.Var) (m Measuring) {
	m.Loss = func([]float64) float64 { return v.validationLoss(output) }
	m.Measure = func([]float64) (metric.Scores, error) { return v.measure(output.Value()) }
	if v.Env.Loss == nil {
		if sum, ok := v.target.lossSum(output, v.val); ok {
			m.Sums = append(m.Sums, sum)
			m.Loss = func(sums []float64) float64 { return 1 / v.val.total * sums[0] }
		}
	}
	first := len(m.Sums)
	hits := v.target.hits(output.Value())
	if m.Sums = append(m.Sums, hits...); hits != nil {
		m.Measure = func(sums []float64) (metric.Scores, error) { return v.accuracies(sums[first:]) }
	}
	return m
}

// accuracies are the scores if right vertices of each part are predicted right.
func (v *vertices) accuracies(right []float64) (s metric.Scores, err error) {
	for k, to := range []*float64{&s.Train, &s.Val, &s.Test} {
		if *to, err = metric.AccuracyOf(int(right[k]), len(v.parts()[k].ids), v.World); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (v *vertices) validationLoss(output *autograd.Var) float64 {
	if v.Env.Loss == nil {
		return v.target.loss(output, v.val)
	}
	labels, free := v.target.labelsOf(v.val.rows)
	defer free()
	return v.Env.Loss.Loss(output, labels, v.val.listed())
}

func (v *vertices) Validates() bool { return v.validates || v.val.total > 0 }

func (v *vertices) HasValidationLoss() bool { return v.val.total > 0 }

func (v *vertices) OneClass() bool { return v.target.oneClass() }

func (v *vertices) Predict(output *tensor.Matrix) { v.target.predict(output) }

func (v *vertices) measure(output *tensor.Matrix) (s metric.Scores, err error) {
	predictions, free := v.target.predictions(output)
	defer free()
	for part, to := range []*float64{&s.Train, &s.Val, &s.Test} {
		if *to, err = v.target.measure(predictions, v.parts()[part]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// read returns predictions on the host, and the rows of a part. A plan has neither.
func (of *vertexSet) read(predictions *tensor.Matrix) (values []float32, rows []int64) {
	if values = predictions.ReadFloats(); len(values) == 0 {
		return nil, nil
	}
	return values, of.ids
}

func (*vertices) Report(*tensor.Matrix) (*Links, error) { return nil, nil }

// verticesOf are the vertices of listed rows, by their original ids; nil in a plan.
func (v *vertices) verticesOf(rows *tensor.Matrix) []int32 {
	ids := slices.Clone(rows.ReadInt32s())
	if v.Vertices != nil {
		for k, row := range ids {
			ids[k] = v.Vertices[row]
		}
	}
	return ids
}

// vertexSet is a list of rows, as a slice and as a matrix for kernels.
type vertexSet struct {
	ids  []int64
	rows *tensor.Matrix // Int32, 1 × n
	all  int            // the number of vertices in all workers' lists
	// total is the number of vertices in all workers' lists, or of their labels or values if a vertex may
	// have several.
	total float64
}

func (v *vertices) vertexSet(ids []int64, total int) vertexSet {
	return vertexSet{ids, kernel.List(v.Team, tensor.Buffers, ids), total, float64(total)}
}

// listed are the rows, for a loss that is not among those of the settings.
func (of vertexSet) listed() nn.Listed { return nn.Listed{Rows: of.rows, All: of.all, Total: of.total} }
