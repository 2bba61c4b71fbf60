package train

import (
	"math"

	"weft/nn"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/worker"
)

// progress is what the epochs of a run so far have come to.
type progress struct {
	epoch int // the last one
	curve []Epoch
	best  best
}

// best remembers the best epoch so far.
type best struct {
	epoch    int // 0: none yet
	scores   metric.Scores
	weights  nn.Snapshot
	byLoss   bool // select the lowest validation loss, not the best metric
	smaller  bool // of two metrics the smaller is better
	patience int
	lowest   float64 // validation loss
	since    int     // the epoch of the last progress: of the loss, or of the metric where it selects
	seen     int     // the last epoch that was evaluated
}

// take records an epoch's scores, and keeps its weights if it is the best so far.
func (b *best) take(epoch int, s worker.Scores, params *nn.Params) {
	b.seen = epoch
	if s.Fault == "" && b.better(epoch, s.Scores) {
		params.Save(&b.weights)
	}
}

// better reports whether the epoch is better than all earlier ones. Without validation vertices every epoch
// is better. If there is a metric but no loss, as with class weights of 0, the metric alone decides.
func (b *best) better(epoch int, s metric.Scores) bool {
	gained := b.epoch == 0 || math.IsNaN(s.Val) || s.Val > b.scores.Val && !b.smaller ||
		s.Val < b.scores.Val && b.smaller
	lower := b.epoch == 0 || s.ValLoss < b.lowest || math.IsNaN(s.ValLoss) && (b.byLoss || math.IsNaN(s.Val))
	better, progress := gained, gained || lower
	if b.byLoss {
		better, progress = lower, lower
	}
	if lower {
		b.lowest = s.ValLoss
	}
	if progress {
		b.since = epoch
	}
	if better {
		b.epoch, b.scores = epoch, s
	}
	return better
}

// measure is what selects the best epoch.
func (b *best) measure(e *Epoch) float64 {
	if b.byLoss {
		return e.ValLoss
	}
	return e.Val
}

// BestOf is the best of the epochs of a run so far, by the options and the metric of the run. Its Epoch is 0
// if no epoch is evaluated with finite numbers.
func BestOf(curve []Epoch, o *setting.Options, name string) (e Epoch) {
	b := best{byLoss: o.Select == setting.SelectLoss, smaller: metric.SmallerIsBetter(name)}
	for _, epoch := range curve {
		if !epoch.Evaluated || math.IsNaN(epoch.Train) && math.IsNaN(epoch.Val) && math.IsNaN(epoch.Test) {
			continue
		}
		if b.better(epoch.Epoch, epoch.Scores) {
			e = epoch
		}
	}
	return e
}

// exhausted reports whether patience has run out: for so many epochs the validation loss has not fallen.
// Where the metric selects the best epoch, it has not improved either.
func (b *best) exhausted(epoch int) bool { return b.patience > 0 && epoch-b.since >= b.patience }

// bestRecord is best without its weights and settings.
type bestRecord struct {
	Epoch int `json:"epoch"`
	metric.Numbers
	Lowest metric.Number `json:"lowest_val_loss"`
	Since  int           `json:"progress"` // the same as best.since
	Seen   int           `json:"evaluated"`
}

func (b *best) record() bestRecord {
	return bestRecord{b.epoch, b.scores.Numbers(), metric.Number(b.lowest), b.since, b.seen}
}

func (b *best) restore(r bestRecord) {
	b.epoch = r.Epoch
	b.scores = r.Scores()
	b.lowest = float64(r.Lowest)
	b.since = r.Since
	b.seen = r.Seen
}
