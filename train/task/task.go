// Package task has the tasks that a model can learn: the labels of vertices or edges, which are classes or
// values, and which vertices an edge joins. A Kind says what it needs of a graph, and makes a Task on each
// worker. Package setting chooses the kind.
package task

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/autograd"
	"weft/comm"
	"weft/graph"
	"weft/internal/number"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// Kind is a kind of task, with its options.
type Kind interface {
	// Metrics are the names of the kind's metrics.
	Metrics() []string
	// Metric returns the metric that the options or the graph name. It refuses a graph on which the metric is
	// not defined.
	Metric(whole *partition.Whole, l *graph.Labels) (string, error)
	// Outputs is the number of columns of the model's last layer.
	Outputs(whole *partition.Whole) int
	// Types are the vertex types whose rows the model computes, ascending; nil: the first.
	Types(s *partition.Share) ([]int, error)
	// Check refuses a graph that the task cannot use, as far as its counts tell.
	Check(whole *partition.Whole) error
	// CheckMeasured refuses a graph on which a model that is trained on another cannot be measured, as far as
	// its counts tell.
	CheckMeasured(whole *partition.Whole) error
	// Passing is the graph of the edges that pass messages in training; nil: all edges do. later is the graph
	// over which some outputs are computed instead; nil: none are. It refuses a graph that does not tell
	// which edges these are.
	Passing(whole *partition.Whole) (training, later *partition.Subgraph, err error)
	// Begin makes the task of a worker. It fails with a refusal, on all workers, if the graph lacks what the
	// task needs.
	Begin(e Env) (Task, error)
	// Predicts lets params load the task's own weights beside the model's. It returns a function that turns
	// the model's output into predictions, in place; nil: the output is the prediction.
	Predicts(params *nn.Params, weights nn.State) func(output *tensor.Matrix)
}

// Env is what a task needs of a worker.
type Env struct {
	Team     *kernel.Team
	World    *comm.Comm
	Share    *partition.Share // the worker's share, with all edges
	Vertices []int32          // the vertices of this worker's outputs, as engine.Inference has them; nil: all
	Params   *nn.Params       // the model's; the task adds its own
	Fetches  *links.Fetches   // of a plan, from the function Fetches; nil: the task is of a run
	// Loss is a loss for labels in place of the kind's own. It may be nil.
	Loss nn.OwnLoss
	// Edges returns the numbers, in the graph's store, of the edges of this worker's outputs, if these are
	// rows of the edges of a relation: −1 for a row without an edge. A plan has them in another order. nil:
	// the outputs are rows of vertices.
	Edges func(relation *graph.Relation) []int64
	// Passing is the share with the edges that pass messages.
	Passing *partition.Share
	// EdgeUnits says that the model takes the features of edges as standard scores, which the task finds.
	EdgeUnits bool
	// Trained is the task of the training graph, if this graph validates its model. The metric, the number of
	// classes and their weights are then those of Trained. nil: this graph is trained on.
	Trained Task
}

// Task is the task on one worker. It takes the model's output, a row for each of Env.Vertices. All workers
// call its methods together, also in a plan.
type Task interface {
	// Metric is the name of the metric.
	Metric() string
	// Loss returns the gradient of the output, and a function that returns this worker's part of an epoch's
	// training loss. The function is called once, and may wait for a card.
	Loss(epoch int, output *autograd.Var) (part func() float64, grad *tensor.Matrix)
	// Measuring says how the output of a pass is measured. It leaves the output as it is.
	Measuring(output *autograd.Var) Measuring
	// Validates reports whether any worker has something to validate on, as far as this worker knows.
	Validates() bool
	// HasValidationLoss reports whether there is a validation loss: there are validation vertices or edges,
	// and their classes do not all weigh 0.
	HasValidationLoss() bool
	// OneClass reports whether all labels are of one class, as far as this worker knows. Then there is
	// nothing to learn.
	OneClass() bool
	// Predict turns the model's output into predictions, in place.
	Predict(output *tensor.Matrix)
	// Report returns further results of the best epoch's predictions; nil: none.
	Report(predictions *tensor.Matrix) (*Links, error)
}

// known makes a Loss's results of a known part, for which nobody waits.
func known(part float64, grad *tensor.Matrix) (func() float64, *tensor.Matrix) {
	return func() float64 { return part }, grad
}

// Measuring says how an output is measured. All workers call Loss and then, unless numbers are not finite,
// Measure with the values of Sums.
type Measuring struct {
	Sums []kernel.Sum
	// Loss returns this worker's part of the validation loss.
	Loss func(sums []float64) (part float64)
	// Measure returns the metric on each part of the split, NaN for an empty part. The loss is not among the
	// scores.
	Measure func(sums []float64) (metric.Scores, error)
}

// The tasks by name.
const (
	Vertex = "vertex"
	Link   = "link"
	Edge   = "edge"
)

