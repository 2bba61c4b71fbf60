package task

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/graph"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// The losses of vertices by name.
const (
	AutoLoss     = "auto"          // CrossEntropy of classes, MeanSquared of values
	CrossEntropy = "cross-entropy" // of the softmax, or binary, of σ, if a vertex may have several labels
	Focal        = "focal"         // of the softmax
	MeanSquared  = "mse"
	MeanAbsolute = "mae"
	HuberLoss    = "huber"
)

// Losses are the losses of vertices, the default first.
var Losses = []string{AutoLoss, CrossEntropy, Focal, MeanSquared, MeanAbsolute, HuberLoss}

// ofVertices is the task of predicting the labels of vertices: classification of classes, regression of
// values.
type ofVertices struct{ Goal }

// of is the task on a graph.
func (k ofVertices) of(whole *partition.Whole) Kind {
	if whole.ValueColumns > 0 {
		return regression(k)
	}
	return classification(k)
}

func (ofVertices) Metrics() []string { return slices.Concat(metric.VertexNames, metric.ValueNames) }

func (k ofVertices) Metric(whole *partition.Whole, l *graph.Labels) (string, error) {
	return k.of(whole).Metric(whole, l)
}

func (k ofVertices) Outputs(whole *partition.Whole) int { return k.of(whole).Outputs(whole) }

func (ofVertices) Types(*partition.Share) ([]int, error) { return nil, nil }

func (k ofVertices) Check(whole *partition.Whole) error { return k.of(whole).Check(whole) }

func (k ofVertices) CheckMeasured(whole *partition.Whole) error { return checkSplits(whole, k.Split) }

func (ofVertices) Keep() *partition.Kept { return nil }

func (k ofVertices) Begin(e Env) (Task, error) { return k.of(&e.Share.Whole).Begin(e) }

// Predicts goes by the weights: a graph to predict may have no labels.
func (k ofVertices) Predicts(params *nn.Params, weights nn.State) func(*tensor.Matrix) {
	return k.of(&partition.Whole{ValueColumns: nn.UnitsIn(weights)}).Predicts(params, weights)
}

// classification is the task of predicting the classes of vertices: by softmax, or by σ if a vertex may have
// several labels.
type classification struct{ Goal }

func (classification) Metrics() []string { return metric.VertexNames }

func (k classification) Metric(whole *partition.Whole, l *graph.Labels) (string, error) {
	return metric.Choose(k.Goal.Metric, whole, l)
}

func (classification) Outputs(whole *partition.Whole) int { return whole.Classes }

func (classification) Types(*partition.Share) ([]int, error) { return nil, nil }

func (k classification) Check(whole *partition.Whole) error {
	if distances[k.Loss] != nil {
		return refusal.Errorf("%s %s: for values, and the graph's labels are classes; leave it out, or import labels that are floats",
			refusal.Setting("loss"), k.Loss)
	}
	if k.fromFile() {
		if _, err := readClassWeights(k.ClassWeights, whole.Classes); err != nil {
			return err
		}
	}
	return checkSplit(whole, k.Split)
}

// fromFile reports whether ClassWeights names a file.
func (k classification) fromFile() bool {
	return k.ClassWeights != NoClassWeights && k.ClassWeights != Balanced
}

// checkSplit refuses a split that does not exist, or that has no training vertices.
func checkSplit(whole *partition.Whole, split int) error {
	if err := checkSplits(whole, split); err != nil {
		return err
	}
	if whole.Splits[split].Train == 0 {
		return refusal.Errorf("%s %d has no training vertices", refusal.Setting("split"), split)
	}
	return nil
}

// checkSplits refuses a split that does not exist.
func checkSplits(whole *partition.Whole, split int) error {
	switch splits := whole.Splits; {
	case len(splits) == 0:
		rule := "random:60/20/20"
		if whole.Graphs > 0 {
			rule = fmt.Sprintf("graphs:60/20/20, percent of its %d graphs, or %s", whole.Graphs, rule)
		}
		return refusal.Graph.Errorf("the graph has no split into training, validation and test vertices; import it with %s %s", refusal.Setting("split"), rule)
	case split >= len(splits):
		return refusal.Errorf("%s %d: the number of splits that the graph has is %d, and they count from 0",
			refusal.Setting("split"), split, len(splits))
	}
	return nil
}

func (k classification) CheckMeasured(whole *partition.Whole) error {
	return checkSplits(whole, k.Split)
}

func (classification) Keep() *partition.Kept { return nil }

func (classification) Predicts(*nn.Params, nn.State) func(*tensor.Matrix) { return nil }

