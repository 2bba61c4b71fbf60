package task

import (
	"slices"

	"weft/graph"
	"weft/nn"
	"weft/partition"
)

// loss is a loss of labels that Goal.Loss names.
type loss struct {
	name      string
	labelKind labels
	// classes makes a loss of classes; it returns nil for the cross-entropy.
	classes func(Goal) nn.ClassLoss
	values  nn.Distance // for the standard scores of values
	// several says that a row may have several labels. The loss is then binary, by σ.
	several bool
	smooths bool // the loss takes Goal.LabelSmoothing
}

// labels are the kind of labels for which a loss is: classes or values.
type labels interface {
	String() string
	outputs(*partition.WholeFrame) int
	metric(asked string, frame *partition.WholeFrame, l *graph.Labels) (string, error)
	// begin makes the labels the target of a worker's rows.
	begin(k labelPrediction, l loss, v *rows) error
}

// AutoLoss is the first loss of the graph's labels.
const AutoLoss = "auto"

// Losses for which some settings are.
const (
	CrossEntropy = "cross-entropy" // by softmax, or binary, by σ, if a row may have several labels
	Focal        = "focal"         // by softmax
)

var losses = []loss{
	{name: CrossEntropy, labelKind: ofClasses{}, several: true, smooths: true},
	{
		name: Focal, labelKind: ofClasses{},
		classes: func(o Goal) nn.ClassLoss { return nn.Focal(o.FocalGamma) },
	},
	{name: "mse", labelKind: ofValues{}, values: nn.Squared},
	{name: "mae", labelKind: ofValues{}, values: nn.Absolute},
	{name: "huber", labelKind: ofValues{}, values: nn.Huber},
}

// LossNames are the losses of labels, the default first.
func LossNames() []string {
	return append([]string{AutoLoss}, lossesThat(func(loss) bool { return true })...)
}

// SmoothedLosses are the losses that take label smoothing.
func SmoothedLosses() []string {
	return append([]string{AutoLoss}, lossesThat(func(l loss) bool { return l.smooths })...)
}

// lossesThat are the names of the losses for which are reports true.
func lossesThat(are func(loss) bool) (all []string) {
	for _, l := range losses {
		if are(l) {
			all = append(all, l.name)
		}
	}
	return all
}

// labelsOf is the kind of a frame's labels: classes, if it has none.
func labelsOf(frame *partition.WholeFrame) labels {
	if frame.ValueColumns > 0 {
		return ofValues{}
	}
	return ofClasses{}
}

// loss is the loss for which the goal asks, for labels of a kind. A loss in a file replaces it; the graph's
// labels are then used as by the first loss.
func (k labelPrediction) loss(kind labels) loss {
	named := k.Loss != AutoLoss && slices.Contains(LossNames(), k.Loss)
	return losses[slices.IndexFunc(losses, func(l loss) bool {
		return l.name == k.Loss || !named && l.labelKind == kind
	})]
}
