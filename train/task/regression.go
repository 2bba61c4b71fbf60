package task

import (
	"math"
	"strings"

	"weft/autograd"
	"weft/comm"
	"weft/graph"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// regression is the task of predicting values of vertices. The model learns them as standard scores, by the
// mean and the standard deviation over the training vertices. Predictions and metrics are in the values' own
// units.
type regression struct{ Goal }

// distances are the losses of values, by name.
var distances = map[string]nn.Distance{MeanSquared: nn.Squared, MeanAbsolute: nn.Absolute, HuberLoss: nn.Huber}

func (regression) Metrics() []string { return metric.ValueNames }

func (k regression) Metric(*partition.Whole, *graph.Labels) (string, error) {
	return metric.ChooseOfValues(k.Goal.Metric)
}

func (regression) Outputs(whole *partition.Whole) int { return whole.ValueColumns }

func (regression) Types(*partition.Share) ([]int, error) { return nil, nil }

func (k regression) Check(whole *partition.Whole) error {
	if err := checkSplit(whole, k.Split); err != nil {
		return err
	}
	const labels = "the graph's labels are values to predict"
	if distances[k.loss()] == nil {
		return refusal.Errorf("%s %s: for classes, and %s; take one of %s", refusal.Setting("loss"), k.Loss, labels,
			strings.Join([]string{MeanSquared, MeanAbsolute, HuberLoss}, ", "))
	}
	if name, text := classification(k).forOneClass(); name != "" {
		return refusal.Errorf("%s %s: for classes, and %s; leave it out", refusal.Setting(name), text, labels)
	}
	return nil
}

func (k regression) CheckMeasured(whole *partition.Whole) error { return checkSplits(whole, k.Split) }

// loss is the name of the loss.
func (k regression) loss() string {
	if k.Loss == AutoLoss {
		return MeanSquared
	}
	return k.Loss
}

func (regression) Keep() *partition.Kept { return nil }

// Predicts reads the units from the weights: a graph to predict needs no values.
func (regression) Predicts(params *nn.Params, weights nn.State) func(*tensor.Matrix) {
	return nn.NewUnits(params, nn.UnitsIn(weights)).Predict
}

func (k regression) Begin(e Env) (_ Task, err error) {
	labels, splits := e.Share.Values.Targets(e.Vertices)
	t := &values{Env: e, labels: labels}
	rows := e.Team.Memory.New(tensor.Buffers, len(labels.Values)/labels.Columns, labels.Columns)
	if !e.Team.Planning() {
		copy(rows.Floats(), labels.Values)
	}
	t.targets = nn.Values{Rows: rows, Units: nn.NewUnits(e.Params, labels.Columns), Distance: distances[k.loss()]}
	all, s := &e.Share.Whole.Splits[k.Split], &splits[k.Split]
	for part, ids := range s.Parts() {
		t.parts[part] = e.vertexSet(*ids, []int{all.Train, all.Val, all.Test}[part])
	}
	if t.metric, err = k.Metric(&e.Share.Whole, &labels); err != nil || e.Team.Planning() {
		return t, err
	}
	if e.Trained != nil { // the units come with the parameters
		return t, t.count()
	}
	return t, t.standardise(k.Split)
}

// values is regression on a worker.
type values struct {
	Env
	metric  string
	labels  graph.Labels // of the vertices of this worker's outputs
	targets nn.Values
	parts   [3]vertexSet // of training, validation and test vertices
}

// each calls f for each value of a part that is there, of column k.
func (t *values) each(part int, f func(k int, y float64)) {
	columns := t.labels.Columns
	for _, v := range t.parts[part].ids {
		for k, y := range t.labels.Values[int(v)*columns : (int(v)+1)*columns] {
			if y == y { // not NaN
				f(k, float64(y))
			}
		}
	}
}

// count counts the values of each part on all workers, which call it together.
func (t *values) count() error {
	there := make([]float64, len(t.parts))
	for part := range t.parts {
		t.each(part, func(int, float64) { there[part]++ })
	}
	err := t.World.SumDoubles(comm.Statistics, there)
	for part := range t.parts {
		t.parts[part].total = there[part]
	}
	return err
}

// standardise sets the units to the means and standard deviations of the training vertices of all workers,
// and counts the values of each part. It refuses a column that no training vertex has a value of. All
// workers call it.
func (t *values) standardise(split int) error {
	columns := t.labels.Columns
	sums := make([]float64, 2*columns) // counts and sums
	counts, means := sums[:columns], sums[columns:]
	t.each(0, func(k int, y float64) { counts[k]++; means[k] += y })
	if err := t.World.SumDoubles(comm.Statistics, sums); err != nil {
		return err
	}
	for k := range columns {
		if counts[k] == 0 {
			return &launch.Common{Err: refusal.Errorf("%s %d: no training vertex has a value in column %d, counted from 0, of those to predict; "+
				"give another split, or import the labels without that column", refusal.Setting("split"), split, k)}
		}
		means[k] /= counts[k]
	}
	deviations := make([]float64, columns)
	t.each(0, func(k int, y float64) { deviations[k] += (y - means[k]) * (y - means[k]) })
	if err := t.World.SumDoubles(comm.Statistics, deviations); err != nil {
		return err
	}
	for k := range columns {
		deviations[k] = math.Sqrt(deviations[k] / counts[k])
	}
	t.targets.Units.Set(means, deviations)
	return t.count()
}

func (t *values) Metric() string { return t.metric }

func (t *values) Loss(_ int, output *autograd.Var) (float64, *tensor.Matrix) {
	if t.Env.Loss != nil {
		labels, free := t.labelsOf(t.parts[0].rows)
		defer free()
		return t.Env.Loss.LossGradient(output, labels, t.parts[0].rows, t.parts[0].total)
	}
	return t.targets.LossGradient(output, t.parts[0].rows, t.parts[0].total)
}

func (t *values) ValidationLoss(output *autograd.Var) float64 {
	if t.Env.Loss != nil {
		labels, free := t.labelsOf(t.parts[1].rows)
		defer free()
		return t.Env.Loss.Loss(output, labels, t.parts[1].rows, t.parts[1].total)
	}
	return t.targets.Loss(output, t.parts[1].rows, t.parts[1].total)
}

// labelsOf are the values of listed rows (Int32, 1 × n), for a loss of the caller's own, until free.
func (t *values) labelsOf(rows *tensor.Matrix) (l nn.Labels, free func()) {
	l = nn.Labels{Values: t.Team.Memory.New(tensor.Buffers, rows.Cols, t.labels.Columns), Vertices: t.verticesOf(rows)}
	t.Team.Gather(l.Values, t.targets.Rows, rows)
	if y := l.Values.Floats(); !t.Team.Planning() {
		t.targets.Units.Standardise(y)
	}
	return l, l.Values.Release
}

func (t *values) Validates() bool { return t.parts[1].total > 0 }

func (t *values) HasValidationLoss() bool { return t.Validates() }

func (*values) OneClass() bool { return false }

func (t *values) Predict(output *tensor.Matrix) {
	if output.Pointer(); !t.Team.Planning() { // a plan reads what a run reads
		t.targets.Units.Predict(output)
	}
}

func (t *values) Measure(predictions *tensor.Matrix) (s Scores, err error) {
	if t.Team.Planning() && !t.World.TakesTurns() {
		return s, nil
	}
	for part, to := range []*float64{&s.Train, &s.Val, &s.Test} {
		all, err := metric.OfValues(predictions.Floats(), &t.labels, t.parts[part].ids, t.World)
		if err != nil {
			return s, err
		}
		*to = all[t.metric]
	}
	return s, nil
}

func (*values) Report(*tensor.Matrix) (*Links, error) { return nil, nil }