func (k classification) Begin(e Env) (Task, error) {
	if name, text := k.forOneClass(); name != "" && e.Share.Values.Labels.MultiLabel() {
		return nil, refusal.Errorf("%s %v: it is for one class per vertex, and a vertex of this graph may have several labels", refusal.Setting(name), text)
	}
	c := &classes{Env: e}
	c.targets.Smoothing = k.LabelSmoothing
	if k.Loss == Focal {
		c.targets.Focusing = k.FocalGamma
	}
	labels, splits := e.Share.Values.Targets(e.Vertices)
	c.labels = labels
	trained, _ := e.Trained.(*classes)
	if own := &e.Share.Values.Labels; trained != nil && (own.MultiLabel() != trained.Share.Values.Labels.MultiLabel() || own.MultiLabel() && own.Classes != trained.labels.Classes) {
		return nil, &launch.Common{Err: refusal.Errorf(
			"a vertex has one class in one of the graphs and several labels in the other, or labels of other classes; give graphs with the same labels")}
	}
	if trained != nil && labels.Class != nil { // all classes, also those that no vertex here has
		c.labels.Classes, c.labels.Names = trained.labels.Classes, trained.labels.Names
	}
	all, s := &e.Share.Whole.Splits[k.Split], &splits[k.Split]
	c.input = nn.LabelInput{Share: k.LabelInput, Seed: k.Seed}
	c.train, c.val, c.test = e.vertexSet(s.Train, all.Train), e.vertexSet(s.Val, all.Val), e.vertexSet(s.Test, all.Test)
	if c.input.Share > 0 {
		c.hidden = e.Team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(c.train.ids))
	}
	l := &c.labels
	c.targets.Classes = l.Classes
	if l.MultiLabel() {
		c.targets.Multi = e.Team.Memory.New(tensor.Buffers, len(l.Multi)/l.Classes, l.Classes)
		if !e.Team.Planning() {
			copy(c.targets.Multi.Floats(), l.Multi)
		}
	} else {
		c.targets.Class = kernel.List(e.Team, tensor.Buffers, l.Class)
	}
	if e.Share.Values.Labels.MultiLabel() {
		if err := c.sumTerms(); err != nil {
			return nil, err
		}
	}
	c.validates = c.val.total > 0 // what weighs 0 counts in metrics
	switch {
	case k.ClassWeights == NoClassWeights:
	case trained != nil:
		c.targets.Weights = trained.targets.Weights
		if err := c.sumTerms(); err != nil {
			return nil, err
		}
	default:
		if err := c.weigh(k.ClassWeights); err != nil {
			return nil, err
		}
	}
	if trained != nil {
		c.metric = trained.metric
		return c, nil
	}
	var err error
	c.metric, err = k.Metric(&e.Share.Whole, &c.labels)
	return c, err
}

// forOneClass names a setting with its value that is for one class per vertex, "" if none is given.
func (k classification) forOneClass() (name, text string) {
	switch {
	case k.LabelSmoothing > 0:
		return "label-smoothing", fmt.Sprint(k.LabelSmoothing)
	case k.Loss == Focal:
		return "loss", Focal
	case k.ClassWeights != NoClassWeights:
		return "class-weights", k.ClassWeights
	}
	return "", ""
}

// classes is vertex classification on a worker.
type classes struct {
	Env
	metric           string
	labels           graph.Labels // of the vertices of this worker's logits
	targets          nn.Targets
	train, val, test vertexSet
	validates        bool
	input            nn.LabelInput
	hidden           *tensor.Matrix // room for the training rows whose labels an epoch does not show
}

// sumTerms makes the losses means over the labels that are present, or weighted by classes, of the vertices
// of all workers. All workers call it.
func (c *classes) sumTerms() error {
	if c.Team.Planning() {
		return nil
	}
	sets, totals := []*vertexSet{&c.train, &c.val, &c.test}, make([]float64, 3)
	for k, set := range sets {
		for _, row := range set.ids {
			totals[k] += c.terms(row)
		}
	}
	err := c.World.SumDoubles(comm.Statistics, totals)
	for k, set := range sets {
		set.total = totals[k]
	}
	return err
}

func (c *classes) Metric() string { return c.metric }

func (c *classes) Loss(epoch int, logits *autograd.Var) (float64, *tensor.Matrix) {
	of := c.train
	if c.input.Share > 0 {
		of = c.hide(epoch)
	}
	if c.Env.Loss != nil {
		labels, free := c.labelsOf(of.rows)
		defer free()
		return c.Env.Loss.LossGradient(logits, labels, of.rows, of.total)
	}
	return nn.LossGradient(logits, c.targets, of.rows, of.total)
}

