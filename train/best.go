package train

import (
	"math"

	"weft/nn"
)

// best remembers the best epoch so far.
type best struct {
	epoch    int // 0: none yet
	scores   scores
	weights  nn.Snapshot
	byLoss   bool // the lowest validation loss makes the best epoch, and not the highest metric
	patience int
	lowest   float64 // validation loss
	since    int     // the epoch of the last progress
	seen     int     // the last epoch that was evaluated
}

func newBest(o *Options) *best { return &best{byLoss: o.Select == selectLoss, patience: o.Patience} }

// take takes note of an epoch's scores, and keeps its weights if it is the best.
func (b *best) take(epoch int, s scores, params *nn.Params) {
	b.seen = epoch
	if s.fault == "" && b.better(epoch, s) {
		params.Save(&b.weights)
	}
}

// better reports whether the epoch is better than all before. Without validation vertices the last epoch is
// the best.
func (b *best) better(epoch int, s scores) bool {
	higher := b.epoch == 0 || math.IsNaN(s.val) || s.val > b.scores.val
	lower := b.epoch == 0 || math.IsNaN(s.valLoss) || s.valLoss < b.lowest
	better, progress := higher, higher || lower
	if b.byLoss {
		better, progress = lower, lower
	}
	if lower {
		b.lowest = s.valLoss
	}
	if progress {
		b.since = epoch
	}
	if better {
		b.epoch, b.scores = epoch, s
	}
	return better
}

// exhausted reports whether patience ran out: so many epochs have not lowered the validation loss nor, where
// the metric makes the best epoch, raised the metric.
func (b *best) exhausted(epoch int) bool { return b.patience > 0 && epoch-b.since >= b.patience }
