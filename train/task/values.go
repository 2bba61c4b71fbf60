package task

import (
	"math"

	"weft/autograd"
	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// values are the target of regression. The model learns them as standard scores, by the mean and the
// standard deviation over the training rows. Predictions and metrics are in the values' own units.
type values struct {
	*rows
	targets nn.Values
}

// ofValues says that the labels are values.
type ofValues struct{}

func (ofValues) String() string { return "values" }

func (ofValues) outputs(frame *partition.WholeFrame) int { return frame.ValueColumns }

func (ofValues) metric(asked string, _ *partition.WholeFrame, _ *graph.Labels) (string, error) {
	return metric.ChooseOfValues(asked)
}

func (ofValues) begin(k labelPrediction, l loss, v *rows) (err error) {
	labels, splits := v.own.Targets(v.Vertices)
	v.labels = labels
	matrix := v.Team.Memory.New(tensor.Buffers, len(labels.Values)/labels.Columns, labels.Columns)
	copy(matrix.WriteFloats(), labels.Values)
	t := &values{rows: v}
	v.target = t
	t.targets = nn.Values{
		Rows: matrix, Units: nn.NewUnits(v.Params, labels.Columns),
		Distance: l.values,
	}
	t.divide(k.Split.Number, splits)
	if t.metric, err = (ofValues{}).metric(k.Goal.Metric, v.frame, &labels); err != nil {
		return err
	}
	v.Team.Serial(func() { // a plan knows only the values of its own rows
		if v.Trained != nil { // the units come with the parameters
			err = t.count()
		} else {
			err = t.standardise(k.Split.Number)
		}
	})
	return err
}

// each calls f for each present value of a part, with its column k.
func (t *values) each(part *rowSet, f func(k int, y float64)) {
	columns := t.labels.Columns
	for _, v := range part.ids {
		for k, y := range t.labels.Values[int(v)*columns : (int(v)+1)*columns] {
			if y == y { // not NaN
				f(k, float64(y))
			}
		}
	}
}

// count counts the values of each part on all workers, which call it together.
func (t *values) count() error {
	there := make([]float64, len(t.parts()))
	for i, part := range t.parts() {
		t.each(part, func(int, float64) { there[i]++ })
	}
	err := t.World.SumDoubles(comm.Statistics, there)
	for i, part := range t.parts() {
		part.total = there[i]
	}
	return err
}

// standardise sets the units to the means and standard deviations of the training rows of all workers, and
// counts the values of each part. It refuses a column of which no training row has a value. All
// workers call it.
func (t *values) standardise(split int) error {
	columns := t.labels.Columns
	sums := make([]float64, 2*columns) // counts and sums
	counts, means := sums[:columns], sums[columns:]
	t.each(&t.train, func(k int, y float64) { counts[k]++; means[k] += y })
	if err := t.World.SumDoubles(comm.Statistics, sums); err != nil {
		return err
	}
	for k := range columns {
		if counts[k] == 0 {
			return &launch.Common{Err: refusal.Errorf("--split %d: no training %s has a value in "+
				"column %d, counted from 0, of those to predict; give another split, or import the labels "+
				"without that column", split, t.labels.Noun().One, k)}
		}
		means[k] /= counts[k]
	}
	deviations := make([]float64, columns)
	t.each(&t.train, func(k int, y float64) { deviations[k] += (y - means[k]) * (y - means[k]) })
	if err := t.World.SumDoubles(comm.Statistics, deviations); err != nil {
		return err
	}
	for k := range columns {
		deviations[k] = math.Sqrt(deviations[k] / counts[k])
	}
	t.targets.Units.Set(means, deviations)
	return t.count()
}

func (t *values) training(int) rowSet { return t.train }

func (t *values) lossGradient(output *autograd.Var, set rowSet) (func() float64, *tensor.Matrix) {
	return known(t.targets.LossGradient(output, set.rows, set.total))
}

func (t *values) loss(output *autograd.Var, set rowSet) float64 {
	return t.targets.Loss(output, set.rows, set.total)
}

func (*values) lossSum(*autograd.Var, rowSet) (sum kernel.Sum, ok bool) { return sum, false }

func (*values) hits(*tensor.Matrix) []kernel.Sum { return nil }

func (t *values) labelsOf(rows *tensor.Matrix) (l nn.Labels, free func()) {
	l = nn.Labels{
		Values:   t.Team.Memory.New(tensor.Buffers, rows.Cols, t.labels.Columns),
		Vertices: t.idsOf(rows),
	}
	t.Team.Gather(l.Values, t.targets.Rows, rows)
	t.targets.Units.Standardise(l.Values.WriteFloats())
	return l, l.Values.Release
}

func (*values) oneClass() bool { return false }

func (t *values) predict(output *tensor.Matrix) { t.targets.Units.Predict(output) }

func (t *values) predictions(output *tensor.Matrix) (p *tensor.Matrix, free func()) {
	p = t.Team.Memory.New(tensor.Buffers, output.Rows, output.Cols)
	t.Team.Copy(p, output)
	t.predict(p)
	return p, p.Release
}

func (t *values) measure(predictions *tensor.Matrix, set *rowSet) (float64, error) {
	values, rows := set.read(predictions)
	all, err := metric.OfValues(values, &t.labels, rows, t.World)
	return all[t.metric], err
}