// hide returns the training rows whose labels an epoch does not show. All workers call it.
func (c *classes) hide(epoch int) vertexSet {
	room := c.hidden.Int32s()
	shows, n, total := c.input.Shows(epoch), 0, []float64{0}
	if c.Team.Planning() { // it has the sum of a run
		exchange.Must(c.World.SumDoubles(comm.Statistics, total))
		return c.train
	}
	for _, row := range c.train.ids {
		v := row
		if c.Vertices != nil {
			v = int64(c.Vertices[row])
		}
		if !shows(v) {
			room[n] = int32(row)
			n++
			total[0] += c.terms(row)
		}
	}
	exchange.Must(c.World.SumDoubles(comm.Statistics, total))
	return vertexSet{rows: c.hidden.Prefix(1, n), total: total[0]}
}

// terms is how much a row adds to the total of the loss.
func (c *classes) terms(row int64) (n float64) {
	switch {
	case c.targets.Weights != nil:
		return c.targets.Weights[c.labels.Class[row]]
	case !c.labels.MultiLabel():
		return 1
	}
	for _, label := range c.labels.Multi[int(row)*c.labels.Classes : int(row+1)*c.labels.Classes] {
		if label == label { // not NaN
			n++
		}
	}
	return n
}

func (c *classes) ValidationLoss(logits *autograd.Var) float64 {
	if c.Env.Loss != nil {
		labels, free := c.labelsOf(c.val.rows)
		defer free()
		return c.Env.Loss.Loss(logits, labels, c.val.rows, c.val.total)
	}
	return nn.Loss(logits, c.targets, c.val.rows, c.val.total)
}

func (c *classes) Validates() bool { return c.validates }

func (c *classes) HasValidationLoss() bool { return c.val.total > 0 }

func (c *classes) OneClass() bool {
	labels := &c.Share.Values.Labels
	whole := len(c.Share.Edges.Starts) == 2
	return whole && labels.OneClass() || c.Share.Whole.Classes == 1 && !labels.MultiLabel()
}

func (*classes) Predict(*tensor.Matrix) {}

func (c *classes) Measure(logits *tensor.Matrix) (s Scores, err error) {
	if c.Team.Planning() && !c.World.TakesTurns() { // the plan of turns reads what a run reads
		return s, nil
	}
	for _, part := range []struct {
		to  *float64
		set vertexSet
	}{{&s.Train, c.train}, {&s.Val, c.val}, {&s.Test, c.test}} {
		if *part.to, err = metric.Vertices(c.metric)(logits.Floats(), &c.labels, part.set.ids, c.World); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (*classes) Report(*tensor.Matrix) (*Links, error) { return nil, nil }

// labelsOf are the labels of listed rows (Int32, 1 × n), for a loss of the caller's own, until free.
func (c *classes) labelsOf(rows *tensor.Matrix) (l nn.Labels, free func()) {
	l = nn.Labels{Targets: nn.Targets{Classes: c.targets.Classes}, Vertices: c.verticesOf(rows)}
	memory := c.Team.Memory
	if c.targets.Multi != nil {
		l.Multi = memory.New(tensor.Buffers, rows.Cols, c.targets.Classes)
		c.Team.Gather(l.Multi, c.targets.Multi, rows)
		return l, l.Multi.Release
	}
	l.Class = memory.NewElement(tensor.Buffers, tensor.Int32, 1, rows.Cols)
	if listed := rows.Int32s(); !c.Team.Planning() {
		for k, row := range listed {
			l.Class.Int32s()[k] = int32(c.labels.Class[row])
		}
	}
	return l, l.Class.Release
}

// verticesOf are the vertices of listed rows, by their original ids; nil in a plan.
func (e *Env) verticesOf(rows *tensor.Matrix) []int32 {
	listed := rows.Int32s()
	if e.Team.Planning() {
		return nil
	}
	ids := slices.Clone(listed)
	if e.Vertices != nil {
		for k, row := range listed {
			ids[k] = e.Vertices[row]
		}
	}
	return ids
}

// vertexSet is a list of rows, as a slice and as a matrix for kernels.
type vertexSet struct {
	ids   []int64
	rows  *tensor.Matrix // Int32, 1 × n
	total float64        // the number of vertices in all workers' lists, or of their labels or values if there may be several
}

func (e *Env) vertexSet(ids []int64, total int) vertexSet {
	return vertexSet{ids, kernel.List(e.Team, tensor.Buffers, ids), float64(total)}
}
