package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/autograd"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
)

const meanReciprocalRank = "mrr"

// LinkMetrics are the measures of edges, higher ones better. But for the area under the curve they are
// means over ranks.
var LinkMetrics = []string{rocAUCMetric, meanReciprocalRank, "hits@1", "hits@3", "hits@10"}

// ofRank are the values that these are means of.
var ofRank = map[string]func(rank float64) float64{
	meanReciprocalRank: func(rank float64) float64 { return 1 / rank },
	"hits@1":           hits(1),
	"hits@3":           hits(3),
	"hits@10":          hits(10),
}

func hits(k float64) func(float64) float64 {
	return func(rank float64) float64 {
		if rank <= k {
			return 1
		}
		return 0
	}
}

// The decoders: h_u·h_v, and the same with a weight for each relation and column.
const (
	dotDecoder = "dot"
	distMult   = "distmult"
)

var decoders = []string{dotDecoder, distMult}

// decoderWeights is the name of DistMult's in files.
const decoderWeights = "decoder.weight"

// LinkSplit are percentages of the edges that train, validate and test. Its text form is "85/5/10".
type LinkSplit [3]float64

// ParseLinkSplit reads "85/5/10".
func ParseLinkSplit(text string) (s LinkSplit, err error) {
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

// String writes the percentages so that ParseLinkSplit reads them.
func (s LinkSplit) String() string { return fmt.Sprintf("%v/%v/%v", s[0], s[1], s[2]) }

// draw is what is random about edges that are learned.
func (o *Options) draw() *links.Draw { return &links.Draw{Seed: o.Seed, Shares: o.LinkSplit} }

// linkPrediction is the task of learning which vertices an edge joins: those of the first type, in each
// relation that joins it with itself. The model's output is an embedding of each vertex. Edges that
// validate or test pass no messages.
type linkPrediction struct{}

func (linkPrediction) metrics() []string { return LinkMetrics }

func (linkPrediction) parameters() []string { return []string{decoderWeights} }

func (linkPrediction) outputs(o *Options, _ *partition.Whole) int {
	return cmp.Or(o.Embedding, o.Hidden)
}

// check leaves to begin what only the edges tell.
func (linkPrediction) check(*Options, *partition.Whole, *graph.Labels) error { return nil }

func (linkPrediction) message(j *Job, full *partition.Share) (*partition.Share, error) {
	return j.kept.Of(full)
}

func (linkPrediction) explain(w *worker, p *workerPlan) {
	if w.o.LinkSplit[links.Val] == 0 || w.groups.World.Size() == 1 && !w.task.validates() {
		p.Warnings = append(p.Warnings, lastCounts(w.o, "edges"))
	}
	if w.groups.World.Size() > 1 {
		p.Work = append(p.Work, "the workers also send each other rows at the ends of learned edges, and their gradients: "+
			"as other edges are drawn against them in each epoch, these bytes are not planned")
	}
}

func (linkPrediction) begin(j *Job, w *worker, full *partition.Share) (task, error) {
	places, err := j.kept.Places(full)
	if err != nil {
		return nil, err
	}
	edges, err := links.New(w.team, w.groups.World, full, places, links.Options{Draw: *w.o.draw(), RankAmong: w.o.EvalNegatives})
	if err != nil {
		return nil, err
	}
	// In a plan a worker knows only its own
	if edges.Counts[links.Train] == 0 && (!w.team.Planning() || w.groups.World.Size() == 1) {
		return nil, &Common{Err: refusal.Graph.Errorf("the graph has no edges to train on: %s %s learns those between different vertices of its only type, "+
			"or of the type that has labels, and %s %s divides them", refusal.Setting("task"), LinkTask, refusal.Setting("link-split"), w.o.LinkSplit)}
	}
	l := &learnedEdges{worker: w, edges: edges}
	if w.o.Decoder == distMult {
		width := linkPrediction{}.outputs(w.o, nil)
		p := w.params.Matrix(decoderWeights, edges.Relations(), width, nn.Glorot(edges.Relations(), width))
		l.decoder = links.Decoder{Weights: p.Value, Grad: p.Grad}
	}
	w.metric = w.o.Metric
	if w.metric == autoMetric {
		w.metric = meanReciprocalRank
	}
	return l, nil
}

// learnedEdges is link prediction on a worker.
type learnedEdges struct {
	*worker
	edges   *links.Edges
	decoder links.Decoder
}

func (l *learnedEdges) loss(embeddings *autograd.Var) (float64, *tensor.Matrix) {
	return l.edges.Loss(embeddings.Value(), l.decoder, l.epoch, l.o.Negatives)
}

func (l *learnedEdges) validationLoss(embeddings *autograd.Var) float64 {
	return l.edges.LossOf(l.edges.Scores(embeddings.Value(), l.decoder, links.Val), links.Val)
}

func (l *learnedEdges) validates() bool { return l.edges.Counts[links.Val] > 0 }

// measure leaves the edges that train out: the model has seen them.
func (l *learnedEdges) measure(embeddings *tensor.Matrix, s *scores) error {
	s.train = math.NaN()
	for _, part := range []struct {
		links.Part
		to *float64
	}{{links.Val, &s.val}, {links.Test, &s.test}} {
		measured, err := l.measures(embeddings, part.Part, l.metric)
		if err != nil {
			return err
		}
		*part.to = float64(measured[l.metric])
	}
	return nil
}

func (l *learnedEdges) report(embeddings *tensor.Matrix, r *Result) (err error) {
	n := l.edges.Counts
	r.Links = &Links{TrainEdges: n[links.Train], ValEdges: n[links.Val], TestEdges: n[links.Test]}
	names := LinkMetrics
	if l.metric == rocAUCMetric { // ranks may take longer than all that was asked for
		names = []string{rocAUCMetric}
	}
	if r.Links.Val, err = l.measures(embeddings, links.Val, names...); err != nil {
		return err
	}
	r.Links.Test, err = l.measures(embeddings, links.Test, names...)
	return err
}

// measures are some of the edges of a part, by name, NaN where there are none.
func (l *learnedEdges) measures(embeddings *tensor.Matrix, part links.Part, names ...string) (map[string]Number, error) {
	measured := map[string]Number{}
	var ranked []string
	for _, name := range names {
		if ofRank[name] != nil {
			ranked = append(ranked, name)
			continue
		}
		scores := l.edges.Scores(embeddings, l.decoder, part)
		if l.team.Planning() {
			continue
		}
		area, err := areaUnder(l.groups.World, len(scores), func(i int) (float64, bool) { return float64(scores[i]), i%2 == 0 })
		if err != nil {
			return nil, err
		}
		measured[name] = Number(area)
	}
	if len(ranked) == 0 {
		return measured, nil
	}
	ranks := l.edges.Ranks(embeddings, l.decoder, part)
	if l.team.Planning() {
		return measured, nil
	}
	sums := make([]float64, len(ranked))
	for i, name := range ranked {
		for _, rank := range ranks {
			sums[i] += ofRank[name](rank)
		}
	}
	err := sum(l.groups.World, sums)
	for i, name := range ranked {
		measured[name] = Number(sums[i] / float64(l.edges.Counts[part]))
	}
	return measured, err
}
