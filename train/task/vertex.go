package task

import (
	"fmt"
	"slices"
	"strings"

	"weft/autograd"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// labelPrediction is the task of predicting the labels of the rows of a frame: of vertices or, if kind is
// EdgeRows, of the edges of a relation. It is classification for classes, and regression for values.
//
// A row of an edge is what a gnn.EdgeDecoder or a program computes from the rows of its ends. All edges pass
// messages, or with a split by time the earlier edges.
type labelPrediction struct {
	Goal
	kind graph.RowKind
}

func (k labelPrediction) noun() graph.Noun { return k.kind.Noun() }

// frame describes the labels that are learned.
func (k labelPrediction) frame(whole *partition.Whole) (*partition.WholeFrame, error) {
	if k.kind == graph.VertexRows {
		return &whole.WholeFrame, nil
	}
	l, err := k.labelled(whole)
	if err != nil {
		return nil, err
	}
	return l.Frame(), nil
}

func (labelPrediction) Metrics() []string { return slices.Concat(metric.ClassNames, metric.ValueNames) }

func (k labelPrediction) Metric(whole *partition.Whole, l *graph.Labels) (string, error) {
	frame, err := k.frame(whole)
	if err != nil {
		return "", err
	}
	return labelsOf(frame).metric(k.Goal.Metric, frame, l)
}

func (k labelPrediction) Outputs(whole *partition.Whole) int {
	frame, err := k.frame(whole)
	if err != nil { // Check reports the error
		return 0
	}
	return labelsOf(frame).outputs(frame)
}

// FrameOf describes the labels that a kind of task learns; those of vertices if it learns none.
func FrameOf(k Kind, whole *partition.Whole) *partition.WholeFrame {
	if rows, learns := k.(labelPrediction); learns {
		if frame, err := rows.frame(whole); err == nil {
			return frame
		}
	}
	return &whole.WholeFrame
}

func (k labelPrediction) Types(s *partition.Share) ([]int, error) {
	if k.kind == graph.VertexRows {
		return nil, nil
	}
	return k.endTypes(s)
}

func (k labelPrediction) Check(whole *partition.Whole) error {
	frame, err := k.checkFrame(whole)
	if err != nil {
		return err
	}
	labels := labelsOf(frame)
	l := k.loss(labels)
	if l.labelKind != labels {
		fit := lossesThat(func(l loss) bool { return l.labelKind == labels })
		return refusal.Errorf("--loss %s: for %s, and the graph's labels are %s; take %s, or import other "+
			"labels", l.name, l.labelKind, labels, strings.Join(fit, ", "))
	}
	if name, text := k.forOneClass(l); name != "" && labels == (ofValues{}) {
		return refusal.Errorf("--%s %s: for classes, and the graph's labels are values; leave it out",
			name, text)
	}
	if k.ClassWeights != NoClassWeights && k.ClassWeights != Balanced { // a file has the weights
		if _, err := readClassWeights(k.ClassWeights, frame.Classes); err != nil {
			return err
		}
	}
	if err := k.checkSplit(frame, whole.Graphs); err != nil {
		return err
	}
	if frame.Splits[k.Split.Number].Train == 0 {
		return refusal.Errorf("--split %d has no training %s, as its mask or list of them is empty; "+
			"give another, or draw one with --split random:60/20/20", k.Split.Number, k.noun().Many)
	}
	return nil
}

// checkFrame returns the labels that are learned. It refuses a graph that has none, or that does not tell
// which edges pass messages.
func (k labelPrediction) checkFrame(whole *partition.Whole) (*partition.WholeFrame, error) {
	frame, err := k.frame(whole)
	if err == nil {
		_, _, err = k.Passing(whole)
	}
	return frame, err
}

// forOneClass names a setting that is for one class per row, and its value; "": no such setting is given.
func (k labelPrediction) forOneClass(l loss) (name, text string) {
	switch {
	case k.LabelSmoothing > 0:
		return "label-smoothing", fmt.Sprint(k.LabelSmoothing)
	case l.labelKind == ofClasses{} && !l.several:
		return "loss", k.Loss
	case k.ClassWeights != NoClassWeights:
		return "class-weights", k.ClassWeights
	}
	return "", ""
}

// CheckMeasured refuses a graph without the labels, or a split that does not exist.
func (k labelPrediction) CheckMeasured(whole *partition.Whole) error {
	frame, err := k.checkFrame(whole)
	if err != nil {
		return err
	}
	return k.checkSplit(frame, whole.Graphs)
}

// checkSplit refuses a split that does not exist. graphs is the number of graphs that are stored as one.
func (k labelPrediction) checkSplit(frame *partition.WholeFrame, graphs int) error {
	switch splits, split := frame.Splits, k.Split.Number; {
	case len(splits) == 0:
		rule := "random:60/20/20"
		if graphs > 0 {
			rule = fmt.Sprintf("graphs:60/20/20, percent of its %d graphs, or %s", graphs, rule)
		}
		return refusal.Graph.Errorf("the graph has no split into training, validation and test %s; "+
			"draw one with --split %s, for a training or in an import", k.noun().Many, rule)
	case split >= len(splits):
		return refusal.Errorf("--split %d: the number of splits that the graph has is %d, and they count "+
			"from 0", split, len(splits))
	}
	return nil
}

// Predicts goes by the weights, which hold the units of values, because a graph to predict may have no
// labels.
func (k labelPrediction) Predicts(params *nn.Params, weights nn.State) func(*tensor.Matrix) {
	if columns := nn.UnitsIn(weights); columns > 0 {
		return nn.NewUnits(params, columns).Predict
	}
	return nil
}

func (k labelPrediction) Begin(e Env) (Task, error) {
	frame, err := k.frame(&e.Share.Whole)
	if err != nil {
		return nil, &launch.Common{Err: err}
	}
	v := &rows{Env: e, frame: frame, own: &e.Share.Types[0]}
	if k.kind == graph.EdgeRows {
		v.Vertices = nil
		if v.own, err = k.ownEdges(e); err != nil {
			return nil, err
		}
	}
	labels := labelsOf(frame)
	return v, labels.begin(k, k.loss(labels), v)
}

// rows is the task on a worker.
type rows struct {
	Env
	frame            *partition.WholeFrame
	own              *partition.Values // labels and splits of this worker's rows
	target           target
	metric           string
	labels           graph.Labels // of this worker's outputs
	train, val, test rowSet
	validates        bool // there are validation rows, even if all weigh 0
}

// target is what is predicted for rows: their classes, or values.
type target interface {
	// training returns the rows over which an epoch's loss is computed. All workers call it.
	training(epoch int) rowSet
	// loss returns this worker's part of the loss over some rows. lossGradient returns the output's gradient,
	// too.
	loss(output *autograd.Var, set rowSet) float64
	lossGradient(output *autograd.Var, set rowSet) (func() float64, *tensor.Matrix)
	// labelsOf are the labels of listed rows (Int32, 1 × n), for the caller's own loss, until free is called.
	labelsOf(rows *tensor.Matrix) (l nn.Labels, free func())
	// lossSum is loss times the total, if a kernel computes the sum.
	lossSum(output *autograd.Var, set rowSet) (sum kernel.Sum, ok bool)
	// hits says, for each part, how many predictions of the output are right, if the metric is accuracy.
	hits(output *tensor.Matrix) []kernel.Sum
	// measure is the task's metric of predictions, on the rows of a part. Accuracy is measured by hits
	// instead.
	measure(predictions *tensor.Matrix, set *rowSet) (float64, error)
	oneClass() bool
	predict(output *tensor.Matrix)
	// predictions are the predictions of the model's output, until free is called.
	predictions(output *tensor.Matrix) (p *tensor.Matrix, free func())
}

// divide sets the rows of each part of the split. splits has this worker's rows of it.
func (v *rows) divide(split int, splits []graph.Split) {
	all, s := &v.frame.Splits[split], &splits[split]
	v.train, v.val = v.rowSet(s.Train, all.Train), v.rowSet(s.Val, all.Val)
	v.test = v.rowSet(s.Test, all.Test)
}

// parts are the rows of each part of the split.
func (v *rows) parts() [3]*rowSet { return [3]*rowSet{&v.train, &v.val, &v.test} }

func (v *rows) Metric() string { return v.metric }

func (v *rows) Loss(epoch int, output *autograd.Var) (func() float64, *tensor.Matrix) {
	set := v.target.training(epoch)
	if v.Env.Loss == nil {
		return v.target.lossGradient(output, set)
	}
	labels, free := v.target.labelsOf(set.rows)
	defer free()
	return known(v.Env.Loss.LossGradient(output, labels, set.listed()))
}

func (v *rows) Measuring(output *autograd.Var) (m Measuring) {
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

// accuracies are the scores if right rows of each part are predicted right.
func (v *rows) accuracies(right []float64) (s metric.Scores, err error) {
	for k, to := range []*float64{&s.Train, &s.Val, &s.Test} {
		if *to, err = metric.AccuracyOf(int(right[k]), len(v.parts()[k].ids), v.World); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (v *rows) validationLoss(output *autograd.Var) float64 {
	if v.Env.Loss == nil {
		return v.target.loss(output, v.val)
	}
	labels, free := v.target.labelsOf(v.val.rows)
	defer free()
	return v.Env.Loss.Loss(output, labels, v.val.listed())
}

func (v *rows) Validates() bool { return v.validates || v.val.total > 0 }

func (v *rows) HasValidationLoss() bool { return v.val.total > 0 }

func (v *rows) OneClass() bool { return v.target.oneClass() }

func (v *rows) Predict(output *tensor.Matrix) { v.target.predict(output) }

func (v *rows) measure(output *tensor.Matrix) (s metric.Scores, err error) {
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
func (s *rowSet) read(predictions *tensor.Matrix) (values []float32, rows []int64) {
	if values = predictions.ReadFloats(); len(values) == 0 {
		return nil, nil
	}
	return values, s.ids
}

func (*rows) Report(*tensor.Matrix) (*Links, error) { return nil, nil }

// idsOf are the original ids of listed rows of vertices, or the rows themselves of edges; nil in a plan.
func (v *rows) idsOf(rows *tensor.Matrix) []int32 {
	ids := slices.Clone(rows.ReadInt32s())
	if v.Vertices != nil {
		for k, row := range ids {
			ids[k] = v.Vertices[row]
		}
	}
	return ids
}

// rowSet is a list of rows, as a slice and as a matrix for kernels.
type rowSet struct {
	ids  []int64
	rows *tensor.Matrix // Int32, 1 × n
	all  int            // the number of rows in all workers' lists
	// total is the number of rows in all workers' lists, or of their labels or values if a row may have
	// several.
	total float64
}

func (v *rows) rowSet(ids []int64, total int) rowSet {
	return rowSet{ids, kernel.List(v.Team, tensor.Buffers, ids), total, float64(total)}
}

// listed are the rows, for a loss that is not among those of the settings.
func (s rowSet) listed() nn.Listed { return nn.Listed{Rows: s.rows, All: s.all, Total: s.total} }
