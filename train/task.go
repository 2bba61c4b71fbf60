package train

import (
	"weft/autograd"
	"weft/graph"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
)

// taskKind is something that a model can learn.
type taskKind interface {
	// metrics are the measures of its results.
	metrics() []string
	// outputs is how many columns the last layer has.
	outputs(o *Options, whole *partition.Whole) int
	// check refuses a graph that it cannot be learned on.
	check(o *Options, whole *partition.Whole, l *graph.Labels) error
	// message is the share of the edges that pass messages while it is learned.
	message(j *Job, full *partition.Share) (*partition.Share, error)
	// begin makes it a worker's, and chooses the metric. full is the share with all its edges.
	begin(j *Job, w *worker, full *partition.Share) (task, error)
	// explain says in a plan what it takes, and warns of what the run may suffer from.
	explain(w *worker, p *workerPlan)
	// parameters are the names of those that it trains beside the model's.
	parameters() []string
}

// task is what a model learns on one worker: what becomes of its output, which has a row for each of the
// engine's vertices. All workers call its methods together.
type task interface {
	// loss is this worker's part of the training loss, and its gradient.
	loss(output *autograd.Var) (part float64, grad *tensor.Matrix)
	// validationLoss is this worker's part of it.
	validationLoss(output *autograd.Var) (part float64)
	// validates reports whether any worker has something to validate on.
	validates() bool
	// measure puts the metric into s. A plan calls it, too.
	measure(output *tensor.Matrix, s *scores) error
	// report adds to the result what else the output of the best epoch comes to. A plan calls it, too.
	report(output *tensor.Matrix, r *Result) error
}

// What is learned: the classes of vertices, or edges.
const (
	VertexTask = "vertex"
	LinkTask   = "link"
)

var tasks = []string{VertexTask, LinkTask}

// autoMetric is the measure that belongs to the graph or the task.
const autoMetric = "auto"

// task is the kind of the task that the options name.
func (o *Options) task() taskKind {
	if o.Task == LinkTask {
		return linkPrediction{}
	}
	return classification{}
}

// classification is the task of learning the classes of vertices, by softmax or, where a vertex may have
// several, by σ.
type classification struct{}

func (classification) metrics() []string { return metricNames }

func (classification) outputs(_ *Options, whole *partition.Whole) int { return whole.Classes }

func (classification) parameters() []string { return nil }

func (classification) message(_ *Job, full *partition.Share) (*partition.Share, error) {
	return full, nil
}

func (classification) check(o *Options, whole *partition.Whole, l *graph.Labels) error {
	if err := o.checkSplit(whole); err != nil {
		return err
	}
	_, err := chooseMetric(o.Metric, whole, l)
	return err
}

func (classification) explain(w *worker, p *workerPlan) {
	labels := &w.share.Values.Labels
	if whole := w.groups.Mesh.Partitions == 1; whole && labels.OneClass() || w.share.Whole.Classes == 1 && !labels.MultiLabel() {
		p.Warnings = append(p.Warnings, OneClass)
	}
	if !w.task.validates() {
		p.Warnings = append(p.Warnings, lastCounts(w.o, "vertices"))
	}
}

func (classification) begin(_ *Job, w *worker, _ *partition.Share) (task, error) {
	if err := w.o.checkSplit(&w.share.Whole); err != nil {
		return nil, err
	}
	c := &classes{worker: w}
	labels, splits := w.share.Values.Targets(w.engine.Vertices())
	c.labels = labels
	all, s := &w.share.Whole.Splits[w.o.Split], &splits[w.o.Split]
	c.train, c.val, c.test = w.vertexSet(s.Train, all.Train), w.vertexSet(s.Val, all.Val), w.vertexSet(s.Test, all.Test)
	l := &c.labels
	c.targets.Classes = l.Classes
	if l.MultiLabel() {
		c.targets.Multi = w.team.Memory.New(tensor.Buffers, len(l.Multi)/l.Classes, l.Classes)
		if !w.team.Planning() {
			copy(c.targets.Multi.Floats(), l.Multi)
		}
	} else {
		c.targets.Class = w.int32s(l.Class)
	}
	if w.share.Values.Labels.MultiLabel() {
		if err := c.countLabels(); err != nil {
			return nil, err
		}
	}
	var err error
	w.metric, err = chooseMetric(w.o.Metric, &w.share.Whole, &c.labels)
	return c, err
}

// countLabels has the losses be means over the labels that are there, of the vertices that all workers list. All
// of them call it.
func (c *classes) countLabels() error {
	if c.team.Planning() {
		return nil
	}
	sets, there := []*vertexSet{&c.train, &c.val, &c.test}, make([]float64, 3)
	for k, set := range sets {
		for _, v := range set.ids {
			for _, label := range c.labels.Multi[int(v)*c.labels.Classes : (int(v)+1)*c.labels.Classes] {
				if label == label { // not NaN
					there[k]++
				}
			}
		}
	}
	err := sum(c.groups.World, there)
	for k, set := range sets {
		set.total = int(there[k])
	}
	return err
}

// classes is classification on a worker.
type classes struct {
	*worker
	labels           graph.Labels // of the vertices whose logits come here
	targets          nn.Targets
	train, val, test vertexSet
}

func (c *classes) loss(logits *autograd.Var) (float64, *tensor.Matrix) {
	return nn.LossGradient(logits, c.targets, c.train.rows, c.train.total)
}

func (c *classes) validationLoss(logits *autograd.Var) float64 {
	return nn.Loss(logits, c.targets, c.val.rows, c.val.total)
}

func (c *classes) validates() bool { return c.val.total > 0 }

func (c *classes) measure(logits *tensor.Matrix, s *scores) (err error) {
	if c.team.Planning() {
		return nil
	}
	for _, part := range []struct {
		to  *float64
		set vertexSet
	}{{&s.train, c.train}, {&s.val, c.val}, {&s.test, c.test}} {
		if *part.to, err = metrics[c.metric](logits.Floats(), &c.labels, part.set.ids, c.groups.World); err != nil {
			return err
		}
	}
	return nil
}

func (*classes) report(*tensor.Matrix, *Result) error { return nil }

// vertexSet is a list of rows, for Go and for kernels.
type vertexSet struct {
	ids   []int64
	rows  *tensor.Matrix // Int32, 1 × n
	total int            // how many vertices all workers' lists have, or where these may have several labels, labels
}

func (w *worker) vertexSet(ids []int64, total int) vertexSet {
	return vertexSet{ids, w.int32s(ids), total}
}

// int32s are numbers for kernels: 1 × n.
func (w *worker) int32s(numbers []int64) *tensor.Matrix {
	m := w.team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(numbers))
	if !w.team.Planning() {
		for i, n := range numbers {
			m.Int32s()[i] = int32(n)
		}
	}
	return m
}
