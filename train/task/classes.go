package task

import (
	"weft/autograd"
	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// classes are the target of classification: by softmax, or by σ if a row may have several labels.
type classes struct {
	*rows
	targets nn.Targets
	input   nn.LabelInput
	hidden  *tensor.Matrix // has room for the training rows whose labels an epoch does not show
}

// ofClasses says that the labels are classes.
type ofClasses struct{}

func (ofClasses) String() string { return "classes" }

func (ofClasses) outputs(frame *partition.WholeFrame) int { return frame.Classes }

func (ofClasses) metric(asked string, frame *partition.WholeFrame, l *graph.Labels) (string, error) {
	return metric.Choose(asked, frame.Metric, l)
}

func (ofClasses) begin(k labelPrediction, l loss, v *rows) (err error) {
	own := &v.own.Labels
	if name, text := k.forOneClass(l); name != "" && own.MultiLabel() {
		return refusal.Errorf("--%s %v: it is for one class per %s, and %s of this graph may have several "+
			"labels", name, text, k.noun().One, k.noun().A())
	}
	c := &classes{rows: v}
	v.target = c
	c.targets.Smoothing = k.LabelSmoothing
	if l.classes != nil {
		c.targets.Loss = l.classes(k.Goal)
	}
	labels, splits := v.own.Targets(v.Vertices)
	c.labels = labels
	trained := v.trained()
	if trained != nil && (own.MultiLabel() != trained.own.Labels.MultiLabel() ||
		own.MultiLabel() && own.Classes != trained.labels.Classes) {
		return &launch.Common{Err: refusal.Errorf("%s has one class in one of the graphs and several "+
			"labels in the other, or labels of other classes; give graphs with the same labels", k.noun().A())}
	}
	if trained != nil && labels.Class != nil { // all classes count, also those that no row here has
		c.labels.Classes, c.labels.Names = trained.labels.Classes, trained.labels.Names
	}
	c.input = nn.LabelInput{Probability: k.LabelInput, Seed: k.Seed}
	c.divide(k.Split.Number, splits)
	if c.input.Probability > 0 {
		c.hidden = c.Team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(c.train.ids))
	}
	c.targets.Classes = c.labels.Classes
	if truth := &c.labels; truth.MultiLabel() {
		c.targets.Multi = c.Team.Memory.New(tensor.Buffers, len(truth.Multi)/truth.Classes, truth.Classes)
		copy(c.targets.Multi.WriteFloats(), truth.Multi)
	} else {
		c.targets.Class = kernel.List(c.Team, tensor.Buffers, truth.Class)
	}
	if own.MultiLabel() {
		if err := c.sumTerms(); err != nil {
			return err
		}
	}
	c.validates = c.val.total > 0 // a class that weighs 0 still counts in metrics
	switch {
	case k.ClassWeights == NoClassWeights:
	case trained != nil:
		c.targets.Weights = trained.targets.Weights
		err = c.sumTerms()
	default:
		err = c.weigh(k.ClassWeights)
	}
	if err != nil {
		return err
	}
	if trained != nil {
		c.metric = trained.metric
		return nil
	}
	c.metric, err = ofClasses{}.metric(k.Goal.Metric, c.frame, &c.labels)
	return err
}

// trained are the classes of the training graph, if this graph validates its model; else nil.
func (v *rows) trained() *classes {
	on, _ := v.Trained.(*rows)
	if on == nil {
		return nil
	}
	c, _ := on.target.(*classes)
	return c
}

// sumTerms makes each loss a mean over the labels that are present, weighted by classes if asked, of the
// rows of all workers. All workers call it. A plan knows only its own rows' terms, and keeps the numbers of
// rows.
func (c *classes) sumTerms() error {
	sets := c.parts()
	totals := make([]float64, 3)
	for k, set := range sets {
		for _, row := range set.ids {
			totals[k] += c.terms(row)
		}
	}
	err := c.World.SumDoubles(comm.Statistics, totals)
	c.Team.Serial(func() {
		for k, set := range sets {
			set.total = totals[k]
		}
	})
	return err
}

func (c *classes) training(epoch int) rowSet {
	if c.input.Probability > 0 {
		return c.hide(epoch)
	}
	return c.train
}

func (c *classes) lossGradient(logits *autograd.Var, set rowSet) (func() float64, *tensor.Matrix) {
	return nn.LossGradient(logits, c.targets, set.rows, set.total)
}

func (c *classes) loss(logits *autograd.Var, set rowSet) float64 {
	return nn.Loss(logits, c.targets, set.rows, set.total)
}

// hide returns the training rows whose labels an epoch does not show. A plan takes all. All workers call it.
func (c *classes) hide(epoch int) rowSet {
	room := c.hidden.WriteInt32s()
	shows := c.input.Shows(epoch)
	set := c.train
	totals := []float64{0}
	c.Team.Serial(func() {
		n := 0
		for _, row := range c.train.ids {
			v := row
			if c.Vertices != nil {
				v = int64(c.Vertices[row])
			}
			if !shows(v) {
				room[n] = int32(row)
				n++
				totals[0] += c.terms(row)
			}
		}
		if c.Env.Loss != nil {
			totals = append(totals, float64(n))
		}
		set.rows = c.hidden.Prefix(1, n)
	})
	exchange.Must(c.World.SumDoubles(comm.Statistics, totals))
	c.Team.Serial(func() { set.total, set.all = totals[0], int(totals[len(totals)-1]) })
	return set
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

func (c *classes) oneClass() bool {
	labels := &c.own.Labels
	whole := c.Share.Edges.Partitions() == 1
	return whole && labels.OneClass() || c.frame.Classes == 1 && !labels.MultiLabel()
}

func (*classes) predict(*tensor.Matrix) {}

func (*classes) predictions(output *tensor.Matrix) (p *tensor.Matrix, free func()) {
	return output, func() {}
}

func (c *classes) lossSum(logits *autograd.Var, set rowSet) (sum kernel.Sum, ok bool) {
	if set.total == 0 || !c.targets.InKernels() {
		return sum, false
	}
	return nn.LossSum(logits, c.targets, set.rows), true
}

func (c *classes) hits(logits *tensor.Matrix) (sums []kernel.Sum) {
	if c.metric != metric.Accuracy {
		return nil
	}
	for _, part := range c.parts() {
		sums = append(sums, c.Team.Hits(logits, part.rows, c.targets.Class))
	}
	return sums
}

func (c *classes) measure(logits *tensor.Matrix, set *rowSet) (float64, error) {
	values, rows := set.read(logits)
	return metric.Named(c.metric, &c.labels)(values, &c.labels, rows, c.World)
}

func (c *classes) labelsOf(rows *tensor.Matrix) (l nn.Labels, free func()) {
	l = nn.Labels{Targets: nn.Targets{Classes: c.targets.Classes}, Vertices: c.idsOf(rows)}
	memory := c.Team.Memory
	if c.targets.Multi != nil {
		l.Multi = memory.New(tensor.Buffers, rows.Cols, c.targets.Classes)
		c.Team.Gather(l.Multi, c.targets.Multi, rows)
		return l, l.Multi.Release
	}
	l.Class = memory.NewElement(tensor.Buffers, tensor.Int32, 1, rows.Cols)
	to := l.Class.WriteInt32s()
	for k, row := range rows.ReadInt32s() {
		to[k] = int32(c.labels.Class[row])
	}
	return l, l.Class.Release
}
