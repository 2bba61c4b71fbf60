package task

import (
	"slices"

	"weft/graph"
	"weft/nn"
	"weft/partition"
)

// loss is a loss of vertices that Goal.Loss names.
type loss struct {
	name string
	of   labels
	// classes makes a loss of classes; it returns nil for the cross-entropy.
	classes func(Goal) nn.ClassLoss
	values  nn.Distance // of the standard scores of values
	// several says that a vertex may have several labels. The loss is then binary, of σ.
	several bool
	smooths bool // it takes Goal.LabelSmoothing
}

// labels are what a loss is of: classes or values.
type labels interface {
	String() string
	outputs(*partition.Whole) int
	metric(asked string, whole *partition.Whole, l *graph.Labels) (string, error)
	// begin makes the labels the target of a worker's vertices.
	begin(k ofVertices, l loss, v *vertices) error
}

// AutoLoss is the first loss of the graph's labels.
const AutoLoss = "auto"

// The losses that a setting is for.
const (
	CrossEntropy = "cross-entropy" // of the softmax, or binary, of σ, if a vertex may have several labels
	Focal        = "focal"         // of the softmax
)

var losses = []loss{
	{name: CrossEntropy, of: ofClasses{}, several: true, smooths: true},
	{
		name: Focal, of: ofClasses{},
		classes: func(o Goal) nn.ClassLoss { return nn.Focal(o.FocalGamma) },
	},
	{name: "mse", of: ofValues{}, values: nn.Squared},
	{name: "mae", of: ofValues{}, values: nn.Absolute},
	{name: "huber", of: ofValues{}, values: nn.Huber},
}

// LossNames are the losses of vertices, the default first.
func LossNames() []string {
	return append([]string{AutoLoss}, lossesThat(func(loss) bool { return true })...)
}

// SmoothedLosses are those that take label smoothing.
func SmoothedLosses() []string {
	return append([]string{AutoLoss}, lossesThat(func(l loss) bool { return l.smooths })...)
}

// lossesThat are the losses that are so, by name.
func lossesThat(are func(loss) bool) (all []string) {
	for _, l := range losses {
		if are(l) {
			all = append(all, l.name)
		}
	}
	return all
}

// labelsOf is the kind of a graph's labels: classes, if it has none.
func labelsOf(whole *partition.Whole) labels {
	if whole.ValueColumns > 0 {
		return ofValues{}
	}
	return ofClasses{}
}

// loss is the loss that the goal asks for on labels of a kind. A file has another, and its graph what the
// first loss has.
func (k ofVertices) loss(of labels) loss {
	named := k.Loss != AutoLoss && slices.Contains(LossNames(), k.Loss)
	return losses[slices.IndexFunc(losses, func(l loss) bool {
		return l.name == k.Loss || !named && l.of == of
	})]
}