// kinds makes each task, the default first.
var kinds = []struct {
	name string
	make func(Goal) Kind
}{
	{Vertex, func(o Goal) Kind { return labelPrediction{o, graph.VertexRows} }},
	{Link, func(o Goal) Kind { return linkPrediction{o} }},
	{Edge, func(o Goal) Kind { return labelPrediction{o, graph.EdgeRows} }},
}

// Names are the tasks, the default first.
func Names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Goal says what is learned.
type Goal struct {
	Task   string `yaml:"task"`   // one of Names
	Metric string `yaml:"metric"` // one of the kind's metrics, or metric.Auto
	Seed   uint64 `yaml:"seed"`   // for all that is drawn

	// For the tasks Vertex and Edge.
	Split          Split   `yaml:"split"`
	SplitSeed      uint64  `yaml:"split-seed"`      // for a Split by a rule
	Loss           string  `yaml:"loss"`            // one of LossNames, or a file
	FocalGamma     float64 `yaml:"focal-gamma"`     // γ of Focal, above 0
	ClassWeights   string  `yaml:"class-weights"`   // NoClassWeights, Balanced or a file
	LabelSmoothing float64 `yaml:"label-smoothing"` // in [0, 1)
	LabelInput     float64 `yaml:"label-input"`     // for nn.LabelInput; 0: labels are no input
	Calibrate      string  `yaml:"calibrate"`       // one of calibrate.Methods, for predictions of the result

	// For the task Edge.
	EdgeLabel     string  `yaml:"edge-label"`    // the column of the labels
	PassMessages  string  `yaml:"pass-messages"` // PassAuto, PassAll or PassEarlier
	passed        *Passed // set by AsPassed
	DecoderLayers int     `yaml:"decoder-layers"` // linear layers
	DecoderHidden int     `yaml:"decoder-hidden"` // width of these layers; 0: that of a hidden layer

	// For the task Link; OutFeatures and Decoder are for Edge, too.
	LinkSplit Shares `yaml:"link-split"`
	// LinkRelation names the relations to learn; empty: those of a stored split, or of the first vertex type.
	LinkRelation Relations `yaml:"link-relation"`
	Negatives    int       `yaml:"negatives"` // negative edges drawn for each training edge
	// EvalNegatives is the number of negatives among which each positive edge is ranked; 0: all vertices of
	// the target's type.
	EvalNegatives int    `yaml:"eval-negatives"`
	OutFeatures   int    `yaml:"out-features"` // columns of an embedding, 0: those of a hidden layer
	Decoder       string `yaml:"decoder"`      // one of Decoders, or MLP
}

// New returns the kind that the goal describes, or nil if no kind has that name.
func New(o Goal) Kind {
	for _, k := range kinds {
		if k.name == o.Task {
			return k.make(o)
		}
	}
	return nil
}

// Shares are the percentages of training, validation and test edges. Their text form is "85/5/10".
type Shares [3]float64

// DefaultShares are the Shares of link prediction without a setting.
var DefaultShares = Shares{85, 5, 10}

// UnmarshalText implements encoding.TextUnmarshaler. It reads "85/5/10".
func (s *Shares) UnmarshalText(text []byte) error {
	var read Shares
	fields := strings.Split(string(text), "/")
	sum := 0.0
	for i := range read {
		if len(fields) != len(read) {
			break
		}
		x, err := number.Parse(fields[i], 64)
		if err != nil || !(x >= 0) {
			x = math.NaN()
		}
		read[i], sum = x, sum+x
	}
	if !(math.Abs(sum-100) < 1e-9) || read[0] == 0 {
		return errors.New("must be three percentages that add up to 100, the first above 0, as in 85/5/10")
	}
	*s = read
	return nil
}

func (s Shares) String() string { return fmt.Sprintf("%v/%v/%v", s[0], s[1], s[2]) }

// Relations are the relations that link prediction learns, each as its source type, its name and its target
// type. Their text form is "author,writes,paper", several with ";" between them, and "" for the relations of
// the first vertex type.
type Relations string

// UnmarshalText implements encoding.TextUnmarshaler. It reads "author,writes,paper;paper,cites,paper".
func (r *Relations) UnmarshalText(text []byte) error {
	read := Relations(text)
	for _, triple := range read.triples() {
		if slices.Contains(triple[:], "") {
			return errors.New("must be a source type, a relation and a target type, as in " +
				"author,writes,paper, and several with ; between them")
		}
	}
	*r = read
	return nil
}

// triples are the relations as triples of names; nil: none is named. A relation that is no triple has empty
// names.
func (r Relations) triples() (all [][3]string) {
	if r == "" {
		return nil
	}
	for _, text := range strings.Split(string(r), ";") {
		var triple [3]string
		if names := strings.Split(text, ","); len(names) == len(triple) {
			for i, name := range names {
				triple[i] = strings.TrimSpace(name)
			}
		}
		all = append(all, triple)
	}
	return all
}
