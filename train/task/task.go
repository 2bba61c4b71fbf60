// Package task is what a model can learn: the classes of vertices, or which vertices an edge joins. A Kind
// knows what it needs of a graph, and makes a Task of it on each worker.
package task

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/autograd"
	"weft/comm"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
)

// Kind is something that a model can learn, with its options.
type Kind interface {
	// Metrics are the measures of its results.
	Metrics() []string
	// Metric is the one of them that was asked for, or that the graph names, or a refusal of a graph that it
	// cannot be measured on.
	Metric(whole *partition.Whole, l *graph.Labels) (string, error)
	// Outputs is how many columns the model's last layer has.
	Outputs(whole *partition.Whole) int
	// Check refuses a graph that it cannot be learned on, as far as its counts tell.
	Check(whole *partition.Whole) error
	// Keep are the shares of so many partitions, which open opens, with the edges that pass messages while it
	// is learned; nil: all pass them.
	Keep(partitions int, open func(p int) (*partition.Share, error)) *partition.Kept
	// Begin makes it a worker's. What the graph lacks is a refusal, which all workers come to.
	Begin(e Env) (Task, error)
	// Parameters are the names of those that it trains beside the model's.
	Parameters() []string
}

// Env is what a task needs of a worker.
type Env struct {
	Team     *kernel.Team
	World    *comm.Comm
	Share    *partition.Share // with all its edges
	Kept     *partition.Kept  // as from Kind.Keep
	Vertices []int32          // those whose outputs come to this worker, ascending; nil: all of the graph's
	Params   *nn.Params       // those of the model, to which the task adds its own
}

// Task is what a model learns on one worker: what becomes of its output, which has a row for each of
// Env.Vertices. All workers call its methods together, in a plan too.
type Task interface {
	// Metric is the measure of its results.
	Metric() string
	// Loss is this worker's part of an epoch's training loss, and its gradient.
	Loss(epoch int, output *autograd.Var) (part float64, grad *tensor.Matrix)
	// ValidationLoss is this worker's part of it.
	ValidationLoss(output *autograd.Var) (part float64)
	// Validates reports whether any worker has something to validate on, as far as this one knows.
	Validates() bool
	// OneClass reports whether all labels are one class, so that there is nothing to learn, as far as this
	// worker knows.
	OneClass() bool
	// Measure is the metric of each part of the split, NaN where a part is empty.
	Measure(output *tensor.Matrix) (Scores, error)
	// Report is what else the output of the best epoch comes to; nil: nothing.
	Report(output *tensor.Matrix) (*Links, error)
}

// Scores are the metric on each part of a split.
type Scores struct{ Train, Val, Test float64 }

// The tasks by name.
const (
	Vertex = "vertex"
	Link   = "link"
)

// kinds makes each task, the default first.
var kinds = []struct {
	name string
	make func(Options) Kind
}{
	{Vertex, func(o Options) Kind { return classification{o} }},
	{Link, func(o Options) Kind { return linkPrediction{o} }},
}

// Names are the tasks, the default first.
func Names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Options are what a task is told.
type Options struct {
	Name   string // one of Names
	Metric string // one of the kind's, or metric.Auto
	Split  int    // of Vertex: which stored split

	// Of Link.
	Seed          uint64
	Shares        Shares
	Negatives     int    // edges drawn for each that trains
	EvalNegatives int    // vertices that an edge's target is ranked among, 0: all
	Columns       int    // of an embedding
	Decoder       string // one of Decoders
}

// New is the kind that the options describe; nil: there is none of that name.
func New(o Options) Kind {
	for _, k := range kinds {
		if k.name == o.Name {
			return k.make(o)
		}
	}
	return nil
}

// Shares are percentages of the edges that train, validate and test. Their text form is "85/5/10".
type Shares [3]float64

// ParseShares reads "85/5/10".
func ParseShares(text string) (s Shares, err error) {
	fields, sum := strings.Split(text, "/"), 0.0
	for i := range s {
		if len(fields) != len(s) {
			break
		}
		if s[i], err = strconv.ParseFloat(fields[i], 64); err != nil || !(s[i] >= 0) {
			s[i] = math.NaN()
		}
		sum += s[i]
	}
	if !(math.Abs(sum-100) < 1e-9) || s[0] == 0 {
		return s, errors.New("must be three percentages that add up to 100, the first above 0, as in 85/5/10")
	}
	return s, nil
}

// String writes the percentages so that ParseShares reads them.
func (s Shares) String() string { return fmt.Sprintf("%v/%v/%v", s[0], s[1], s[2]) }
